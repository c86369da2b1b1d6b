"""Upkeep of many queues where a cell does not answer."""

import asyncio
from dataclasses import replace

import pytest

from data_plane.bag import sending
from data_plane.bag.bounds import COLLECT_AFTER_US
from data_plane.bag.engine import Bag
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.receipt_handle import decode
from data_plane.ports import CellUnavailableError
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.replication.conftest import CellThatFails
from tests.unit.repeatable import HandClock, SeededEntropy

FAILING = replace(QUEUE, uid="00000000000000a1", cell="one")
WELL = replace(QUEUE, uid="00000000000000a2", cell="two")


def test_a_cell_that_fails_holds_up_no_queue_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "BLOCK_FULL_MESSAGES", 1)
    clock = HandClock()
    cells = {name: CellThatFails(clock) for name in ("one", "two")}
    bag = Bag(dict(cells), clock, SeededEntropy(), EventLoopWaits(clock))

    async def story() -> None:
        for queue in (FAILING, WELL):
            await bag.send(queue, SendCall("s", [Outgoing(body="x", size=1)]))
            clock.advance(1)
            (taken,) = await bag.receive(queue, count=10, visibility_s=30, until_us=0)
            await bag.delete(queue, [decode(taken.receipt_handle, queue)])
        clock.advance(COLLECT_AFTER_US / 1_000_000 + 1)
        cells["one"].down = True
        with pytest.raises(CellUnavailableError):
            await bag.sweep()
        assert bodies_in(cells["two"]) == 0
        assert bodies_in(cells["one"]) == 1
        cells["one"].down = False
        await bag.sweep()
        assert bodies_in(cells["one"]) == 0

    asyncio.run(story())


def bodies_in(cell: CellThatFails) -> int:
    return sum("z" in item.attributes for item in cell.items())
