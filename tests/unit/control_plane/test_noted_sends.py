"""A server of several embedded cells notes what was sent before it drops it."""

from pathlib import Path

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
from data_plane.usage.sent import PARTITION
from tests.unit.control_plane.starting import play

pytestmark = pytest.mark.usefixtures("patience")


def test_a_server_of_several_cells_notes_what_was_sent(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        settings, clock, entropy = (
            ServerSettings(data=tmp_path, cells=3),
            SystemClock(),
            SystemEntropy(),
        )
        opened = as_opened(several)
        keys = await open_keys(settings, opened.cell, clock, entropy)
        usage = await open_usage(settings, several.standard, opened.control, clock, entropy)
        log = LogWriter(lambda _: None, clock, "info")
        server = TidegateServer(settings, opened, keys, clock, log, several, usage)
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
