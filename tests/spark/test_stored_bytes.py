"""From samples to byte-hours: exact, each time once, and what no sample covers is told."""

from random import Random

from glue_jobs.identities import STORAGE, Gap, Window
from glue_jobs.stored_bytes import HOLD_US, Samples, StoredHour, byte_hours, uncovered

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
WINDOW = Window(60 * 100, 60 * 200)
START_US = WINDOW.start * MINUTE_US
QUEUE = ("111122223333", "eu-west-1", "orders")
A, B = "a", "b"


def at(minutes: int, cell: str = A) -> tuple[str, int]:
    return cell, START_US + minutes * MINUTE_US


def samples(levels: dict[tuple[str, int], int]) -> Samples:
    return Samples(
        frozenset(levels), {QUEUE: {its: level for its, level in levels.items() if level}}
    )


def hours(its: Samples) -> list[tuple[int, int]]:
    return [(row.hour - 100, row.byte_hours) for row in byte_hours(its, WINDOW)]


def test_a_sample_holds_until_the_next_one() -> None:
    its = {at(0): 1000, at(60): 600, at(90): 0, at(120): 60, at(150): 0}
    assert hours(samples(its)) == [(0, 1000), (1, 300), (2, 30)]
    assert byte_hours(samples(its), WINDOW)[0] == StoredHour(100, QUEUE, 1000)


def test_a_sample_holds_for_an_hour_and_a_quarter_at_most() -> None:
    assert HOLD_US == 75 * MINUTE_US
    assert hours(samples({at(30): 120})) == [(0, 60), (1, 90)]
    assert hours(samples({at(30): 120, at(600): 0})) == [(0, 60), (1, 90)]


def test_a_window_has_what_is_held_within_it() -> None:
    # Taken in the hour before it; and held beyond its end.
    assert hours(samples({at(-60): 40, at(-30): 80})) == [(0, 60)]
    assert hours(samples({at(6000 - 15): 40})) == [(99, 10)]
    assert hours(samples({at(6000): 40})) == []
    taken = samples({at(-75): 1, at(-74): 2, at(5999): 3, at(6000): 4}).of([WINDOW])
    assert sorted(taken.taken) == [at(-74), at(5999)]
    assert taken.stored == {QUEUE: {at(-74): 2, at(5999): 3}}


def test_a_part_of_a_byte_hour_goes_to_the_next_hour() -> None:
    every = {at(60 * hour + 45): 1 for hour in range(20)}
    ends = {at(60 * hour + 60): 0 for hour in range(20)}
    found = hours(samples(every | ends))
    assert found == [(3, 1), (7, 1), (11, 1), (15, 1), (19, 1)]
    # A byte stored for a microsecond less than an hour is none.
    assert hours(Samples(frozenset([at(0), (A, at(60)[1] - 1)]), {QUEUE: {at(0): 1}})) == []


def test_copies_in_several_cells_count_once() -> None:
    # The copy that counts moves from one cell to another; each goes on being exported.
    its = {at(0): 100, at(0, B): 0, at(30, B): 100, at(60): 0, at(90, B): 0}
    assert hours(samples(its)) == [(0, 100), (1, 50)]
    # Two that say so at once, or seconds apart, say it of the same messages.
    both = {at(0): 100, at(0, B): 100, at(60): 0, at(60, B): 0}
    assert hours(samples(both)) == [(0, 100)]


def test_samples_join_whatever_their_order() -> None:
    levels = {at(7 * number, cell): 10 * number for number in range(40) for cell in (A, B)}
    whole, random = samples(levels), Random(8)
    for _ in range(20):
        parts = [samples(dict(random.choices(list(levels.items()), k=40))) for _ in range(9)]
        found = Samples()
        for part in [*parts, whole, *parts]:
            found = found.and_of(part)
        assert found == whole
        assert byte_hours(found, WINDOW) == byte_hours(whole, WINDOW)


def test_times_that_no_sample_covers_are_told() -> None:
    its = samples({at(-30): 1, at(60): 0, at(200): 0, at(5990): 1})
    first, end = WINDOW.start, WINDOW.end
    told = [
        Gap(A, 0, 0, first + 45, first + 59, STORAGE),
        Gap(A, 0, 0, first + 135, first + 199, STORAGE),
        Gap(A, 0, 0, first + 275, first + 5989, STORAGE),
    ]
    assert uncovered(its, WINDOW, is_over=True) == told
    # Where it is not over, the end is not known yet.
    early = samples({at(0): 1, at(0, B): 1, at(30, B): 0})
    assert uncovered(early, WINDOW, is_over=False) == [
        Gap(A, 0, 0, first + 75, -1, STORAGE),
        Gap(B, 0, 0, first + 105, -1, STORAGE),
    ]
    assert uncovered(early, WINDOW, is_over=True)[0] == Gap(A, 0, 0, first + 75, end - 1, STORAGE)
    assert uncovered(Samples(), WINDOW, is_over=True) == []
