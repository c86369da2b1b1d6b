import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from control_plane.cells import StartError
from control_plane.master_keys import open_keys
from control_plane.one_cell import open_cell
from control_plane.process import run
from control_plane.root_account import open_root_account
from control_plane.server import TidegateServer, _written_after_us
from data_plane.core.limits import RECEIVE_WAIT_S_MAX
from data_plane.embedded.cell import EmbeddedCell
from data_plane.http import scrapes
from data_plane.http.logs import LogWriter
from data_plane.protocol.http import HttpRequest, HttpResponse
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


def test_metrics_of_many_queues_take_many_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrapes, "TURN_S", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario(server: TidegateServer, _written: list[bytes]) -> None:
        nonlocal turns
        names = [f"queue-{number:03}" for number in range(120)]
        for name in names:
            definition = server.registry.define(
                account="0" * 12, region="us-east-1", name=name, attributes={}, tags={}, now_us=1
            )
            await server.registry.create(definition, {}, 1)
        listed: list[int] = []
        list_names = server.registry.names

        async def watched(*args: Any, limit: int, **kwargs: Any) -> list[str]:
            listed.append(limit)
            return await list_names(*args, limit=limit, **kwargs)

        monkeypatch.setattr(server.registry, "names", watched)
        counting = asyncio.create_task(count())
        turns = 0
        body = (await server._metrics()).body
        # One to find each queue, one to count it, one for each piece of text.
        assert turns > 2 * len(names) + 30
        assert listed == [20] * 7, "a turn reads no more definitions than take a quarter of a ms"
        counting.cancel()
        assert all(f'queue="{name}"'.encode() in body for name in names)

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
        run(ServerSettings(data=tmp_path / "data", queues_file=file))
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
        assert kept == ["M|secrets", "Q|111111111111|us-east-1", "V|definitions"]

    play(scenario, tmp_path)


def create_user(server: TidegateServer, name: str) -> Awaitable[HttpResponse]:
    return server.service.front_end.answer(
        HttpRequest(
            method="POST",
            path="/",
            query="",
            headers={"host": "h", "x-amz-target": "AmazonSQS.TidegateCreateUser"}
            | {"content-type": "application/x-amz-json-1.0"},
            body=json.dumps({"UserName": name, "AccountId": "000000000000"}).encode(),
        )
    )


def broken(*_: object, **__: object) -> None:
    raise ArithmeticError


@pytest.mark.parametrize("observer", ["metrics", "log", "usage", "record"])
def test_an_observer_that_fails_takes_back_no_answer(tmp_path: Path, observer: str) -> None:
    async def scenario(server: TidegateServer, written: list[bytes]) -> None:
        await open_root_account(server.settings, server.service.accounts, server.log.act)
        observers = server.observers
        if observer == "record":
            observers._record = broken
        else:
            served = {**dict(observers._served), observer: broken}
            observers._served = tuple(served.items())
        response = await create_user(server, "worker")
        assert response.status == 200, response.body
        server.log.flush()
        lines = [json.loads(line) for line in b"".join(written).splitlines()]
        (told,) = [line for line in lines if line["event"] == "observer failed"]
        assert (told["observer"], told["level"]) == (observer, "error")
        text = (await server._metrics()).body.decode()
        assert f'tidegate_observer_failures_total{{observer="{observer}"}} 1.0\n' in text
        missing = {"log": {"request"}, "record": {"administration"}}.get(observer, set())
        assert {"request", "administration"} - missing <= {line["event"] for line in lines}
        counted = 'tidegate_requests_total{operation="TidegateCreateUser",status="200",code=""} 1.0'
        assert (counted in text) == (observer != "metrics")

    play(scenario, tmp_path)


def test_dropping_waits_for_a_long_poll_that_came_before_the_purge_was_done(tmp_path: Path) -> None:
    """The purge is noted when it begins, and may take until its own deadline."""

    async def scenario(server: TidegateServer, _: list[bytes]) -> None:
        deadline_s = 15.0
        settings = ServerSettings(data=tmp_path, auth="off", request_deadline_s=deadline_s)
        last_write_s = deadline_s + RECEIVE_WAIT_S_MAX + deadline_s
        assert _written_after_us(settings, server.opened) > last_write_s * 1_000_000

    play(scenario, tmp_path)
