"""What a server has counted is stored every few seconds, and is records once it is cut off."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from data_plane.ports import CellUnavailableError
from data_plane.usage import writer as module
from data_plane.usage.record import NOBODY_KNOWS
from data_plane.usage.writer import UNSAVED_MIN, UsageWriter
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.data_plane.usage.places import MemoryPlace
from tests.unit.repeatable import HandClock, SeededEntropy

END = 7


class Bench:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.place = MemoryPlace(self.clock)
        self.hurried = 0
        self.writer = UsageWriter(self.place, self.clock, SeededEntropy())
        self.writer.hurry = self._hurry

    def _hurry(self) -> None:
        self.hurried += 1

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(call)

    def serve(self, count: int = 1, queue: str = "a") -> None:
        for _ in range(count):
            now_us = self.clock.now_us()
            self.writer.served(served("ReceiveMessage", queue=queue, finished_us=now_us))

    def seconds(self, count: int) -> None:
        """As a server does: a look every second."""
        for _ in range(count):
            self.clock.advance(1)
            self.run(self.writer.keep())

    def requests(self, folder: str = "records") -> int:
        return sum(row["requests"] for row in self.place.rows(folder))

    def finish(self) -> dict[str, Any]:
        self.run(self.place.finish(self.writer.name, ended=END))
        return self.place.mark(self.writer.name)


@pytest.fixture
def bench() -> Bench:
    its = Bench()
    its.run(its.writer.open())
    return its


def test_what_was_answered_is_in_the_tail_within_five_seconds(bench: Bench) -> None:
    for second in range(20):
        bench.serve()
        bench.seconds(1)
        if second >= 4:
            assert bench.clock.now_us() - bench.writer._saved_us < 5_000_000
    assert bench.place.rows() == []
    mark = bench.finish()
    assert bench.requests() == bench.requests("access") >= 16
    assert (mark["records"], mark["access"], mark["ended"]) == (1, 1, END)
    assert bench.place.tails() == set()


def test_a_busy_minute_costs_twenty_puts_more_and_an_idle_one_none(bench: Bench) -> None:
    bench.place.blobs.puts.clear()
    for _ in range(60):
        bench.serve()
        bench.seconds(1)
    bench.run(bench.writer.write())
    assert bench.place.blobs.puts == {"tails": 21, "records": 1, "access": 1, "writers": 1}
    bench.place.blobs.puts.clear()
    bench.seconds(60)
    bench.run(bench.writer.write())
    assert bench.place.blobs.puts == {"writers": 1}


def test_what_is_lost_is_no_more_than_the_mark_says(bench: Bench) -> None:
    bench.serve(500)
    bench.seconds(3)
    bench.serve(1_999)
    mark = bench.finish()
    assert (bench.requests(), mark["unsaved_max"]) == (500, UNSAVED_MIN)
    assert mark["counted_to"] == bench.clock.now_us()


def test_many_answers_hurry_the_next_tail_and_it_allows_more(bench: Bench) -> None:
    bench.serve(UNSAVED_MIN // 2 - 1)
    assert bench.hurried == 0
    bench.serve()
    assert bench.hurried == 1
    bench.seconds(1)
    bench.serve(UNSAVED_MIN - 1)
    assert bench.hurried == 1
    assert bench.finish()["unsaved_max"] == 2 * UNSAVED_MIN


def test_records_that_were_stored_before_the_mark_are_stored_again_the_same(bench: Bench) -> None:
    bench.serve()
    bench.seconds(3)
    bench.serve(queue="b")
    bench.serve()
    bench.place.blobs.refuses = "writers/"
    with pytest.raises(CellUnavailableError):
        bench.run(bench.writer.write())
    bench.place.blobs.refuses = None
    assert bench.requests() == 3
    assert bench.finish()["records"] == 2
    assert bench.requests() == bench.requests("access") == 3


def test_what_waits_for_the_place_is_in_the_tail(bench: Bench) -> None:
    for queue in "abc":
        bench.serve(queue=queue)
        bench.place.blobs.refuses = "records/"
        with pytest.raises(CellUnavailableError):
            bench.run(bench.writer.write())
    bench.serve(queue="d")
    bench.seconds(3)
    bench.place.blobs.refuses = None
    assert bench.finish()["records"] == 4
    assert [row["queue"] for row in bench.place.rows()] == ["a", "b", "c", "d"]


def test_more_than_a_tail_takes_is_missing_by_its_numbers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAIL_WAITING_MAX", 3)
    bench.place.blobs.refuses = "records/"
    bench.serve(queue="a")
    bench.serve(queue="b")
    with pytest.raises(CellUnavailableError):
        bench.run(bench.writer.write())
    bench.serve(queue="c")
    bench.seconds(3)
    bench.place.blobs.refuses = None
    assert bench.finish()["records"] == 3
    assert [row["number"] for row in bench.place.rows()] == [3]


def test_a_tail_of_after_the_clock_was_set_back_is_records_all_the_same(bench: Bench) -> None:
    bench.serve(queue="a")
    bench.seconds(40)
    bench.run(bench.writer.write())
    bench.clock.advance(-30)
    bench.serve(queue="b")
    bench.seconds(3)
    mark = bench.finish()
    assert [row["queue"] for row in bench.place.rows()] == ["a", "b"]
    assert (mark["records"], mark["ended"]) == (2, END)


def test_a_server_that_ends_leaves_no_tail(bench: Bench) -> None:
    bench.serve()
    bench.seconds(3)
    bench.run(bench.writer.close())
    assert bench.place.tails() == set()
    assert bench.finish()["ended"] == 0
    assert bench.requests() == 1


def test_a_tail_that_cannot_be_read_had_nobody_knows_how_much(bench: Bench) -> None:
    bench.serve()
    bench.seconds(3)
    name = f"tails/{bench.writer.name}.json"
    bench.run(bench.place.blobs.put(name, b"{"))
    mark = bench.finish()
    assert (mark["unsaved_max"], mark["ended"]) == (NOBODY_KNOWS, END)
    assert bench.place.tails() == {name}


def test_a_writer_without_a_mark_and_without_a_tail_is_none(bench: Bench) -> None:
    assert bench.run(bench.place.finish("f" * 16, ended=END)) is None


def test_one_that_others_ended_goes_on_as_another(bench: Bench) -> None:
    bench.serve()
    bench.seconds(3)
    first, ended = bench.writer.name, bench.finish()
    bench.serve()
    bench.run(bench.writer.begin_anew())
    bench.serve(queue="b")
    bench.run(bench.writer.write())
    mark = bench.place.mark(bench.writer.name)
    assert (mark["after"], mark["records"], ended["records"]) == (first, 1, 1)
    assert [row["queue"] for row in bench.place.rows()] in (["a", "b"], ["b", "a"])
