import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from control_plane.cells import StartError, open_cell
from control_plane.master_keys import open_keys
from control_plane.server import TidegateServer, run
from data_plane.embedded.cell import EmbeddedCell
from data_plane.http.logs import LogWriter
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy
from tests.unit.data_plane.http.test_metrics import served

Scenario = Callable[[TidegateServer, list[bytes]], Awaitable[None]]


def play(scenario: Scenario, data: Path) -> None:
    async def main() -> None:
        written: list[bytes] = []
        clock = SystemClock()
        log = LogWriter(written.append, clock, "info")
        settings = ServerSettings(data=data, auth="off")
        opened = await open_cell(settings, clock)
        keys = await open_keys(settings, opened.cell, clock, SystemEntropy())
        server = TidegateServer(settings, opened, keys, clock, log)
        try:
            await scenario(server, written)
        finally:
            fail(server, None)
            await server.opened.close()

    asyncio.run(main())


def fail(server: TidegateServer, reason: str | None) -> None:
    """Let the cell fail from now on, or recover."""
    assert isinstance(server.opened.cell, EmbeddedCell)
    server.opened.cell._failure = reason


async def health(server: TidegateServer) -> tuple[int, Any]:
    response = await server._health()
    return response.status, json.loads(response.body)


def test_health_is_503_while_the_cell_does_not_answer(tmp_path: Path) -> None:
    async def scenario(server: TidegateServer, _written: list[bytes]) -> None:
        status, body = await health(server)
        assert (status, body["status"], body["cells"]) == (200, "ok", {"local": "available"})
        fail(server, "the disk is gone")
        status, body = await health(server)
        assert (status, body["status"]) == (503, "unavailable")
        assert body["cells"] == {"local": "unavailable"}

    play(scenario, tmp_path)


def test_metrics_are_there_while_the_cell_does_not_answer(tmp_path: Path) -> None:
    async def scenario(server: TidegateServer, _written: list[bytes]) -> None:
        assert b'tidegate_cell_available{cell="local"} 1.0' in (await server._metrics()).body
        fail(server, "the disk is gone")
        assert b'tidegate_cell_available{cell="local"} 0.0' in (await server._metrics()).body

    play(scenario, tmp_path)


def test_upkeep_ends_the_series_of_deleted_queues(tmp_path: Path) -> None:
    async def scenario(server: TidegateServer, _written: list[bytes]) -> None:
        definition = server.registry.define(
            account="1" * 12, region="us-east-1", name="kept", attributes={}, tags={}, now_us=1
        )
        await server.registry.create(definition, {}, 1)
        for name in ("kept", "gone"):
            server.metrics.served(served("SendMessage", queue=name, messages=1))
        await server._upkeep_step()
        assert [name for _, _, name in server.metrics.queues] == ["kept"]

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"\xff", "it is not UTF-8"),
        (b"queues", "Expected '=' after a key in a key/value pair (at end of document)"),
        (b"[queue.orders]", "queue means nothing here; a queue is a table [queues.NAME]"),
    ],
)
def test_a_wrong_file_of_queues_is_named_before_anything_starts(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "queues.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StartError) as refused:
        run(ServerSettings(data=tmp_path / "data", queues_file=file), print)
    assert str(refused.value) == f"queues: {file}: {said}"
    assert not (tmp_path / "data").exists()


def test_one_cell_has_no_items_of_several(tmp_path: Path) -> None:
    async def scenario(server: TidegateServer, _written: list[bytes]) -> None:
        definition = server.registry.define(
            account="1" * 12, region="us-east-1", name="orders", attributes={}, tags={}, now_us=1
        )
        await server.registry.create(definition, {}, 1)
        assert definition.cell == "local"
        await server._upkeep_step()
        assert isinstance(server.opened.cell, EmbeddedCell)
        kept = server.opened.cell.partitions("", 100)
        assert kept == ["M|secrets", "Q|111111111111|us-east-1"]

    play(scenario, tmp_path)
