"""The sources of a dead-letter queue are what the definitions say, whatever happened to writes."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from control_plane.core.definition import Definition
from control_plane.core.item_field import UnknownItemFormatError
from control_plane.registry import Registry
from data_plane.core.errors import RefusedError
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, CellUnavailableError, Item, Key, Written
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

ACCOUNT = "111122223333"
REGION = "eu-west-1"
DEAD = ("dead-a", "dead-b")
SOURCES = ("s1", "s2", "s3")


def policy(target: str) -> dict[str, str]:
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{target}"
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})}


def sources(control: Any, name: str, **page: Any) -> list[str]:
    found = control.registry.dead_letter_sources(ACCOUNT, REGION, name, **({"limit": 10} | page))
    return asyncio.run(found)


def test_a_source_is_found_from_the_moment_it_names_its_queue(control: Any) -> None:
    for name in ("dead", "other"):
        control.call("CreateQueue", QueueName=name)
    assert sources(control, "dead") == []
    control.call("CreateQueue", QueueName="b", Attributes=policy("dead"))
    control.call("CreateQueue", QueueName="a")
    control.call("SetQueueAttributes", QueueUrl="a", Attributes=policy("dead"))
    assert sources(control, "dead") == ["a", "b"]
    assert sources(control, "dead", limit=1) == ["a"]
    assert sources(control, "dead", limit=1, after="a") == ["b"]
    control.call("SetQueueAttributes", QueueUrl="a", Attributes=policy("other"))
    assert (sources(control, "dead"), sources(control, "other")) == (["b"], ["a"])


def test_nothing_is_left_of_a_source_that_goes(control: Any) -> None:
    control.call("CreateQueue", QueueName="dead")
    for name in ("removed", "deleted"):
        control.call("CreateQueue", QueueName=name, Attributes=policy("dead"))
    control.call("TagQueue", QueueUrl="removed", Tags={"a": "b"})
    control.call("SetQueueAttributes", QueueUrl="removed", Attributes={"RedrivePolicy": ""})
    control.call("DeleteQueue", QueueUrl="deleted")
    assert sources(control, "dead") == []
    left = [item.key for item in control.cell.items() if item.key.partition.startswith("D|")]
    assert left == []


def test_accounts_and_regions_are_apart(control: Any) -> None:
    control.call("CreateQueue", QueueName="dead")
    control.call("CreateQueue", QueueName="source", Attributes=policy("dead"))
    for account, region in (("9" * 12, REGION), (ACCOUNT, "us-east-1")):
        found = control.registry.dead_letter_sources(account, region, "dead", limit=10)
        assert asyncio.run(found) == []


def test_many_sources_are_read_together(control: Any) -> None:
    control.call("CreateQueue", QueueName="dead")
    names = [f"q{number:03}" for number in range(250)]
    for name in names:
        control.call("CreateQueue", QueueName=name, Attributes=policy("dead"))
    before = control.cell.requests.copy()
    assert sources(control, "dead", limit=1_000) == names
    spent = control.cell.requests - before
    assert (spent["query"], spent["get_many"], spent.total()) == (4, 3, 7)


def test_an_item_of_an_unknown_format_is_refused(control: Any) -> None:
    key = Key(f"D|{ACCOUNT}|{REGION}|dead", b"source")
    asyncio.run(control.cell.put(key, {"v": 2, "w": b"12345678"}))
    with pytest.raises(UnknownItemFormatError):
        sources(control, "dead")


class StormyCell(MemoryCell):
    """Calls overlap in a seeded order; some of the writes are lost, or their replies are."""

    def __init__(self, clock: HandClock, entropy: SeededEntropy) -> None:
        super().__init__(clock)
        self._dice = entropy
        self.calm = False
        self.lost = 0

    def _roll(self, sides: int) -> int:
        return int.from_bytes(self._dice.random_bytes(2), "big") % sides

    async def _overlap(self) -> None:
        for _ in range(0 if self.calm else self._roll(8)):
            await asyncio.sleep(0)

    async def _write(self, call: Any) -> Written:
        await self._overlap()
        fate = 0 if self.calm else self._roll(12)
        if fate == 1:
            call.close()
            self.lost += 1
            raise CellUnavailableError("the request is lost")
        written: Written = await call
        await self._overlap()
        if fate == 2:
            self.lost += 1
            raise CellUnavailableError("the reply is lost")
        return written

    async def put(self, key: Key, *args: Any, **kwargs: Any) -> Written:
        return await self._write(super().put(key, *args, **kwargs))

    async def delete(self, key: Key, *args: Any, **kwargs: Any) -> Written:
        return await self._write(super().delete(key, *args, **kwargs))

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        await self._overlap()
        return await super().get(key, strong=strong)


class Storm:
    """Servers that point queues at dead-letter queues, away from them, delete and create them."""

    def __init__(self, seed: int) -> None:
        self.clock = HandClock()
        self.entropy = SeededEntropy(seed)
        self.names = SOURCES[: 1 + seed % 3]
        self.cell = StormyCell(self.clock, SeededEntropy(seed + 1_000))
        self.servers = [
            Registry(
                self.cell,
                ["a"],
                self.clock,
                self.entropy,
                secret=SECRET,
                sixty_second_rules=False,
            )
            for _ in range(4)
        ]

    def pick(self, choices: tuple[str, ...]) -> str:
        return choices[self.entropy.random_bytes(1)[0] % len(choices)]

    async def step(self, server: Registry) -> None:
        name, doing = self.pick(self.names), self.pick(("point", "point", "end", "tag", "delete"))
        attributes = policy(self.pick(DEAD[: len(self.names)]))
        wanted = server.define(
            account=ACCOUNT, region=REGION, name=name, attributes={}, tags={}, now_us=0
        )
        await server.create(wanted, {}, 0)
        queue = await server.find(ACCOUNT, REGION, name)
        if queue is None:
            return
        tag = {"t": self.entropy.random_bytes(4).hex()}

        def edit(held: Definition) -> Definition:
            if doing == "tag":
                return replace(held, tags=tag)
            return replace(held, attributes=attributes if doing == "point" else {})

        if doing == "delete":
            await server.delete(queue, 0)
        else:
            await server.change(queue, edit)

    async def work(self, server: Registry) -> None:
        for _ in range(4):
            try:
                await self.step(server)
            except (CellUnavailableError, RefusedError):
                continue

    async def run(self) -> None:
        await asyncio.gather(*(self.work(server) for server in self.servers))
        self.cell.calm = True

    async def expected(self, dead: str) -> list[str]:
        found = []
        for name in SOURCES:
            definition = await self.servers[0].read(ACCOUNT, REGION, name)
            if definition is not None and definition.dead_letter_queue == dead:
                found.append(name)
        return found

    async def links(self, dead: str) -> list[Item]:
        return await self.cell.query(f"D|{ACCOUNT}|{REGION}|{dead}", limit=100)


def test_lost_writes_and_races_hide_no_source() -> None:
    lost = named = stale = 0
    for seed in range(500):
        storm = Storm(seed)
        asyncio.run(storm.run())
        for dead in DEAD:
            wanted = asyncio.run(storm.expected(dead))
            found = storm.servers[0].dead_letter_sources(ACCOUNT, REGION, dead, limit=10)
            assert asyncio.run(found) == wanted, f"seed {seed}"
            named += len(wanted)
            stale += len(asyncio.run(storm.links(dead))) - len(wanted)
        lost += storm.cell.lost
    assert lost > 500
    assert named > 30
    assert stale > 0, "no write was lost between the two"
