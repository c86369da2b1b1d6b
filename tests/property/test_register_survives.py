"""What servers on tables have answered is in records, once, or in a gap that is told with its size.

Nobody is ended who is at work. Servers crash, end, or stand still for an hour; writes to the
register take effect without an answer, are repeated, or fail.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.ports import CellUnavailableError
from data_plane.usage.register import EndedByOthersError, Register
from data_plane.usage.writer import UsageWriter
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.data_plane.usage.places import MemoryPlace
from tests.unit.data_plane.usage.test_register import CountingCell
from tests.unit.repeatable import HandClock, SeededEntropy

SERVERS = 2
HOUR_MINUTES = 66


async def tried(call: Awaitable[object]) -> None:
    with suppress(CellUnavailableError):
        await call


@dataclass
class World:
    """Servers, and how many requests each writer was to count."""

    clock: HandClock = field(default_factory=HandClock)
    answered: Counter[str] = field(default_factory=Counter)
    servers: list["Server"] = field(default_factory=list)
    started: int = 0

    def __post_init__(self) -> None:
        self.place = MemoryPlace(self.clock)
        self.cell = CountingCell(self.clock, stamps=False)

    async def start(self) -> "Server":
        self.started += 1
        self.cell.away = False  # else no server starts
        server = Server(self, self.started)
        await tried(server.register.open())
        await tried(server.register.end_others())
        await server.writer.open()
        return server

    async def second(self) -> None:
        self.clock.advance(1)
        for server in self.servers:
            await server.writer.keep()

    async def minute(self) -> None:
        self.clock.advance(60)
        for server in self.servers:
            await server.minute()

    async def freeze(self, which: int) -> None:
        """It stands still for an hour, in which another one is there."""
        frozen, self.servers[which] = self.servers[which], await self.start()
        for _ in range(HOUR_MINUTES):
            await self.minute()
        await tried(self.servers[which].register.close())
        self.servers[which], frozen.stood_still = frozen, True

    async def end(self) -> None:
        """All crash, and a new one is there for long enough."""
        self.cell.away, self.cell.loses = False, 0
        self.servers = [await self.start()]
        for _ in range(2 * HOUR_MINUTES):
            await self.minute()
        await self.servers[0].register.close()


class Server:
    """What counts in it."""

    stood_still = False

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.writer = UsageWriter(world.place, world.clock, SeededEntropy(number))
        self.register = Register(world.cell, world.place, self.writer, alone=False)

    def answer(self) -> None:
        self._world.answered[self.writer.name] += 1
        now_us = self._world.clock.now_us()
        self.writer.served(served("ReceiveMessage", queue="q", finished_us=now_us))

    async def minute(self) -> None:
        try:
            await self.register.write()
        except EndedByOthersError:
            assert self.stood_still
        except CellUnavailableError:
            pass  # it is tried again
        await tried(self.register.end_others())


async def play(world: World, steps: Sequence[tuple[str, int]]) -> None:
    world.servers = [await world.start() for _ in range(SERVERS)]
    for step, which in steps:
        if step == "answer":
            world.servers[which].answer()
        elif step == "second":
            await world.second()
        elif step == "minute":
            await world.minute()
        elif step == "crash":
            world.servers[which] = await world.start()
        elif step == "close":
            await tried(world.servers[which].register.close())
            world.servers[which] = await world.start()
        elif step == "freeze":
            await world.freeze(which)
        elif step == "away":
            world.cell.away = not world.cell.away
        else:
            world.cell.loses, world.cell.repeats = 1, step == "repeat"
    await world.end()


STEPS = ("answer", "answer", "second", "minute", "minute", "crash", "close", "freeze")
STEP = st.tuples(st.sampled_from([*STEPS, "away", "lose", "repeat"]), st.integers(0, SERVERS - 1))


@settings(deadline=None)
@given(st.lists(STEP, max_size=20))
def test_each_request_is_in_one_record_or_in_a_gap(steps: list[tuple[str, int]]) -> None:
    world = World()
    asyncio.run(play(world, steps))
    counted: Counter[str] = Counter()
    for row in world.place.rows():
        counted[row["writer"]] += row["requests"]
    for name, answered in world.answered.items():
        lost, mark = answered - counted[name], world.place.mark(name)
        assert 0 <= lost <= mark["unsaved_max"]
        assert not lost or (mark["ended"] and not mark["closed"])
