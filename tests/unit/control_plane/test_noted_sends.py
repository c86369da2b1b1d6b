"""A server of several embedded cells notes what was sent before it drops it, and records it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from control_plane.core.definition import Definition
from control_plane.master_keys import open_keys
from control_plane.server import TidegateServer
from control_plane.several_cells import SeveralCells
from control_plane.several_opening import as_opened
from control_plane.usage import open_usage
from data_plane.core.message import Outgoing, SendCall
from data_plane.http.logs import LogWriter
from data_plane.settings import ServerSettings
from data_plane.stored.sent_minutes import sent_to
from data_plane.system import SystemClock, SystemEntropy
from data_plane.usage import writer
from data_plane.usage.place import UsagePlace
from data_plane.usage.sent import PARTITION, SentRecords
from tests.unit.control_plane.starting import play
from tests.unit.data_plane.http.test_metrics import served

pytestmark = pytest.mark.usefixtures("patience")


async def served_by(several: SeveralCells, data: Path) -> TidegateServer:
    settings, clock, entropy = ServerSettings(data=data, cells=3), SystemClock(), SystemEntropy()
    opened = as_opened(several)
    keys = await open_keys(settings, opened.cell, clock, entropy)
    usage = await open_usage(settings, several.standard, opened.control, clock, entropy)
    log = LogWriter(lambda _: None, clock, "info")
    return TidegateServer(settings, opened, keys, clock, log, several, usage)


def test_a_server_of_several_cells_notes_what_was_sent(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        server = await served_by(several, tmp_path)
        clock, opened, usage = server.clock, server.opened, server.usage
        group = several.placing.place("0" * 16, {})
        made = Definition("1" * 12, "us-east-1", "orders", "0" * 16, group, 1, 1)
        queue = server.registry.queue(made)
        await server.engine.send(queue, SendCall("1", [Outgoing(body="x", size=1)]))
        until_us = clock.now_us()
        assert await server.service.sweep.note_sent(sent_to(queue), until_us) == until_us
        items = await opened.control.query(PARTITION, limit=9)
        assert [item.attributes["d"] for item in items if "s" in item.attributes] == [until_us]
        await usage.close()

    play(tmp_path, scenario)


def test_no_tail_waits_while_what_others_sent_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be all that was sent to a thousand queues since a server has crashed."""
    begun, kept = asyncio.Event(), asyncio.Event()

    async def keep(*_its: Any) -> None:
        kept.set()

    async def read_for_long(_sent: SentRecords) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(SentRecords, "write", read_for_long)
    monkeypatch.setattr(UsagePlace, "put_tail", keep)
    monkeypatch.setattr(writer, "TAIL_EVERY_US", 1)

    async def scenario(several: SeveralCells) -> None:
        server = await served_by(several, tmp_path)
        server.usage._minute = server.usage._sent_minute = 0
        server._begin_upkeep()
        try:
            await begun.wait()
            server.usage.served(served("ReceiveMessage", finished_us=server.clock.now_us()))
            async with asyncio.timeout(5):
                await kept.wait()
        finally:
            await server._upkeep.end()

    play(tmp_path, scenario)
