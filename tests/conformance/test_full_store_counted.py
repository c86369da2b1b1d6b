"""A full store of copies is freed as soon as one cell is, though what was sent is not recorded yet.

That takes until minutes are over: two at least.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from data_plane.ports import Cell, CellFullError, CellUnavailableError, Key
from data_plane.replication.fanout import Fanout
from data_plane.system import SystemEntropy
from data_plane.usage.record import UsageRecord
from data_plane.usage.sent import SentRecords, SentStores
from tests.conformance.test_full_store import KINDS, Site, play
from tests.property.test_sent_survives import Place

DUE_S = 31
"""When the sweep may begin, of a site."""

STEPS_MAX = 8
"""Steps are due each second: with the 51 s that a server lets requests end, below a minute."""

_Records = dict[tuple[str, int], UsageRecord]


def counting(site: Site, records: _Records) -> SentRecords:
    """Have a site's sends counted, as a server does that has the cells alone."""
    engine, ground = site.service.engine, site.ground
    fifo_cells = ground.fifo_cells
    assert fifo_cells is not None
    stores = SentStores(ground.control, ground.cells, fifo_cells, alone=True)
    desks = (engine.bag.sent, engine.log.sent)
    place: Any = Place(records)
    sent = SentRecords(stores, desks, place, SystemEntropy(), lambda: asyncio.sleep(0))
    engine.before_sends = sent.announce
    site.service.sweep.note_sent = sent.note
    return sent


async def _fail(*_: Any) -> None:
    raise CellUnavailableError("away")


async def drop_all(site: Site) -> None:
    """Take the steps of a few seconds."""
    site.clock.advance(DUE_S)
    registry = site.service.registry
    for _ in range(STEPS_MAX):
        await site.service.sweep.step()
        if not await registry.purges(9) and not await registry.dropped(9):
            return
    raise AssertionError("something is left to be dropped")


async def recorded(site: Site, sent: SentRecords, records: _Records) -> int:
    """How many messages are counted once the minutes are over."""
    site.clock.advance(180)
    await sent.write()
    return sum(record.messages for record in records.values())


async def use_up(cell: Cell) -> None:
    """Store something of nobody's until there is left what only frees may take."""
    for number in range(10_000):
        try:
            await cell.put(Key("M|nobody", number.to_bytes(4, "big")), {"z": bytes(8_000)})
        except CellFullError:
            return


@KINDS
@pytest.mark.parametrize("crashes", [False, True], ids=["goes on", "crashes"])
@pytest.mark.parametrize("operation", ["PurgeQueue", "DeleteQueue"])
def test_what_was_sent_just_now_is_dropped_and_counted(
    tmp_path: Path, operation: str, *, crashes: bool, fifo: bool
) -> None:
    async def story(site: Site) -> None:
        records: _Records = {}
        sent = counting(site, records)
        await site.create("big")
        await site.create("other")
        filled = await site.fill("big")
        used_bytes = site.used_bytes
        for cell in site.cells.values():
            await use_up(cell)
        await site.done(operation, QueueUrl=site.name("big"))
        await drop_all(site)
        assert not records
        assert site.used_bytes < used_bytes / 2
        if crashes:
            site = Site(site.cells, site.clock, fifo=fifo)
            sent = counting(site, records)
        assert await site.send("other") == 200
        assert await recorded(site, sent, records) == filled + 1

    play(tmp_path, "abc", story, fifo=fifo)


def test_what_nobody_knows_of_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a minute in which a write failed the records come three quarters of an hour later."""

    async def story(site: Site) -> None:
        records: _Records = {}
        sent = counting(site, records)
        await site.create("big")
        for _ in range(5):
            assert await site.send("big") == 200
        used_bytes = site.used_bytes
        with monkeypatch.context() as patched:
            patched.setattr(Fanout, "append", _fail)
            assert await site.send("big") == 503
        assert await recorded(site, sent, records) == 0
        await site.done("PurgeQueue", QueueUrl=site.name("big"))
        await drop_all(site)
        assert site.used_bytes < used_bytes / 3
        site.clock.advance(3_600)
        assert await recorded(site, sent, records) == 5

    play(tmp_path, "abc", story, fifo=False)
