"""Which records there are: copies and gaps by runs of numbers, held to a naive count."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue_jobs.identities import (
    EXPIRED,
    NOT_METERED,
    NOT_YET,
    PERHAPS,
    Gap,
    Reached,
    Run,
    Window,
    copies,
    expired,
    gaps,
)
from glue_jobs.missing import lines_of
from glue_jobs.records import MARKS, Mark, may_have_written, read_mark

WINDOW = Window(1000, 2000)
A, B = "a" * 16, "b" * 16


def mark(writer: str = A, **changes: object) -> Mark:
    its = {"opened": 1000, "after": "", "complete_to": 1100, "records": 10, "closed": True}
    return Mark(writer=writer, kind="server", **{**its, **changes})  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 30), st.integers(0, 9))))
def test_copies_are_the_numbers_that_more_than_one_run_has(
    its: list[tuple[str, int, int]],
) -> None:
    runs = [Run(writer, first, first + length) for writer, first, length in its]
    seen: dict[tuple[str, int], int] = {}
    for run in runs:
        for number in range(run.first, run.last + 1):
            seen[run.writer, number] = seen.get((run.writer, number), 0) + 1
    found = copies(runs)
    assert {(writer, n) for writer, first, last in found for n in range(first, last + 1)} == {
        key for key, count in seen.items() if count > 1
    }
    assert all(left[0] != right[0] or left[2] < right[1] for left, right in pairwise(found))


@given(st.sets(st.integers(1, 30), min_size=1))
def test_gaps_are_the_numbers_that_no_run_has(numbers: set[int]) -> None:
    runs = [Run(A, number, number, 1000, 1000) for number in numbers]
    found = gaps(runs, {}, {}, WINDOW)
    missing = {n for gap in found for n in range(gap.first, gap.last + 1)}
    assert missing == set(range(1, max(numbers))) - numbers


def test_a_mark_says_what_its_writer_still_gave() -> None:
    assert gaps([Run(A, 1, 7, 1001, 1050)], {A: mark()}, {}, WINDOW) == [Gap(A, 8, 10, 1050, 1100)]
    assert gaps([Run(A, 1, 10, 1001, 1099)], {A: mark()}, {}, WINDOW) == []
    assert gaps([], {A: mark()}, {}, WINDOW) == [Gap(A, 1, 10, 1000, 1100)]


def test_what_was_cut_off_ends_where_its_successor_opened() -> None:
    cut, runs = mark(closed=False), [Run(A, 1, 10, 1001, 1099)]
    after = mark(B, after=A, opened=1130, records=0, complete_to=1131)
    assert gaps(runs, {A: cut, B: after}, {}, WINDOW) == [Gap(A, 0, 0, 1100, 1130)]
    assert gaps(runs, {A: cut}, {}, WINDOW) == [Gap(A, 0, 0, 1100, -1, NOT_YET)]
    at_once = mark(B, after=A, opened=1100, records=0, complete_to=1100)
    assert gaps(runs, {A: cut, B: at_once}, {}, WINDOW) == [Gap(A, 0, 0, 1100, 1100)]
    ledger = Mark(A, 1000, "", 1100, 10, closed=False, kind="ledger")
    assert gaps(runs, {A: ledger}, {}, WINDOW) == []


def test_while_usage_was_off_nothing_was_lost() -> None:
    ended, runs = mark(), [Run(A, 1, 10, 1001, 1099)]
    again = mark(B, after=A, opened=1500, records=0, complete_to=1501, off_from=1200)
    off = Gap(B, 0, 0, 1200, 1500, NOT_METERED)
    assert gaps(runs, {A: ended, B: again}, {}, WINDOW) == [off]
    assert off.records == 0
    # Only the last minutes of one that was cut off before are lost.
    cut = mark(closed=False)
    lost = Gap(A, 0, 0, 1100, 1200)
    assert gaps(runs, {A: cut, B: again}, {}, WINDOW) == [lost, off]


def test_a_time_without_usage_is_told_of_each_window_it_is_in() -> None:
    again = {B: mark(B, opened=3100, records=0, complete_to=3101, off_from=1200)}
    assert gaps([], again, {}, WINDOW) == [Gap(B, 0, 0, 1200, 1999, NOT_METERED)]
    assert gaps([], again, {}, Window(2000, 3000)) == [Gap(B, 0, 0, 2000, 2999, NOT_METERED)]
    assert gaps([], again, {}, Window(3000, 4000)) == [Gap(B, 0, 0, 3000, 3100, NOT_METERED)]
    assert gaps([], again, {}, Window(4000, 5000)) == []


def test_what_is_older_than_what_is_kept_has_expired() -> None:
    its = gaps([Run(A, 5, 7, 1150, 1160)], {A: mark(complete_to=1300)}, {}, WINDOW)
    assert its == [Gap(A, 1, 4, 1000, 1150), Gap(A, 8, 10, 1160, 1300)]
    assert expired(its, 1100) == [Gap(A, 1, 4, 1000, 1150, EXPIRED), Gap(A, 8, 10, 1160, 1300)]
    assert expired(its, 0) == its
    # Where a server was cut off nothing was stored that could expire.
    end = [Gap(A, 0, 0, 1000, 1010)]
    assert expired(end, 1100) == end


def test_what_is_missing_between_two_periods_belongs_to_the_later_one() -> None:
    early = mark(opened=900, complete_to=1999, records=20)
    assert gaps([Run(A, 9, 20, 1001, 1999)], {A: early}, {A: Reached(6, 999)}, WINDOW) == [
        Gap(A, 7, 8, 999, 1001)
    ]
    later = mark(opened=1000, complete_to=2500, records=40)
    assert gaps([Run(A, 1, 20, 1001, 1999)], {A: later}, {}, WINDOW) == []


def test_what_a_mark_says_is_told_of_the_window_in_which_it_stands() -> None:
    ended, known = mark(complete_to=1999, records=10), [Run(A, 1, 7, 1001, 1998)]
    missing = [Gap(A, 8, 10, 1998, 1999)]
    assert gaps(known, {A: ended}, {}, WINDOW) == missing
    assert gaps([], {A: ended}, {A: Reached(7, 1998)}, Window(2000, 3000)) == []
    # In its minute, the first of the later window, it may have answered, too.
    ended = mark(complete_to=2000, records=10)
    assert gaps(known, {A: ended}, {}, WINDOW) == []
    late = [Run(A, 8, 10, 2000, 2000)]
    assert gaps(late, {A: ended}, {A: Reached(7, 1998)}, Window(2000, 3000)) == []


def sandbox(**changes: object) -> Mark:
    its = {"opened": 1000, "after": "", "complete_to": 1100, "records": 10, "closed": False}
    return Mark(writer=A, kind="function", **{**its, **changes})  # type: ignore[arg-type]


def test_a_sandbox_ends_in_the_minute_of_its_mark() -> None:
    ends = gaps([Run(A, 1, 10, 1001, 1100)], {A: sandbox()}, {}, WINDOW)
    assert ends == [Gap(A, 11, 0, 1100, 1100, PERHAPS)]
    assert (ends[0].is_of_sandbox, ends[0].records) == (True, 0)
    # What came behind the mark is known.
    ends = gaps([Run(A, 1, 14, 1001, 1100)], {A: sandbox()}, {}, WINDOW)
    assert ends == [Gap(A, 15, 0, 1100, 1100, PERHAPS)]
    # It could not move its mark any more.
    ends = gaps([Run(A, 1, 14, 1001, 1102)], {A: sandbox()}, {}, WINDOW)
    assert ends == [Gap(A, 15, 0, 1100, 1102, PERHAPS)]


def test_what_a_sandbox_has_marked_is_missed_by_its_numbers() -> None:
    end = Gap(A, 11, 0, 1100, 1100, PERHAPS)
    assert gaps([Run(A, 1, 7, 1001, 1050)], {A: sandbox()}, {}, WINDOW) == [
        Gap(A, 8, 10, 1050, 1100),
        end,
    ]
    # Not one of its lines came.
    assert gaps([], {A: sandbox()}, {}, WINDOW) == [Gap(A, 1, 10, 1000, 1100), end]


def test_the_end_of_a_sandbox_belongs_to_the_window_it_is_in() -> None:
    later = sandbox(complete_to=2010)
    assert gaps([Run(A, 1, 7, 1990, 1999)], {A: later}, {}, WINDOW) == []
    after = gaps([Run(A, 8, 10, 2001, 2010)], {A: later}, {A: Reached(7, 1999)}, Window(2000, 3000))
    assert after == [Gap(A, 11, 0, 2010, 2010, PERHAPS)]


def test_a_sandbox_of_which_nothing_came_before_the_window_is_missed_in_it() -> None:
    its, before = sandbox(opened=990), {B: Reached(3, 999)}
    missed = gaps([Run(A, 6, 10, 1002, 1100)], {A: its}, before, WINDOW)
    assert missed[0] == Gap(A, 1, 5, 990, 1002)
    assert gaps([], {A: its}, before, WINDOW)[0] == Gap(A, 1, 10, 990, 1100)
    # Where nobody has looked at the time before, checking begins with what is seen first.
    assert gaps([Run(A, 6, 10, 1002, 1100)], {A: its}, {}, WINDOW) == [
        Gap(A, 11, 0, 1100, 1100, PERHAPS)
    ]


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("aaaaaaaaaaaaaaaa.json", True),
        ("date=2026-11-01/aaaaaaaaaaaaaaaa.json", True),
        ("date=2026-11-30/aaaaaaaaaaaaaaaa.json", True),
        ("date=2026-10-31/aaaaaaaaaaaaaaaa.json", True),
        ("date=2026-10-30/aaaaaaaaaaaaaaaa.json", False),
        ("date=2026-12-01/aaaaaaaaaaaaaaaa.json", False),
        ("date=2026-11-31/aaaaaaaaaaaaaaaa.json", True),
        ("date=/aaaaaaaaaaaaaaaa.json", True),
    ],
)
def test_marks_of_sandboxes_of_other_months_are_not_read(name: str, *, may: bool) -> None:
    assert may_have_written(f"{MARKS}{name}", "2026-11") is may


def test_marks_of_before_say_nothing_of_usage_that_was_off() -> None:
    said = {
        "schema": "tidegate.writer/1",
        "writer": A,
        "kind": "server",
        "opened": 1,
        "after": "",
        "complete_to": 2,
        "records": 3,
        "access": 0,
        "closed": True,
    }
    assert read_mark(json.dumps(said).encode()).off_from == 0
    assert read_mark(json.dumps({**said, "off_from": 7}).encode()).off_from == 7
    with pytest.raises(ValueError, match="its off_from is -1"):
        read_mark(json.dumps({**said, "off_from": -1}).encode())


@pytest.mark.parametrize(
    "content", [b"{}", b"[]", b'{"schema":"tidegate.writer/1"}', b"x", b'{"schema":1}']
)
def test_what_is_no_mark_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_mark(content)


def test_the_end_of_a_server_that_others_ended_has_a_size() -> None:
    cut = mark(closed=False, ended=1104, unsaved_max=2000)
    runs = [Run(A, 1, 10, 1001, 1099)]
    its = Gap(A, 0, 0, 1100, 1104, requests_max=2000)
    assert gaps(runs, {A: cut}, {}, WINDOW) == [its]
    assert lines_of([its])[0].startswith(
        f"lost: writer {A}: what it answered last, 2,000 requests at most, "
    )
    after = mark(B, after=A, opened=1103, records=0, complete_to=1104)
    assert gaps(runs, {A: cut, B: after}, {}, WINDOW) == [replace(its, to_minute=1103)]
    # A mark of before says no size, nor does one of which nobody knows.
    assert gaps(runs, {A: replace(cut, unsaved_max=-1)}, {}, WINDOW)[0].requests_max == -1


def test_a_server_that_only_its_successor_knows_is_a_gap() -> None:
    after = mark(B, after=A, opened=1300, records=0, complete_to=1301)
    assert gaps([], {B: after}, {}, WINDOW) == [Gap(A, 0, 0, -1, 1300)]
    runs = [Run(A, 1, 10, 1001, 1099)]
    assert gaps(runs, {B: after}, {}, WINDOW) == [Gap(A, 0, 0, 1099, 1300)]
    assert gaps([], {B: after}, {A: Reached(7, 900)}, WINDOW) == [Gap(A, 0, 0, 900, 1300)]
    assert gaps([], {B: after}, {}, Window(2000, 3000)) == []


@pytest.mark.parametrize(
    "wrong", [{"opened": 10**12}, {"ended": -1}, {"unsaved_max": -2}, {"counted_to": 1 << 63}]
)
def test_a_mark_of_no_time_is_none(wrong: dict[str, int]) -> None:
    its = {"schema": "tidegate.writer/1", "writer": A, "kind": "server", "opened": 1, "after": ""}
    its |= {"complete_to": 1, "records": 0, "access": 0, "closed": True}
    assert read_mark(json.dumps(its).encode()).unsaved_max == -1
    with pytest.raises(ValueError, match=f"its {next(iter(wrong))} is "):
        read_mark(json.dumps(its | wrong).encode())
