"""What keeps a month from being closed, unless somebody accepts it by its name."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from glue_jobs import writers
from glue_jobs.arguments import JobError
from glue_jobs.identities import PERHAPS, PUT_ASIDE, Gap
from glue_jobs.inputs import Inputs
from glue_jobs.missing import lines_of, writer_of

_SAID_MAX = 20
_PLAIN: Final = "/="
"""What stands for itself in an accepted name, besides letters and digits, though it is no word."""


@dataclass(frozen=True, slots=True, order=True)
class Objection:
    """Why a month is not to be closed, and the name by which that is accepted.

    `name` is that of a file, of a writer, or, of storage, of a cell.
    """

    name: str
    why: str


def check_closing(
    inputs: Inputs,
    gaps: Iterable[Gap],
    conflicts: Iterable[tuple[str, int]],
    *,
    accepted: Collection[str],
    gap_minutes: int,
) -> None:
    """Raise JobError that says what is not accepted, and how to accept it."""
    found = sorted({*_objections(inputs, gaps, conflicts, gap_minutes)})
    _refuse([its for its in found if its.name not in accepted], accepted, inputs.period)


def check_correcting(
    inputs: Inputs, closed: Sequence[Mapping[str, Any]], period: str, accepted: Collection[str]
) -> None:
    """The same of a closed month that is corrected in this period.

    `closed` is what its pointer and later ones say: what was in doubt by then was accepted.
    """
    its = new_doubts(inputs, closed)
    found = sorted({*_objections(its, [], its.conflicts, 0)})
    _refuse([one for one in found if one.name not in accepted], accepted, period)


def new_doubts(inputs: Inputs, closed: Sequence[Mapping[str, Any]]) -> Inputs:
    """What is in doubt of a closed month now, and was not when it or a later one was closed."""
    known = {its["name"] for said in closed for its in said["quarantined"]}
    conflicts = {(writer, number) for said in closed for writer, number in said["conflicts"]}
    return replace(
        inputs,
        hours=[
            replace(its, aside=tuple(one for one in its.aside if one.name not in known))
            for its in inputs.hours
        ],
        strays=[its for its in inputs.strays if its.name not in known],
        refused_files=[its for its in inputs.refused_files if its.name not in known],
        conflicts=[its for its in inputs.conflicts if its not in conflicts],
        against_register=(),
    )


def _refuse(left: Sequence[Objection], accepted: Collection[str], period: str) -> None:
    if not left:
        return
    said = [f"  {its.why}" for its in left[:_SAID_MAX]]
    if len(left) > _SAID_MAX:
        said.append(f"  and {len(left) - _SAID_MAX} more, each of which is named below")
    names = dict.fromkeys((*accepted, *(its.name for its in left)))
    given = ",".join(quote(name, safe=_PLAIN) for name in names)
    raise JobError(
        "\n".join(
            (
                f"period {period}: it is not closed, for usage of it is in doubt:",
                *said,
                f"bill: to close it all the same: --accept={given}",
            )
        )
    )


def _objections(
    inputs: Inputs, gaps: Iterable[Gap], conflicts: Iterable[tuple[str, int]], gap_minutes: int
) -> Iterator[Objection]:
    of_writers = {one.file for one in inputs.refused}
    damaged = {writer_of(name): name for name, _ in inputs.bad_marks}
    for file in inputs.aside:
        if file.name in of_writers:
            continue  # named by its writers
        yield Objection(file.name, f"put aside: {file.name}: {file.reason}")
    for gap in gaps:
        if _is_above(gap, gap_minutes):
            yield from (Objection(gap.writer, line) for line in lines_of([gap], inputs.bad_marks))
    for writer, number in conflicts:
        yield Objection(writer, f"conflict: writer {writer}: record {number}")
    for one in inputs.refused:
        mark = damaged.get(one.writer)
        yield Objection(one.writer, f"{one.why}; {mark} cannot be read" if mark else one.why)
    for writer, why in inputs.against_register:
        yield Objection(writer, f"not as registered: {why}")


def _is_above(gap: Gap, gap_minutes: int) -> bool:
    """Whether a gap is too large: records that are known to be missing, or too many minutes."""
    if gap.state in {PERHAPS, PUT_ASIDE}:
        return False
    endless = -1 in {gap.from_minute, gap.to_minute}
    return gap.records > 0 or endless or gap.to_minute - gap.from_minute > gap_minutes


def unknown_writers(inputs: Inputs) -> list[str]:
    """Writers of records that nothing says were there, accepted ones among them."""
    runs = [run for one in inputs.refused for run in one.runs]
    return writers.unknown_writers([*runs, *inputs.recorded], inputs.marks)
