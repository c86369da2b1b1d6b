"""Partitions of FIFO queues under load on several cells: hot ones are split, old ones forgotten."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from control_plane.cluster import running
from control_plane.core.definition import Definition
from control_plane.master_keys import open_keys
from control_plane.server import TidegateServer
from control_plane.several_opening import as_opened, open_several
from data_plane.core.queue import Generation
from data_plane.http.logs import LogWriter
from data_plane.protocol.http import HttpRequest
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

LIMIT_S: Final = 120
DAY_S: Final = 86_400
QUEUE: Final = "busy.fifo"
HIGH: Final = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}


def test_a_busy_queue_is_split_and_forgets_what_is_done_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "IDLE_US", 1_000_000)
    asyncio.run(_story(ServerSettings(data=tmp_path, auth="off", cells=3, usage="off")))


async def _story(settings: ServerSettings) -> None:
    clock = SystemClock()
    several = await open_several(settings, clock, SystemEntropy())
    opened = as_opened(several)
    keys = await open_keys(settings, opened.control, clock, SystemEntropy())
    log = LogWriter(lambda _line: None, clock, "error")
    server = TidegateServer(settings, opened, keys, clock, log, several)
    managing = server.managing
    assert managing is not None
    cluster = managing._cluster
    # What takes 10 minutes of 20 sends a second, sooner.
    eager = {"split_period_us": 0, "split_appends_per_s": 0.1}
    managing._cluster = replace(cluster, options=_with(cluster.options, eager))
    try:
        await _call(server, "CreateQueue", {"QueueName": QUEUE, "Attributes": HIGH})
        await _have_past_generations(server, settings)
        until_us = clock.now_us() + LIMIT_S * 1_000_000
        while (found := await _partitions(server, settings)) != [2, 8, 16]:
            assert found in ([1, 2, 8], [2, 8], [1, 2, 8, 16]), found
            assert clock.now_us() < until_us, managing.told()
            await _send(server)
            await several.look()
            await several.beat()
            await managing.step()
            await asyncio.sleep(0.02)  # between two looks at what the manager does
        while not await _receive(server):
            assert clock.now_us() < until_us, "what was sent is not delivered"
    finally:
        await managing.close()
        await opened.close()
        keys.close()
        server.cache.close()


def _with(options: Any, changed: dict[str, float]) -> Any:
    members = {name: getattr(options, name) for name in options.__struct_fields__}
    return type(options)(**{**members, **changed})


async def _call(server: TidegateServer, action: str, params: dict[str, Any]) -> dict[str, Any]:
    headers = {
        "host": "localhost",
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": f"AmazonSQS.{action}",
    }
    request = HttpRequest("POST", "/", "", headers, json.dumps(params).encode(), "127.0.0.1")
    response = await server.service.front_end.answer(request)
    assert response.status == 200, response.body
    answer: dict[str, Any] = json.loads(response.body or b"{}")
    return answer


def _url(server: TidegateServer) -> str:
    return f"http://localhost/{server.settings.account}/{QUEUE}"


async def _send(server: TidegateServer) -> None:
    entries = [
        {
            "Id": str(n),
            "MessageBody": SystemEntropy().random_bytes(8).hex(),
            "MessageGroupId": str(n),
        }
        for n in range(10)
    ]
    params = {"QueueUrl": _url(server), "Entries": entries}
    assert len((await _call(server, "SendMessageBatch", params))["Successful"]) == 10


async def _receive(server: TidegateServer) -> int:
    params = {"QueueUrl": _url(server), "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20}
    return len((await _call(server, "ReceiveMessage", params)).get("Messages", []))


def _name(settings: ServerSettings) -> tuple[str, str, str]:
    return settings.account, settings.region, QUEUE


async def _definition(server: TidegateServer, settings: ServerSettings) -> Definition:
    definition = await server.registry.read(*_name(settings))
    assert definition is not None
    return definition


async def _partitions(server: TidegateServer, settings: ServerSettings) -> list[int]:
    definition = await _definition(server, settings)
    return [one.partitions for one in definition.generations]


async def _have_past_generations(server: TidegateServer, settings: ServerSettings) -> None:
    """One whose messages have all expired, and one whose messages have not."""
    now_s = server.clock.now_us() // 1_000_000
    past = (
        Generation(0, 1, now_s - 30 * DAY_S),
        Generation(1, 2, now_s - 20 * DAY_S),
        Generation(2, 8, now_s - DAY_S),
    )
    definition = await _definition(server, settings)
    await server.registry.change(
        server.registry.queue(definition), lambda current: replace(current, generations=past)
    )
    # Until it is asked for anew the queue is known as it was.
    while (known := await server.registry.find(*_name(settings))) and known.generations != past:
        await server.waits.sleep_until(server.clock.now_us() + 100_000)
