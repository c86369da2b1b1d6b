"""What is lost of sandboxes is in the gaps that jobs tell, and nothing else is."""

import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.serverless.answer_lines import AnswerLines, Marking
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError
from data_plane.usage.record import Mark
from glue_jobs.identities import Gap, Reached, Run, Window, gaps, reached
from glue_jobs.records import Mark as ReadMark
from glue_jobs.records import read_mark
from tests.unit.control_plane.serverless.test_usage import ANSWERED
from tests.unit.repeatable import HandClock, SeededEntropy

START = 29_396_847
ALL_TIME = Window(0, 1 << 40)


@dataclass(frozen=True)
class Step:
    """An answer so many minutes after the one before; whether its line is lost, its mark fails."""

    minutes: int
    is_lost: bool
    fails: bool = False


class Marks:
    """Where a sandbox's marks go, the last one of each writer."""

    def __init__(self) -> None:
        self.stored: dict[str, Mark] = {}
        self.fails = False

    async def put_mark(self, mark: Mark) -> None:
        if self.fails:
            raise CellUnavailableError("away")
        self.stored[mark.writer] = mark

    def read(self) -> dict[str, ReadMark]:
        return {its: read_mark(msgspec.json.encode(mark)) for its, mark in self.stored.items()}


@dataclass
class Story:
    """The lines of a sandbox, those of them that came, and its marks."""

    lines: list[dict[str, Any]]
    came: list[dict[str, Any]]
    marks: dict[str, ReadMark]

    @property
    def lost(self) -> set[tuple[str, int]]:
        return {of(line) for line in self.lines} - {of(line) for line in self.came}


def done(call: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing: a loop for each would be most of the work."""
    with pytest.raises(StopIteration):
        call.send(None)


def of(line: dict[str, Any]) -> tuple[str, int]:
    return line["writer"], line["number"]


def lived(steps: Sequence[Step]) -> Story:
    """A sandbox that gives these answers, and ends without a word."""
    written: list[str] = []
    lines, marks = AnswerLines(SeededEntropy(), written.append), Marks()
    marking = Marking(lines, marks, MemoryCell(HandClock()))  # type: ignore[arg-type]
    minute = START
    for step in steps:
        minute += step.minutes
        lines.served(msgspec.structs.replace(ANSWERED, started_us=minute * 60_000_000))
        marks.fails = step.fails
        try:
            done(marking.mark())
        except CellUnavailableError:
            continue
    told = [json.loads(line) for line in written]
    came = [line for line, step in zip(told, steps, strict=True) if not step.is_lost]
    return Story(told, came, marks.read())


def runs_of(lines: Sequence[dict[str, Any]]) -> list[Run]:
    return [Run(*of(line), line["number"], line["minute"], line["minute"]) for line in lines]


def numbers_in(told: Sequence[Gap]) -> set[tuple[str, int]]:
    return {(gap.writer, n) for gap in told for n in range(gap.first, gap.last + 1)}


def is_at_the_end(line: dict[str, Any], ends: Sequence[Gap]) -> bool:
    return any(
        line["writer"] == end.writer
        and line["number"] >= end.first
        and end.from_minute <= line["minute"] <= end.to_minute
        for end in ends
    )


def steps(*, fails: bool = False) -> st.SearchStrategy[list[Step]]:
    minutes = st.sampled_from((0, 0, 0, 1, 1, 2, 700))
    step = st.builds(Step, minutes, st.booleans(), st.booleans() if fails else st.just(value=False))
    return st.lists(step, min_size=1, max_size=20)


@given(steps())
def test_every_line_that_was_lost_is_in_a_gap_and_no_other(its: list[Step]) -> None:
    story = lived(its)
    told = gaps(runs_of(story.came), story.marks, {}, ALL_TIME)
    ends = [gap for gap in told if gap.is_of_sandbox]
    numbered = numbers_in([gap for gap in told if not gap.is_of_sandbox])
    assert {end.writer for end in ends} == {line["writer"] for line in story.lines}
    assert numbered <= story.lost
    for line in story.lines:
        if of(line) in story.lost - numbered:
            assert is_at_the_end(line, ends)
        if of(line) not in story.lost:
            assert not is_at_the_end(line, ends)


@given(steps(fails=True))
def test_marks_that_fail_tell_of_nothing_that_was_not_lost(its: list[Step]) -> None:
    story = lived(its)
    told = gaps(runs_of(story.came), story.marks, {}, ALL_TIME)
    ends = [gap for gap in told if gap.is_of_sandbox]
    assert numbers_in([gap for gap in told if not gap.is_of_sandbox]) <= story.lost
    assert not any(is_at_the_end(line, ends) for line in story.came)


@given(steps(), st.integers(0, 40))
def test_two_periods_tell_together_what_one_does(its: list[Step], at: int) -> None:
    """Records of before make the second one know where a sandbox was."""
    story = lived(its)
    # Somebody else's record shows that the time before was looked at.
    other = Run("f" * 16, 1, 1, START - 1, START - 1)
    border = START + at
    early = [line for line in story.came if line["minute"] < border]
    late = [line for line in story.came if line["minute"] >= border]
    first = gaps([other, *runs_of(early)], story.marks, {}, Window(0, border))
    before: dict[str, Reached] = reached([other, *runs_of(early)])
    second = gaps(runs_of(late), story.marks, before, Window(border, 1 << 40))
    whole = gaps([other, *runs_of(story.came)], story.marks, {}, ALL_TIME)
    assert numbers_in([*first, *second]) == numbers_in(whole)
    for one, next_one in pairwise(sorted(gap for gap in [*first, *second] if gap.last)):
        assert one.writer != next_one.writer or one.last < next_one.first
    assert {gap for gap in [*first, *second] if gap.is_of_sandbox} == {
        gap for gap in whole if gap.is_of_sandbox
    }
