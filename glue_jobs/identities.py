"""Which records there are: each identity once, and the ones that are missing.

A record's identity is its writer and number; writers count from 1 without gaps. So what a file
has of a writer is a few runs of numbers, and runs of all files together show what is there twice
and what is not there, without a look at the records themselves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from glue_jobs.records import Mark

LOST: Final = "lost"
"""It was counted, or may have been, and is nowhere."""

EXPIRED: Final = "expired"
"""It is as old as what was removed by its age."""

NOT_METERED: Final = "not metered"
"""Usage was off: nothing was counted."""

NOT_YET: Final = "not yet known"
"""A server is at work, or was cut off and no other took its place: nobody knows until when."""

PERHAPS: Final = "perhaps incomplete"
"""The end of a sandbox: each has one, at nearly all of them nothing is missing."""

STORAGE: Final = "storage not metered"
"""No export says what was stored; of requests nothing is missing."""

PUT_ASIDE: Final = "put aside"
"""It is there, and cannot be its writer's: nothing is billed for it."""

STATES: Final = (LOST, EXPIRED, PUT_ASIDE, NOT_METERED, NOT_YET, STORAGE, PERHAPS)


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Numbers `first` to `last` of a writer, all of them; minutes of the first and the last."""

    writer: str
    first: int
    last: int
    from_minute: int = 0
    to_minute: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """What is not known of a writer: numbers `first` to `last`, or, where `last` is 0, its end.

    It was served in minutes `from_minute` to `to_minute`; -1: nobody knows since, or until when.
    `first` of the end of a sandbox is the number that would be next, of the end of a server 0.
    `state`, one of `STATES`, says what became of it; the `writer` of what was not metered is the
    server that counted again, that of storage the cell. The end of a server lacks `requests_max`
    requests at most; -1: nobody knows how many.
    """

    writer: str
    first: int
    last: int
    from_minute: int
    to_minute: int
    state: str = LOST
    requests_max: int = -1

    @property
    def records(self) -> int:
        """How many records are missing, as far as that is known."""
        return self.last - self.first + 1 if self.last else 0

    @property
    def is_of_sandbox(self) -> bool:
        """Whether it is the end of a sandbox: each has one, at most of them nothing is missing."""
        return not self.last and self.first > 0


def copies(runs: Iterable[Run]) -> list[tuple[str, int, int]]:
    """Ranges (writer, first, last) of numbers that are in more than one of the runs."""
    found: list[tuple[str, int, int]] = []
    for writer, its in groupby(sorted(runs), lambda run: run.writer):
        highest = 0
        for run in its:
            if run.first <= highest:
                found.append((writer, run.first, min(run.last, highest)))
            highest = max(highest, run.last)
    return joined_ranges(found)


def joined(runs: Iterable[Run]) -> list[Run]:
    """The same numbers, each in one run only, and as few runs as can be."""
    found: list[Run] = []
    for run in sorted(runs):
        last = found[-1] if found else None
        if last is None or last.writer != run.writer or run.first > last.last + 1:
            found.append(run)
        elif run.last > last.last:
            found[-1] = replace(last, last=run.last, to_minute=run.to_minute)
    return found


def joined_ranges(ranges: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The same numbers, each in one range only."""
    joined: list[tuple[str, int, int]] = []
    for writer, first, last in sorted(ranges):
        if joined and joined[-1][0] == writer and first <= joined[-1][2] + 1:
            joined[-1] = (writer, joined[-1][1], max(last, joined[-1][2]))
        else:
            joined.append((writer, first, last))
    return joined


@dataclass(frozen=True, slots=True)
class Window:
    """What a look at records is limited to: minutes from `start`, before `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reached:
    """The highest number known of a writer, and the minute of that record."""

    number: int
    minute: int


def reached(runs: Iterable[Run]) -> dict[str, Reached]:
    """How far each writer's records go."""
    found: dict[str, Reached] = {}
    for run in sorted(runs):
        if run.writer not in found or found[run.writer].number < run.last:
            found[run.writer] = Reached(run.last, run.to_minute)
    return found


def beyond(runs: Iterable[Run], before: Mapping[str, Reached]) -> list[Run]:
    """What of these runs is behind the numbers that were known `before`."""
    return [
        replace(run, first=max(run.first, known + 1))
        for run in joined(runs)
        if run.last > (known := before[run.writer].number if run.writer in before else 0)
    ]


def gaps(
    runs: Iterable[Run],
    marks: Mapping[str, Mark],
    before: Mapping[str, Reached],
    window: Window,
    late: Sequence[Run] = (),
) -> list[Gap]:
    """What is missing of a window: by its records, marks, and what was known `before` it.

    A missing number between two windows belongs to the later one; there it is not missing if it
    came `late` to the earlier one. A writer without a mark is a sandbox of which no mark got
    through: where it ended nobody knows.
    """
    runs = list(runs)
    here = {run.writer for run in runs}
    here |= {name for name, mark in marks.items() if window.start <= mark.complete_to < window.end}
    runs = joined([*runs, *(run for run in late if run.writer in here)]) if late else runs
    its = {writer: list(found) for writer, found in groupby(sorted(runs), lambda run: run.writer)}
    successors = {mark.after: mark for mark in marks.values() if mark.after}
    found: list[Gap] = []
    for writer in sorted({*its, *marks}):
        mark = marks.get(writer)
        known = before.get(writer)
        if known is None and before and mark is not None and mark.kind == "function":
            known = Reached(0, mark.opened)  # what it answered before the window did not come
        found += _missing(its.get(writer, ()), mark, known, window)
        if mark is not None and mark.off_from:
            found += _not_metered(mark, window)
        if mark is None or mark.closed or mark.kind == "ledger":
            continue
        if not window.start <= mark.complete_to < window.end:
            continue
        if mark.kind == "function":
            found.append(_end_of_sandbox(its.get(writer, ()), mark))
        else:
            found.append(_end_of_server(mark, successors.get(writer)))
    return found + list(_gone(its, marks, before, window))


def _gone(
    runs: Mapping[str, Sequence[Run]],
    marks: Mapping[str, Mark],
    before: Mapping[str, Reached],
    window: Window,
) -> Iterator[Gap]:
    """Servers of which only their successors know: since their last known record."""
    for mark in marks.values():
        if not mark.after or mark.after in marks:
            continue
        until = max(0, mark.off_from or mark.opened)
        if window.start <= until < window.end:
            known = before.get(mark.after)
            last = max((run.to_minute for run in runs.get(mark.after, ())), default=-1)
            yield Gap(mark.after, 0, 0, max(last, known.minute if known else -1), until)


def expired(its: Iterable[Gap], kept_from: int) -> list[Gap]:
    """The same gaps; of numbers that are missing since a minute before `kept_from`, as expired."""
    return [
        replace(gap, state=EXPIRED) if gap.last and gap.from_minute < kept_from else gap
        for gap in its
    ]


def _end_of_server(mark: Mark, successor: Mark | None) -> Gap:
    """What it answered last, until another took its place or usage was off."""
    if successor is None and not mark.ended:
        return Gap(mark.writer, 0, 0, mark.complete_to, -1, NOT_YET)
    ended = mark.ended if successor is None else successor.off_from or successor.opened
    until, lacking = max(mark.complete_to, ended), mark.unsaved_max if mark.ended else -1
    return Gap(mark.writer, 0, 0, mark.complete_to, until, requests_max=lacking)


def _not_metered(mark: Mark, window: Window) -> Iterator[Gap]:
    """The part in the window of the time before a server in which usage was off."""
    first, last = max(mark.off_from, window.start), min(mark.opened, window.end - 1)
    if first <= last:
        yield Gap(mark.writer, 0, 0, first, last, NOT_METERED)


def _end_of_sandbox(runs: Sequence[Run], mark: Mark) -> Gap:
    """All that may be missing behind what is known: a later minute would have moved the mark."""
    known = max([mark.records, *(run.last for run in runs)])
    minute = max([mark.complete_to, *(run.to_minute for run in runs)])
    return Gap(mark.writer, known + 1, 0, mark.complete_to, minute, PERHAPS)


def _missing(
    runs: Sequence[Run], mark: Mark | None, before: Reached | None, window: Window
) -> Iterator[Gap]:
    if before is not None:
        highest, at = before.number, before.minute
    elif mark is not None and mark.opened < window.start:
        # Nothing is known of the time before: what is seen first is where checking begins.
        highest, at = runs[0].first - 1 if runs else mark.records, mark.opened
    else:
        highest, at = 0, mark.opened if mark is not None else -1
    for run in runs:
        if run.first > highest + 1:
            yield Gap(run.writer, highest + 1, run.first - 1, at, run.from_minute)
        if run.last > highest:
            highest, at = run.last, run.to_minute
    if mark is None or not window.start <= mark.complete_to < window.end:
        return  # told of the window in which its mark stands, and of no later one
    if mark.records > highest:
        yield Gap(mark.writer, highest + 1, mark.records, at, mark.complete_to)
