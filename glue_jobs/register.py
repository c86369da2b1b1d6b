"""The register of writers, as exports have it, held to marks: docs/usage.md, *The register*.

Marks lie where records do; the register lies with the queues. So who forges or removes what is in
a usage place has still to forge the other.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from glue_jobs.exports import Export, number, observations
from glue_jobs.identities import Window
from glue_jobs.inputs import Inputs
from glue_jobs.places import Place
from glue_jobs.plural import counted
from glue_jobs.records import Mark

PARTITION: Final = "M|writers"
_US_PER_MINUTE: Final = 60_000_000
_SLACK_MINUTES: Final = 60
"""A registry that is away is told so much later, at the most, of a server that has begun."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A writer, the minute in which it opened, and its last number; -1: it has none yet."""

    writer: str
    opened: int
    last: int


@dataclass(frozen=True, slots=True)
class Register:
    """Writers that opened in minutes from `from_minute` to `to_minute`: all of them."""

    entries: tuple[Entry, ...] = ()
    from_minute: int = 0
    to_minute: int = -1


NONE: Final = Register()
"""Nobody knows."""


def held_to_register(
    session: SparkSession,
    place: Place | None,
    exports: Sequence[Export],
    inputs: Inputs,
    accepted: Collection[str] = (),
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Writers of a period, and what of them does not agree with the register, if there is one.

    And those of them of which nothing counts, with the reason: they have marks, and nothing else
    vouches for them. Writers `accepted` are not among them.
    """
    if place is None:
        return [], {}
    register = read_register(session, place, exports, inputs.window)
    wrote = {run.writer for run in inputs.recorded}
    told = against_register(register, inputs.marks, wrote, inputs.window)
    return told, forged_of(told, inputs.marks, accepted)


def forged_of(
    told: Iterable[tuple[str, str]], marks: Mapping[str, Mark], accepted: Collection[str]
) -> dict[str, str]:
    """Writers that were never registered and have marks, and why nothing of them counts."""
    return {writer: why for writer, why in told if writer in marks and writer not in accepted}


def read_register(
    session: SparkSession, place: Place, exports: Sequence[Export], window: Window
) -> Register:
    """What the last full export of each table, and what came after it, have of a window's writers.

    Of exports without a register, as those of services of before, there is nothing to be told.
    """
    last = {its.cell: its.as_of_us for its in exports if its.is_full}
    read = [its for its in exports if its.as_of_us >= last.get(its.cell, its.as_of_us + 1)]
    if not read:
        return NONE
    seen = observations(session, place, read).where(f.col("partition") == PARTITION)
    found = _latest(seen).collect()
    if not found:
        return NONE
    its = [Entry(row.writer, row.opened, -1 if row.last is None else row.last) for row in found]
    as_of_us = min(max(e.as_of_us for e in read if e.cell == row.cell) for row in found)
    return Register(
        tuple(sorted(one for one in its if one.opened < window.end)),
        min(one.opened for one in its),
        as_of_us // _US_PER_MINUTE,
    )


def _latest(seen: DataFrame) -> DataFrame:
    its = f.struct(number("o").alias("opened"), number("n").alias("last"), "cell")
    return (
        seen.where(~f.col("is_gone"))
        .groupBy(f.decode("sort", "UTF-8").alias("writer"))
        .agg(f.max_by(its, "as_of_us").alias("its"))
        .select("writer", "its.*")
        .where("opened is not null")
    )


def against_register(
    register: Register, marks: Mapping[str, Mark], wrote: Collection[str], window: Window
) -> list[tuple[str, str]]:
    """Writers, and what of them does not agree with the register.

    `wrote` are those who have records in the window.
    """
    registered = {one.writer for one in register.entries}
    found = [
        (mark.writer, f"writer {mark.writer} has a mark, and was never registered")
        for mark in _should_be(register, marks.values())
        if mark.writer not in registered and (_is_in(mark.opened, window) or mark.writer in wrote)
    ]
    found += [
        (
            one.writer,
            f"writer {one.writer} was registered and is gone: {counted(one.last, 'record')}",
        )
        for one in register.entries
        if one.writer not in marks and one.last > 0 and _is_in(one.opened, window)
    ]
    return sorted(found)


def _should_be(register: Register, marks: Iterable[Mark]) -> list[Mark]:
    return [
        mark
        for mark in marks
        if mark.kind != "ledger"
        and register.from_minute <= mark.opened <= register.to_minute - _SLACK_MINUTES
    ]


def _is_in(minute: int, window: Window) -> bool:
    return window.start <= minute < window.end
