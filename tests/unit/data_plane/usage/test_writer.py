import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from data_plane.ports import CellUnavailableError
from data_plane.usage import writer as module
from data_plane.usage.writer import UsageWriter
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.data_plane.usage.places import MemoryPlace
from tests.unit.repeatable import HandClock, SeededEntropy


class Bench:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.place = MemoryPlace(self.clock)
        self.writer = UsageWriter(self.place, self.clock, SeededEntropy(), after="f" * 16)

    def run(self, call: Coroutine[Any, Any, None]) -> None:
        asyncio.run(call)

    def serve(self, *queues: str) -> None:
        for queue in queues:
            now_us = self.clock.now_us()
            self.writer.served(served("ReceiveMessage", queue=queue, finished_us=now_us))

    @property
    def mark(self) -> dict[str, Any]:
        return self.place.mark(self.writer.name)

    @property
    def minute(self) -> int:
        return self.clock.now_us() // 60_000_000


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_mark_is_there_before_anything_is_counted(bench: Bench) -> None:
    bench.run(bench.writer.open())
    assert bench.mark == {
        "schema": "tidegate.writer/1",
        "writer": bench.writer.name,
        "kind": "server",
        "opened": bench.minute,
        "after": "f" * 16,
        "complete_to": bench.minute,
        "records": 0,
        "access": 0,
        "closed": False,
        "desks": "",
        "off_from": 0,
        "counted_to": bench.clock.now_us(),
        "unsaved_max": module.UNSAVED_MIN,
        "ended": 0,
    }


def test_records_are_numbered_on_and_the_mark_says_how_far(bench: Bench) -> None:
    bench.serve("a", "b")
    bench.run(bench.writer.write())
    bench.clock.advance(60)
    bench.serve("a")
    bench.run(bench.writer.write())
    assert [row["number"] for row in bench.place.rows()] == [1, 2, 3]
    assert [row["number"] for row in bench.place.rows("access")] == [1, 2, 3]
    assert (bench.mark["records"], bench.mark["access"]) == (3, 3)
    assert (bench.mark["complete_to"], bench.mark["closed"]) == (bench.minute, False)
    bench.serve("c")
    bench.run(bench.writer.close())
    assert (bench.mark["records"], bench.mark["closed"]) == (4, True)


def test_what_the_place_does_not_take_waits_with_its_numbers(bench: Bench) -> None:
    bench.run(bench.writer.open())
    complete_to = bench.minute
    bench.place.blobs.refuses = ""
    for _ in range(3):
        bench.clock.advance(60)
        bench.serve("a")
        with pytest.raises(CellUnavailableError):
            bench.run(bench.writer.write())
    assert bench.writer.gauges() == {
        "records_written_total": 0,
        "records_dropped_total": 0,
        "write_failures_total": 3,
        "records_waiting": 6,
    }
    assert bench.mark["complete_to"] == complete_to
    bench.place.blobs.refuses = None
    bench.run(bench.writer.write())
    assert [row["number"] for row in bench.place.rows()] == [1, 2, 3]
    assert bench.mark["complete_to"] == bench.minute
    assert bench.writer.gauges()["records_waiting"] == 0


def test_what_there_is_no_room_for_is_a_gap(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 5)
    bench.place.blobs.refuses = "records/"
    for queues in ("ab", "cde", "f"):
        bench.serve(*queues)
        with pytest.raises(CellUnavailableError):
            bench.run(bench.writer.write())
    bench.place.blobs.refuses = None
    bench.run(bench.writer.write())
    kept, lost = bench.writer.gauges(), bench.mark
    assert (kept["records_dropped_total"], kept["records_waiting"]) == (7, 0)
    assert [row["queue"] for row in bench.place.rows()] == ["a", "b", "f"]
    assert [row["number"] for row in bench.place.rows()] == [1, 2, 6]
    assert (lost["records"], lost["access"]) == (6, 6)


def test_many_names_become_records_early(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SUMS_MAX", 10)
    bench.serve(*(f"q{number}" for number in range(25)))
    assert bench.writer.gauges()["records_waiting"] == 40
    bench.run(bench.writer.close())
    assert [row["number"] for row in bench.place.rows()] == list(range(1, 26))
    assert {row["queue"] for row in bench.place.rows()} == {f"q{n}" for n in range(25)}


def test_a_mark_that_is_missing_is_restored_and_no_other(bench: Bench) -> None:
    first = bench.writer.mark()
    bench.run(bench.place.restore_mark(first))
    assert bench.mark["complete_to"] == first.complete_to
    bench.clock.advance(600)
    bench.run(bench.writer.write())
    bench.run(bench.place.restore_mark(first))
    assert bench.mark["complete_to"] == bench.minute
