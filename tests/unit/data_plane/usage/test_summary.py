"""The running summary: each record once, whatever files it is in, and few reads."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from data_plane.memory.blobs import MemoryBlobs
from data_plane.usage.hours import SUMS, Sums
from data_plane.usage.place import objects_of
from data_plane.usage.record import SCHEMA, US_PER_MINUTE, UsageRecord
from data_plane.usage.summary import US_PER_HOUR, UsageSummary
from tests.unit.data_plane.usage.places import at_once
from tests.unit.repeatable import HandClock

T = TypeVar("T")

A, B = "a" * 16, "b" * 16
ACCOUNT = "111122223333"


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


class Place:
    """A place in memory, its clock, and summaries over it."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.blobs = MemoryBlobs(self.clock)
        self.hour = self.clock.now_us() // US_PER_HOUR
        self.summary = self.another()

    def another(self) -> UsageSummary:
        return UsageSummary(self.blobs, at_once, self.clock)

    def record(self, number: int, writer: str = A, hours_ago: int = 0, units: int = 1) -> Any:
        minute = (self.clock.now_us() // US_PER_HOUR - hours_ago) * 60
        return UsageRecord(
            *(SCHEMA, writer, number, minute, ACCOUNT, "eu-west-1", "orders", "SendMessage"),
            *("2xx", "", 1, units, 1, 100, 0),
        )

    def put(self, *records: UsageRecord) -> list[str]:
        stored = objects_of(records)
        for name, content in stored:
            run(self.blobs.put(name, content))
        return [name for name, _ in stored]

    def units(self, summary: UsageSummary | None = None) -> int:
        """Of all that is there, from 100 hours ago on."""
        return sum(self.by_hour(summary).values())

    def by_hour(self, summary: UsageSummary | None = None) -> dict[int, int]:
        found = summary or self.summary
        run(found.look())
        versions = run(found.versions(self.hour - 100, self.hour + 100))
        return {at: _units(run(found.sums(at, its))) for at, its in versions.items()}


def _units(sums: Sums) -> int:
    return sum(numbers[SUMS.index("units")] for numbers in sums.values())


@pytest.fixture
def place() -> Place:
    return Place()


def several(place: Place, numbers: Sequence[int], **which: Any) -> list[UsageRecord]:
    return [place.record(number, **which) for number in numbers]


def test_files_that_come_are_added_and_read_once(place: Place) -> None:
    place.put(*several(place, [1, 2]))
    assert place.units() == 2
    place.put(*several(place, [3], units=7))
    assert place.units() == 9
    assert place.units() == 9
    assert place.summary.files_read == 2


@pytest.mark.parametrize("hours_ago", [0, 50])
def test_a_record_counts_once_whatever_files_it_is_in(place: Place, hours_ago: int) -> None:
    place.put(*several(place, [1, 2, 3], hours_ago=hours_ago))
    assert place.units() == 3
    place.put(*several(place, [2, 3, 4], hours_ago=hours_ago))
    assert place.units(place.another()) == 4
    if not hours_ago:
        assert place.units() == 4


@pytest.mark.parametrize("hours_ago", [0, 50])
def test_records_of_one_identity_that_differ_count_for_nothing(
    place: Place, hours_ago: int
) -> None:
    place.put(*several(place, [1, 2], hours_ago=hours_ago))
    place.put(place.record(2, units=99, hours_ago=hours_ago))
    assert place.units() == 1
    place.put(place.record(2, units=98, hours_ago=hours_ago), place.record(5, B, hours_ago))
    assert place.units(place.another()) == 2


def test_what_is_gone_is_counted_no_more(place: Place) -> None:
    place.put(*several(place, [1]))
    (name,) = place.put(*several(place, [2]))
    assert place.units() == 2
    run(place.blobs.delete([name]))
    assert place.units() == 1


def test_files_that_are_not_what_they_say_are_refused(place: Place) -> None:
    (name,) = place.put(*several(place, [1]))
    run(place.blobs.put(name, b"something else"))
    (_, content), *_ = objects_of([place.record(2, hours_ago=1)])
    folder = name.rpartition("/")[0]
    run(place.blobs.put(f"{folder}/{'0' * 64}.parquet", content))
    assert place.units() == 0
    assert place.summary.refused == 2


def test_a_record_of_another_hour_than_its_file_is_refused(place: Place) -> None:
    ((name, content),) = objects_of([place.record(2, hours_ago=1)])
    (mine,) = place.put(place.record(1))
    run(place.blobs.put(f"{mine.rpartition('/')[0]}/{name.rpartition('/')[2]}", content))
    assert place.by_hour() == {place.hour: 1}
    assert place.summary.refused == 1


def test_hours_that_are_over_are_read_from_their_summary(place: Place) -> None:
    for number in range(1, 30):
        place.put(place.record(number))
    assert place.units() == 29
    place.clock.advance(4 * 3600)
    assert place.units() == 29
    fresh = place.another()
    assert place.units(fresh) == 29
    assert fresh.files_read == 0


def test_a_server_that_starts_late_makes_the_same_summaries(place: Place) -> None:
    other = Place()
    for number in range(1, 10):
        place.put(place.record(number))
        other.put(other.record(number))
    assert place.units() == 9
    for its in (place, other):
        its.clock.advance(4 * 3600)
        assert its.units() == 9
    made = [
        {name: its for name, (its, _) in each.blobs._stored.items() if name.startswith("summ")}
        for each in (place, other)
    ]
    assert made[0] == made[1] != {}


def test_what_comes_late_for_an_old_hour_counts_within_an_hour(place: Place) -> None:
    place.put(*several(place, [1], hours_ago=30))
    assert place.units() == 1
    place.put(*several(place, [2], hours_ago=30))
    assert place.units() == 1
    place.clock.advance(3600)
    assert place.units() == 2


def test_a_damaged_summary_is_made_again(place: Place) -> None:
    place.put(*several(place, [1, 2], hours_ago=30))
    assert place.units() == 2
    (name,) = [name for name in place.blobs._stored if name.startswith("summaries/")]
    whole = place.blobs._stored[name]
    run(place.blobs.put(name, whole[0][:-5]))
    assert place.units(place.another()) == 2


def test_a_look_at_a_quiet_place_lists_and_reads_nothing(place: Place) -> None:
    for number in range(1, 4):
        place.put(place.record(number))
    place.units()
    before = place.blobs.requests["get"]
    run(place.summary.look())
    assert place.blobs.requests["get"] == before


def test_pending_records_are_those_of_open_hours_that_no_file_has(place: Place) -> None:
    place.put(*several(place, [1, 2]))
    run(place.summary.look())
    pending = [place.record(2), place.record(3), place.record(3, hours_ago=10), place.record(1, B)]
    assert [place.summary.is_pending(its) for its in pending] == [False, True, False, True]
    ahead = replace(place.record(9), minute=place.clock.now_us() // US_PER_MINUTE + 60)
    assert place.summary.is_pending(ahead)
