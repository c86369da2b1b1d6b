"""A cell is added, drained and removed while messages are there: everything leaves it, in time."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import structs

from control_plane.master_keys import open_keys
from control_plane.places.report import CellCommandError, ToldGroup
from control_plane.server import TidegateServer
from control_plane.several_cells import SeveralCells
from control_plane.several_opening import as_opened, open_several
from data_plane.http.logs import LogWriter
from data_plane.ports import CellUnavailableError
from data_plane.protocol.http import HttpRequest
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

LIMIT_S: Final = 90
QUEUES: Final = {
    "standard": {},
    "ordered.fifo": {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    "four": {"TidegateReplicationFactor": "4"},
}
BATCHES: Final = 5


class Story:
    """A server of three cells without its socket; what takes ten seconds takes half of one."""

    def __init__(self, server: TidegateServer, several: SeveralCells) -> None:
        self.server = server
        self.several = several
        managing = server.managing
        assert managing is not None
        self.managing = managing
        cluster = managing._cluster
        options = structs.replace(cluster.options, grace_us=500_000, back_after_us=500_000)
        managing._cluster = replace(cluster, options=options)
        self.sent: dict[str, set[str]] = {}

    async def call(self, action: str, **params: Any) -> dict[str, Any]:
        headers = {
            "host": "localhost",
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"AmazonSQS.{action}",
        }
        body = json.dumps(params).encode()
        request = HttpRequest("POST", "/", "", headers, body, "127.0.0.1")
        response = await self.server.service.front_end.answer(request)
        assert response.status == 200, response.body
        answer: dict[str, Any] = json.loads(response.body or b"{}")
        return answer

    def url(self, name: str) -> str:
        return f"http://localhost/{self.server.settings.account}/{name}"

    async def send(self, name: str) -> None:
        for batch in range(BATCHES):
            bodies = [f"{name} {len(self.sent.get(name, ()))} {batch} {n}" for n in range(10)]
            group = {"MessageGroupId": "g"} if name.endswith(".fifo") else {}
            entries = [
                {"Id": str(n), "MessageBody": body, **group} for n, body in enumerate(bodies)
            ]
            await self.call("SendMessageBatch", QueueUrl=self.url(name), Entries=entries)
            self.sent.setdefault(name, set()).update(bodies)

    async def check_all_is_there(self) -> None:
        for name, wanted in self.sent.items():
            found: set[str] = set()
            while found != wanted:
                got = await self.call(
                    "ReceiveMessage",
                    QueueUrl=self.url(name),
                    MaxNumberOfMessages=10,
                    WaitTimeSeconds=20,
                )
                messages = got.get("Messages", [])
                assert messages, f"{name}: {len(wanted - found)} messages are not delivered"
                found |= {message["Body"] for message in messages}
                entries = [
                    {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                    for n, message in enumerate(messages)
                ]
                await self.call("DeleteMessageBatch", QueueUrl=self.url(name), Entries=entries)

    async def until(self, is_met: Callable[[], bool]) -> float:
        """How long that took."""
        begun_s = time.monotonic()
        while not is_met():
            assert time.monotonic() - begun_s < LIMIT_S, self.managing.told()
            for step in (self.several.look, self.several.beat, self.managing.step):
                with suppress(CellUnavailableError):  # as upkeep does: the next one goes on
                    await step()
            await asyncio.sleep(0.02)  # between two looks at what the manager does
        return time.monotonic() - begun_s

    def groups_of(self, cell: str) -> int:
        placements = [held.placement for held in self.several.known.placements.values()]
        return sum(any(one.cell == cell for one in at.members) for at in placements)


async def _played(settings: ServerSettings, story: Callable[[Story], Any]) -> None:
    clock = SystemClock()
    several = await open_several(settings, clock, SystemEntropy())
    assert isinstance(several, SeveralCells)
    opened = as_opened(several)
    keys = await open_keys(settings, opened.control, clock, SystemEntropy())
    log = LogWriter(lambda _line: None, clock, "error")
    server = TidegateServer(settings, opened, keys, clock, log, several)
    assert server.managing is not None
    try:
        await story(Story(server, several))
    finally:
        await server.managing.close()
        await opened.close()
        keys.close()
        server.cache.close()


def test_an_added_cell_is_drained_and_removed_and_so_is_one_with_copies(tmp_path: Path) -> None:
    async def story(one: Story) -> None:
        several = one.several
        await one.until(lambda: bool(several.watch.report({})))
        assert await several.add("more") == "cell-4"
        for name, attributes in QUEUES.items():
            await one.call("CreateQueue", QueueName=name, Attributes=attributes)
            await one.send(name)
        # It gets its share of the groups; then it drains, with the sixteen of four copies that
        # have nowhere to go, of which one has a queue.
        await one.until(lambda: one.groups_of("cell-4") > 30)
        await several.drain("cell-4")
        with pytest.raises(CellCommandError, match=r"cell-4 has \d+ groups yet .*; it drains"):
            await several.remove("cell-4")
        await one.until(lambda: one.groups_of("cell-4") == 0)
        await several.remove("cell-4")
        report = await several.report()
        assert {told.placement.group for told in report.groups if _lacks(told)} == {
            next(
                told.placement.group
                for told in report.groups
                if told.factor == 4 and len(told.placement.members) == 3
            )
        }
        # And one of those that had everything, for which another one comes.
        assert await several.add("another") == "cell-5"
        await several.drain("cell-1")
        await one.until(lambda: one.groups_of("cell-1") == 0)
        await several.remove("cell-1")
        await one.check_all_is_there()
        health = json.loads((await one.server._health()).body)
        assert health["manager"] in {"ok", "waits"}
        metrics = (await one.server._metrics()).body.decode()
        assert 'tidegate_cell_manager_executions_total{cell="registry"}' in metrics
        assert 'tidegate_cell_manager_hanging_seconds{cell="registry"} 0.0' in metrics

    settings = ServerSettings(data=tmp_path, auth="off", cells=3, usage="off")
    asyncio.run(_played(settings, story))


def _lacks(told: ToldGroup) -> bool:
    members = told.placement.members
    return sum(member.full for member in members) != told.factor or len(members) != told.factor
