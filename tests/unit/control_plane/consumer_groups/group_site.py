"""A stream and its group over a cell that fails when it is to, for tests of groups."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from control_plane.consumer_groups.groups import ConsumerGroups, consumer_groups
from control_plane.consumer_groups.heartbeats import Beat, BeatAnswer
from control_plane.consumer_groups.positions import StartingPosition, beginning
from control_plane.core import group_keys
from control_plane.core.consumer_group import STICKY, ConsumerGroup
from control_plane.streams import StreamRegistry
from data_plane.core.stream import Stream
from data_plane.memory.cell import MemoryCell
from data_plane.ports import (
    ALWAYS,
    Attributes,
    CellUnavailableError,
    Condition,
    Key,
    Tallies,
    Written,
    no_tallies,
)
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.streams.engine import Streams
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

T = TypeVar("T")
WHERE = ("123456789012", "eu-central-1")
SESSION_S = 10


class CutOff(MemoryCell):
    """A cell whose next deletes fail, and in which another one is always faster to put.

    Puts of offsets fail once `room` of them were put, in the partitions `offsets`.
    """

    fails = 0
    races = 0
    room = 1_000

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self.offsets: list[str] = []

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        if key.partition.endswith("|o"):
            if len(self.offsets) == self.room:
                raise CellUnavailableError("cut off")
            self.offsets.append(key.partition)
        if self.races and (occupant := await self.get(key)) is not None:
            self.races += 1
            await super().put(key, {**occupant, "w": self.races.to_bytes(8, "big")})
        return await super().put(key, attributes, condition, tallies)

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        if self.fails:
            self.fails -= 1
            raise CellUnavailableError("cut off")
        return await super().delete(key, condition, tallies)


class HandWaits(EventLoopWaits):
    """Who sleeps lets the time pass, and others go on."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self._hand = clock

    async def sleep_until(self, time_us: int) -> None:
        self._hand.time_us = max(self._hand.time_us, time_us)
        await asyncio.sleep(0)


class Site:
    """A stream and its group, and front ends over one cell."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.entropy = SeededEntropy()
        self.cell = CutOff(self.clock)
        self.waits = HandWaits(self.clock)
        self.engine = Streams({"a": self.cell}, self.clock, self.entropy, self.waits)
        self.streams = StreamRegistry(
            self.cell, ("a",), self.clock, self.entropy, self.engine, secret=SECRET
        )
        self.groups = self.another()

    def another(self) -> ConsumerGroups:
        return consumer_groups(
            self.cell, self.streams, self.engine, self.clock, self.entropy, self.waits
        )

    async def stream(self, shards: int = 2, name: str = "clicks") -> Stream:
        wanted = self.streams.define(
            account=WHERE[0], region=WHERE[1], name=name, shards=shards, tags={}
        )
        return self.streams.stream(await self.streams.create(wanted))

    async def create(
        self, streams: Sequence[Stream], kind: str = "TRIM_HORIZON", name: str = "readers"
    ) -> ConsumerGroup:
        position = StartingPosition(kind)
        wanted = ConsumerGroup(
            account=WHERE[0],
            region=WHERE[1],
            name=name,
            uid=self.groups.registry.new_uid(),
            created_ms=0,
            session_s=SESSION_S,
            rebalance_s=60,
            assignor=STICKY,
            streams=tuple(beginning(stream, position) for stream in streams),
        )
        return await self.groups.positions.create(wanted, streams, position)

    async def join(self, member: str, groups: ConsumerGroups | None = None) -> BeatAnswer:
        groups = groups or self.groups
        group = await groups.registry.read(*WHERE, "readers")
        return await groups.heartbeats.join(group, Beat(member, 0))

    async def go_on(self, member: str, answer: BeatAnswer, wait_s: int = 0) -> BeatAnswer:
        group = await self.groups.registry.read(*WHERE, "readers")
        beat = Beat(member, answer.group.epoch, owned=answer.shards)
        until_us = self.clock.now_us() + wait_s * 1_000_000
        return await self.groups.heartbeats.go_on(group, beat, until_us)

    async def offsets(self) -> dict[str, int]:
        """How many offsets there are, by the partitions that have any."""
        found = {one: await self.cell.query(one, limit=100) for one in self.cell.offsets}
        return {one: len(items) for one, items in found.items() if items}

    async def items(self) -> int:
        found = 0
        uid = (await self.groups.registry.read(*WHERE, "readers")).uid
        for partition in (group_keys.members(uid), group_keys.offsets(uid)):
            found += len(await self.cell.query(partition, limit=100))
        return found


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)
