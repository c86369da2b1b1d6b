"""Receives while the store is slow: each is answered by its own deadline, and nothing is lost."""

import asyncio

import pytest

from data_plane.core.deadline import deadline
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.log.engine import Log
from data_plane.ports import DeadlinePassedError
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.log.conftest import QUEUE
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run
from tests.unit.data_plane.slow_store import SlowCell, took
from tests.unit.repeatable import SeededEntropy

DEADLINE_S = 15
SLOW_S = 9.0


async def receive(log: Log, loop: VirtualLoop, wait_s: int = 0) -> list[Delivery]:
    with deadline(loop.now_us() + (DEADLINE_S + wait_s) * 1_000_000):
        until_us = loop.now_us() + wait_s * 1_000_000
        return await log.receive(QUEUE, count=10, visibility_s=30, until_us=until_us)


def test_a_receive_is_let_go_at_its_own_deadline_and_leaves_nothing_leased() -> None:
    loop = VirtualLoop()
    cell = SlowCell(loop, 32)
    log = Log({"a": cell}, loop, SeededEntropy(), EventLoopWaits(loop))

    async def main() -> None:
        assert not await receive(log, loop)
        cell.threads.takes_s = SLOW_S
        first = asyncio.create_task(receive(log, loop))
        await asyncio.sleep(1)  # until its page is under way: what comes now shares the next one
        polls = [asyncio.create_task(receive(log, loop, 20)) for _ in range(3)]
        seconds, outcome = await took(receive(log, loop))
        assert isinstance(outcome, DeadlinePassedError)
        assert seconds == pytest.approx(DEADLINE_S, abs=0.01)
        await asyncio.gather(first, *polls, return_exceptions=True)

        cell.threads.takes_s = 0.005
        message = Outgoing(body="m", size=1, group="g", deduplication_id="1")
        await log.send(QUEUE, SendCall(QUEUE.account, [message]))
        assert [one.message.body for one in await receive(log, loop)] == ["m"]

    run(main(), loop)
