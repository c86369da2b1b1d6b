"""What accounts may define: what adds beyond it is refused, and nothing else is."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pytest

from control_plane.core.stream_definition import StreamDefinition
from control_plane.definition_room import DefinitionCount, DefinitionRoom
from control_plane.registry import Registry
from control_plane.stored_bytes import StoredBytes
from control_plane.streams import StreamRegistry
from control_plane.sweep import SWEPT_AFTER_US, DeletedQueues
from data_plane.core.errors import RefusedError
from data_plane.core.quotas import Quotas, parse_quotas
from data_plane.embedded.cell import EmbeddedCell
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.streams.engine import Streams
from tests.unit.control_plane.conftest import ACCOUNT, REGION
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

OTHER = "444455556666"
ALLOWED = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
POLICY = json.dumps({"Version": "2012-10-17", "Statement": ALLOWED})


@dataclass
class Limits:
    """Quotas, and what is counted against them, as a test says it."""

    quotas: Quotas
    counted: dict[str, DefinitionCount] = field(default_factory=dict)

    async def find_quotas(self, _account: str) -> Quotas:
        return self.quotas

    def definitions_of(self, account: str) -> DefinitionCount:
        return self.counted.get(account, DefinitionCount())


def limited(control: Any, **quotas: int) -> Limits:
    limits = Limits(parse_quotas(quotas))
    control.registry._room = DefinitionRoom(limits, limits)
    return limits


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(RefusedError) as error:
        call()
    assert error.value.fault.code == "OverLimit"
    return str(error.value)


def test_an_account_has_no_more_queues_than_it_may(control: Any) -> None:
    limits = limited(control, account_queues=5)
    limits.counted[ACCOUNT] = DefinitionCount(4, 0)
    control.call("CreateQueue", QueueName="orders")
    limits.counted[ACCOUNT] = DefinitionCount(5, 0)
    told = refused(lambda: control.call("CreateQueue", QueueName="more"))
    assert told == f"Account {ACCOUNT} has 5 queues, and its quota is 5."
    assert control.find("more") is None
    # What is there is answered and changed as ever, and others have quotas of their own.
    control.call("CreateQueue", QueueName="orders")
    control.call("TagQueue", QueueUrl="orders", Tags={"team": "a"})
    control.call("CreateQueue", QueueName="more", account=OTHER)
    control.call("DeleteQueue", QueueUrl="orders")
    control.clock.advance(61)
    refused(lambda: control.call("CreateQueue", QueueName="orders"))


def test_definitions_grow_no_further_than_they_may(control: Any) -> None:
    limits = limited(control, account_definition_bytes=10_000)
    control.call("CreateQueue", QueueName="orders", tags={"team": "a" * 100})
    limits.counted[ACCOUNT] = DefinitionCount(1, 9_990)
    longer: dict[str, dict[str, Any]] = {
        "TagQueue": {"Tags": {"owner": "b" * 100}},
        "SetQueueAttributes": {"Attributes": {"Policy": POLICY}},
        "AddPermission": {"Label": "l", "AWSAccountIds": [OTHER], "Actions": ["SendMessage"]},
    }
    for action, params in longer.items():
        told = refused(lambda: control.call(action, QueueUrl="orders", **params))  # noqa: B023
        assert told.endswith("has 9990 bytes of definitions, and its quota is 10000.")
    refused(lambda: control.call("CreateQueue", QueueName="more"))
    control.call("TagQueue", QueueUrl="orders", Tags={"team": "b"})
    control.call("UntagQueue", QueueUrl="orders", TagKeys=["team"])
    control.call("PurgeQueue", QueueUrl="orders")
    control.call("DeleteQueue", QueueUrl="orders")


def test_without_quotas_nobody_is_held_to_any(control: Any) -> None:
    limits = limited(control)
    limits.counted[ACCOUNT] = DefinitionCount(10**6, 10**12)
    control.call("CreateQueue", QueueName="orders")


@dataclass
class Store:
    """A registry in an embedded cell, and what the cell counts."""

    cell: EmbeddedCell
    clock: HandClock
    registry: Registry
    streams: StreamRegistry

    async def counted(self, account: str = ACCOUNT) -> DefinitionCount:
        stored = StoredBytes(lambda: {"a": self.cell}, lambda: self.registry, lambda: self.streams)
        await stored.measure()
        return stored.definitions_of(account)

    async def create(self, name: str, account: str = ACCOUNT, **tags: str) -> None:
        now_us = self.clock.now_us()
        place = {"account": account, "region": REGION, "name": name}
        wanted = self.registry.define(**place, attributes={}, tags=tags, now_us=now_us)
        await self.registry.create(wanted, {}, now_us)


def play(tmp_path: Path, story: Callable[[Store], Any]) -> None:
    async def run() -> None:
        clock = HandClock()
        cell = EmbeddedCell(tmp_path, clock)
        try:
            entropy = SeededEntropy()
            registry = Registry(cell, ["a"], clock, entropy, secret=SECRET)
            logs = Streams({"a": cell}, clock, entropy, EventLoopWaits(clock))
            streams = StreamRegistry(cell, ["a"], clock, entropy, logs, secret=SECRET)
            await story(Store(cell, clock, registry, streams))
        finally:
            await cell.close()

    asyncio.run(run())


def test_a_cell_counts_what_is_defined_as_it_is_written(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        assert await store.counted() == DefinitionCount()
        for name in ("one", "two"):
            await store.create(name)
        await store.create("three", account=OTHER)
        queues, size_bytes, _streams = await store.counted()
        assert (queues, (await store.counted(OTHER)).queues) == (2, 1)
        one = await store.registry.find(ACCOUNT, REGION, "one")
        assert one is not None

        # Long ones lie in pieces; nobody is to count only their heads.
        tags = {f"k{number}": "v" * 250 for number in range(50)}

        async def tag(tags: dict[str, str]) -> int:
            await store.registry.change(one, lambda known: replaced(known, tags=tags))
            counted = await store.counted()
            assert counted.queues == 2
            return counted.size_bytes - size_bytes

        assert 50 * 250 < await tag(tags) < 50 * 270
        # Its version may have grown by a byte.
        assert await tag({}) < 10
        await store.registry.delete(one, store.clock.now_us())
        # A tombstone is none, and takes room as long as it is there.
        assert (await store.counted()).queues == 1
        store.clock.advance(SWEPT_AFTER_US / 1_000_000)
        data = MemoryCell(store.clock)
        await DeletedQueues(store.registry, {"a": data}).remove(store.clock.now_us())
        assert not await store.registry.dropped(9)
        half = size_bytes // 2
        assert half + 100 < (await store.counted()).size_bytes < half + 500
        # In the end its name is forgotten, too.
        store.clock.advance(4 * 86_400)
        while await store.cell.collect(store.clock.now_us() // 1_000_000, 100):
            pass
        assert await store.counted() == DefinitionCount(1, half)

    play(tmp_path, story)


def test_a_cell_counts_streams_too(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        await store.create("queue")
        alone = await store.counted()

        def define(name: str, shards: int) -> StreamDefinition:
            return store.streams.define(
                account=ACCOUNT, region=REGION, name=name, shards=shards, tags={}
            )

        one = await store.streams.create(define("one", 1))
        few = await store.counted()
        assert (few.queues, few.streams) == (1, 1)
        assert few.size_bytes > alone.size_bytes + 100
        await store.streams.create(define("many", 100))
        many = await store.counted()
        assert many.streams == 2
        assert many.size_bytes > few.size_bytes + 100 * 30  # every shard is in it
        await store.streams.delete(store.streams.stream(one))
        assert (await store.counted()).streams == 1
        # Accounts lie under a name that begins as that of streams, and are none.
        await store.cell.put(Key("A|", ACCOUNT.encode()), {"v": 1, "k": "t"})
        assert (await store.counted()).streams == 1

    play(tmp_path, story)


def test_an_account_has_no_more_streams_than_it_may(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        limits = Limits(parse_quotas({"account_streams": 2}))
        store.streams._room = DefinitionRoom(limits, limits)
        limits.counted[ACCOUNT] = DefinitionCount(streams=2)
        wanted = store.streams.define(account=ACCOUNT, region=REGION, name="one", shards=1, tags={})
        with pytest.raises(RefusedError, match="has 2 streams, and its quota is 2") as error:
            await store.streams.create(wanted)
        assert error.value.fault.code == "OverLimit"
        limits.counted[ACCOUNT] = DefinitionCount(streams=1)
        await store.streams.create(wanted)

    play(tmp_path, story)


def test_what_was_defined_before_it_was_counted_counts_for_nothing(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        await store.create("one")
        await store.cell.delete(Key("V|definitions", ACCOUNT.encode()))
        one = await store.registry.find(ACCOUNT, REGION, "one")
        assert one is not None
        await store.registry.delete(one, store.clock.now_us())
        assert (await store.counted()).queues == 0
        await store.create("two")
        assert (await store.counted()).queues == 1

    play(tmp_path, story)


def test_of_two_copies_in_a_cell_the_bigger_one_counts(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        await store.create("one")
        wanted = store.streams.define(account=ACCOUNT, region=REGION, name="one", shards=9, tags={})
        await store.streams.create(wanted)
        before = await store.counted()
        for name in (b"one", b"two"):
            await store.cell.put(Key(f"Q|{ACCOUNT}|{REGION}@3", name), {"v": 2, "k": "q"})
        # Of queues; of streams the other one has more.
        assert await store.counted() == before._replace(queues=2)

    play(tmp_path, story)
