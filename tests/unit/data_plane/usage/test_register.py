"""Writers are registered; servers that were cut off are ended by others, once."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError
from data_plane.stored.segment import number
from data_plane.usage.register import (
    AT_WORK,
    CUT_OFF,
    ENDED,
    UNHEARD_US_MAX,
    WRITERS,
    EndedByOthersError,
    Register,
)
from data_plane.usage.writer import UsageWriter
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.data_plane.usage.places import MemoryPlace
from tests.unit.repeatable import HandClock, SeededEntropy


class CountingCell(MemoryCell):
    """Counts what it is asked, and is away while `away`; it loses the answers to updates.

    As many as it `loses`: then it repeats the request (`repeats`), or fails.
    """

    away = False
    repeats = False
    asked = loses = 0

    def _note(self) -> None:
        self.asked += 1
        if self.away:
            raise CellUnavailableError("away")

    async def put(self, *its: Any, **more: Any) -> Any:
        self._note()
        return await super().put(*its, **more)

    async def update(self, *its: Any, **more: Any) -> Any:
        self._note()
        written = await super().update(*its, **more)
        if not self.loses:
            return written
        self.loses -= 1
        if not self.repeats:
            raise CellUnavailableError("no answer")
        return await super().update(*its, **more)

    async def delete(self, *its: Any, **more: Any) -> Any:
        self._note()
        return await super().delete(*its, **more)

    async def query(self, *its: Any, **more: Any) -> Any:
        self._note()
        return await super().query(*its, **more)


class Server:
    def __init__(self, bench: "Bench", seed: int) -> None:
        self.writer = UsageWriter(bench.place, bench.clock, SeededEntropy(seed))
        self.register = Register(bench.cell, bench.place, self.writer, alone=bench.alone)
        self.clock = bench.clock

    def serve(self, queue: str = "a") -> None:
        now_us = self.clock.now_us()
        self.writer.served(served("ReceiveMessage", queue=queue, finished_us=now_us))

    async def minute(self) -> None:
        await self.register.write()
        await self.register.end_others()

    async def start(self) -> None:
        await self.register.open()
        await self.register.end_others()
        await self.writer.open()


class Bench:
    def __init__(self, *, alone: bool) -> None:
        self.alone = alone
        self.clock = HandClock()
        self.place = MemoryPlace(self.clock)
        self.cell = CountingCell(self.clock, stamps=alone)

    def server(self, seed: int) -> Server:
        its = Server(self, seed)
        run(its.start())
        return its

    def items(self, partition: str) -> dict[str, Any]:
        return {
            item.key.sort.decode(): item.attributes
            for item in self.cell.items()
            if item.key.partition == partition
        }

    def queues(self) -> list[str]:
        return sorted(row["queue"] for row in self.place.rows())


def run(call: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(call)


@pytest.fixture(params=[True, False], ids=["alone", "with others"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(alone=request.param)


def test_a_server_is_registered_before_it_serves_and_signed_off_at_its_end(bench: Bench) -> None:
    server = bench.server(1)
    name = server.writer.name
    its = bench.items(WRITERS)[name]
    assert (its["k"], its["a"], "e" in its) == ("server", "", False)
    assert list(bench.items(AT_WORK)) == [name]
    server.serve()
    run(server.register.close())
    its = bench.items(WRITERS)[name]
    assert (its["e"], its["n"], its["m"]) == (ENDED, 1, 1)
    assert bench.items(AT_WORK) == {}
    assert bench.place.mark(name)["closed"]


def test_one_that_was_cut_off_is_ended_by_another(bench: Bench) -> None:
    first = bench.server(1)
    first.serve("late")
    bench.clock.advance(3)
    run(first.writer.keep())
    bench.clock.advance(0 if bench.alone else 51 * 60)
    bench.server(2)
    assert bench.queues() == ["late"]
    its = bench.items(WRITERS)[first.writer.name]
    assert (its["e"], its["n"], its["m"]) == (CUT_OFF, 1, 1)
    assert first.writer.name not in bench.items(AT_WORK)
    assert bench.place.mark(first.writer.name)["ended"] == bench.clock.now_us() // 60_000_000


def test_one_that_has_run_for_long_is_ended_by_another_all_the_same(bench: Bench) -> None:
    first = bench.server(1)
    for _ in range(401):
        bench.clock.advance(24 * 3600)
        run(first.minute())
    first.serve("late")
    bench.clock.advance(3)
    run(first.writer.keep())
    bench.clock.advance(0 if bench.alone else 51 * 60)
    now_s = bench.clock.now_us() // 1_000_000
    over = [one.key for one in bench.cell.items() if number(one.attributes, "x") < now_s]
    bench.cell.expire(over)
    second = bench.server(2)
    run(second.minute())
    assert bench.queues() == ["late"]
    assert bench.items(WRITERS)[first.writer.name]["k"] == "server"
    assert bench.items(WRITERS)[first.writer.name]["e"] == CUT_OFF


def test_one_that_may_be_at_work_is_left_alone() -> None:
    bench = Bench(alone=False)
    first = bench.server(1)
    bench.clock.advance(49 * 60)
    bench.server(2)
    assert first.writer.name in bench.items(AT_WORK)


def test_a_minute_costs_one_write_and_alone_none(bench: Bench) -> None:
    server = bench.server(1)
    bench.cell.asked = 0
    for _ in range(9):
        bench.clock.advance(60)
        run(server.minute())
    assert bench.cell.asked == (0 if bench.alone else 9)


def test_one_whose_tables_were_copied_is_left_alone() -> None:
    bench = Bench(alone=False)
    first = bench.server(1)
    for _ in range(60):
        bench.clock.advance(60)
        first.serve()
        run(first.writer.write())  # it says to other tables that it is at work
    bench.server(2)
    assert first.writer.name in bench.items(AT_WORK)
    assert bench.place.mark(first.writer.name)["ended"] == 0


def test_one_that_was_frozen_counts_nothing_twice() -> None:
    bench = Bench(alone=False)
    frozen, name = bench.server(1), ""
    frozen.serve("before")
    bench.clock.advance(3)
    run(frozen.writer.keep())
    frozen.serve("lost")
    bench.clock.advance(51 * 60)
    bench.server(2)
    name = frozen.writer.name
    with pytest.raises(EndedByOthersError):
        run(frozen.minute())
    frozen.serve("after")
    run(frozen.minute())
    assert bench.queues() == ["after", "before"]
    assert bench.place.mark(frozen.writer.name)["after"] == name
    assert frozen.writer.name in bench.items(WRITERS)


def test_one_that_was_frozen_and_then_crashes_is_ended_as_what_it_is_by_then() -> None:
    bench = Bench(alone=False)
    frozen = bench.server(1)
    bench.clock.advance(51 * 60)
    bench.server(2)
    with pytest.raises(EndedByOthersError):
        run(frozen.minute())
    frozen.serve("after")
    bench.clock.advance(3)
    run(frozen.writer.keep())
    bench.clock.advance(51 * 60)
    bench.server(3)
    assert bench.queues() == ["after"]
    assert bench.place.mark(frozen.writer.name)["ended"]


@pytest.mark.parametrize("damage", [b"", b"\xff"])
def test_a_damaged_tail_is_left_for_people_to_look_at(damage: bytes) -> None:
    bench = Bench(alone=True)
    first = bench.server(1)
    first.serve()
    bench.clock.advance(3)
    run(first.writer.keep())
    (name,) = bench.place.tails()
    body = bench.place.blobs._stored[name][0]
    run(bench.place.blobs.put(name, body.replace(b"ReceiveMessage", b"Receive" + damage, 1)[:-1]))
    bench.server(2)
    assert (bench.place.tails(), bench.queues()) == ({name}, [])
    assert bench.place.mark(first.writer.name)["unsaved_max"] == -1


def test_one_whose_word_is_taken_and_repeated_is_not_ended_by_that() -> None:
    bench = Bench(alone=False)
    server = bench.server(1)
    bench.cell.loses, bench.cell.repeats = 1, True
    server.serve()
    bench.clock.advance(60)
    run(server.minute())
    assert bench.queues() == ["a"]
    assert list(bench.items(WRITERS)) == [server.writer.name]


def test_one_whose_word_is_taken_and_not_answered_is_not_ended_by_that() -> None:
    bench = Bench(alone=False)
    server = bench.server(1)
    bench.cell.loses = 1
    for away in (False, True):
        bench.cell.away = away
        bench.clock.advance(60)
        with pytest.raises(CellUnavailableError):
            run(server.minute())
    bench.cell.away = False
    server.serve()
    bench.clock.advance(60)
    run(server.minute())
    assert bench.queues() == ["a"]
    assert list(bench.items(WRITERS)) == [server.writer.name]


def test_without_the_registry_a_server_writes_and_says_so_until_others_may_have_ended_it() -> None:
    bench = Bench(alone=False)
    server = bench.server(1)
    bench.cell.away = True
    server.serve("a")
    bench.clock.advance(60)
    with pytest.raises(CellUnavailableError):
        run(server.register.write())
    assert bench.queues() == ["a"]
    bench.clock.advance(UNHEARD_US_MAX // 1_000_000)
    server.serve("b")
    with pytest.raises(CellUnavailableError):
        run(server.register.write())
    assert bench.queues() == ["a"]
    bench.cell.away = False
    run(server.register.write())
    assert bench.queues() == ["a", "b"]


def test_one_that_could_not_be_registered_is_so_later(bench: Bench) -> None:
    server = Server(bench, 1)
    bench.cell.away = True
    with pytest.raises(CellUnavailableError):
        run(server.register.open())
    bench.cell.away = False
    run(server.minute())
    assert list(bench.items(WRITERS)) == [server.writer.name]


def test_what_the_place_does_not_take_is_ended_later(bench: Bench) -> None:
    first = bench.server(1)
    first.serve("late")
    bench.clock.advance(3)
    run(first.writer.keep())
    bench.clock.advance(51 * 60)
    second = Server(bench, 2)
    bench.place.blobs.refuses = "records/"
    with pytest.raises(CellUnavailableError):
        run(second.start())
    bench.place.blobs.refuses = None
    bench.clock.advance(11 * 60)
    run(second.minute())
    assert bench.queues() == ["late"]
    assert first.writer.name not in bench.items(AT_WORK)
