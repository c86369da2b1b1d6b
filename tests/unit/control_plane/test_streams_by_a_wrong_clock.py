"""Upkeep of streams lets nothing go for a machine's clock that was ahead."""

import asyncio
from dataclasses import replace

import pytest

from control_plane.consumer_groups.groups import consumer_groups
from control_plane.core.stream_definition import with_retention_lowered
from control_plane.stream_upkeep import StreamUpkeep
from control_plane.streams import StreamRegistry
from data_plane.core.record import STORED_BEFORE, Numbered, OutgoingRecord, Put, PutCall
from data_plane.core.stream import Stream
from data_plane.memory.cell import MemoryCell
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.streams.bounds import PRODUCER_SLOTS_MAX
from data_plane.streams.engine import Streams
from data_plane.streams.reading import Place
from tests.unit.control_plane.test_streams import WHERE, split_first
from tests.unit.machine import DAY_US, SECOND_US, Machine
from tests.unit.repeatable import SECRET, SeededEntropy

MINUTE_US = 60 * SECOND_US


class Service:
    """One process after the other on one cell, as a machine's clock has it."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.entropy = SeededEntropy()
        self.clock = self.machine.start()
        self.cell = MemoryCell(self.clock)
        self.open()

    def open(self) -> None:
        waits = EventLoopWaits(self.clock)
        ports = (self.clock, self.entropy)
        self.engine = Streams({"a": self.cell}, *ports, waits)
        self.registry = StreamRegistry(self.cell, ("a",), *ports, self.engine, secret=SECRET)
        groups = consumer_groups(self.cell, self.registry, self.engine, *ports, waits)
        self.upkeep = StreamUpkeep(self.registry, self.engine, groups.forgetting, self.clock)

    def start_again(self, wrong_us: int) -> None:
        """The clock is set while nothing runs."""
        before = self.clock
        before.now_us()
        self.machine.wrong_us = wrong_us
        self.machine.passes(SECOND_US)
        self.clock = self.machine.start_again(before)
        self.cell._clock = self.clock
        self.open()

    def passes(self, us: int) -> None:
        for _ in range(10):
            self.machine.passes(us // 10, self.clock)

    async def create(self) -> Stream:
        wanted = self.registry.define(
            account=WHERE[0], region=WHERE[1], name=WHERE[2], shards=1, tags={}
        )
        return self.registry.stream(await self.registry.create(wanted))

    async def put(self, stream: Stream, text: str) -> None:
        records = {0: OutgoingRecord("k", text.encode())}
        outcome = await self.engine.put(stream, stream.shards[0], records, PutCall())
        assert outcome.failure is None

    async def texts(self) -> list[bytes]:
        stream = await self.registry.find(*WHERE)
        assert stream is not None
        shard = stream.shard(0)
        if shard is None:
            return []
        page = await self.engine.read(stream, shard, Place(1), records_max=10)
        return [record.data for record in page.records]


@pytest.fixture
def service() -> Service:
    return Service()


def test_closed_shards_stay_where_a_clock_was_ahead(service: Service) -> None:
    async def scenario() -> None:
        stream = await service.create()
        await service.put(stream, "one")
        await service.registry.reshard(stream, split_first)
        service.start_again(DAY_US)
        service.passes(MINUTE_US)
        await service.upkeep.step()
        service.machine.wrong_us = 0
        service.passes(60 * MINUTE_US)
        await service.upkeep.step()
        assert await service.texts() == [b"one"]

    asyncio.run(scenario())


def test_closed_shards_stay_for_an_hour_where_a_clock_may_be_ahead(service: Service) -> None:
    async def scenario() -> None:
        stream = await service.create()
        await service.put(stream, "one")
        await service.registry.reshard(stream, split_first)
        service.start_again(3 * DAY_US)
        service.passes(MINUTE_US)
        await service.upkeep.step()
        service.machine.wrong_us = 0
        service.passes(MINUTE_US)
        assert await service.texts() == [b"one"]

    asyncio.run(scenario())


def test_nothing_is_trimmed_for_an_hour_where_a_clock_may_be_ahead(service: Service) -> None:
    async def scenario() -> None:
        stream = await service.create()
        definition = await service.registry.change(
            stream, lambda known: replace(known, retention_hours=48)
        )
        stream = service.registry.stream(definition)
        await service.put(stream, "one")
        await service.put(stream, "two")
        now_ms = service.clock.now_us() // 1_000
        await service.registry.change(
            stream, lambda known: with_retention_lowered(known, 24, now_ms)
        )
        service.start_again(2 * DAY_US)
        service.passes(MINUTE_US)
        await service.upkeep.step()
        service.machine.wrong_us = 0
        service.passes(MINUTE_US)
        assert await service.texts() == [b"one", b"two"]

    asyncio.run(scenario())


def test_numbers_of_producers_stay_where_a_clock_was_ahead(service: Service) -> None:
    async def put(stream: Stream, producer: bytes, number: int) -> Put:
        records = {0: OutgoingRecord("k", b"%d" % number)}
        numbered = Numbered(producer * 16, 0, [number])
        outcome = await service.engine.put(stream, stream.shards[0], records, PutCall(), numbered)
        assert outcome.failure is None
        return outcome.stored[0]

    async def scenario() -> None:
        stream = await service.create()
        await put(stream, b"a", 1)
        service.start_again(DAY_US)
        service.passes(MINUTE_US)
        for number in range(PRODUCER_SLOTS_MAX + 1):
            await put(stream, b"b", number)
        service.machine.wrong_us = 0
        service.passes(MINUTE_US)
        service.open()
        assert await put(stream, b"a", 1) is STORED_BEFORE

    asyncio.run(scenario())
