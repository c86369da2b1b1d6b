"""Which queues there were at a moment, and where the copy of each lay that counts.

From what exports have of the registry: definitions, placements and cells (docs/storage.md, *The
registry*; docs/audit.md, *Of several cells*). Audits go by the end; this goes by each moment.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from glue_jobs.evidence import RETENTION_S_DEFAULT

_QUEUES, _PLACEMENTS, _CELLS, _OWN = "Q|", "P|", "C|", "M|cells"
REGISTRY: Final = (_QUEUES, _PLACEMENTS, _CELLS, _OWN)
"""What the partitions begin with that have these items."""


@dataclass(frozen=True, slots=True)
class Known:
    """An item of a registry as exports of a cell had it, from a moment on, before another.

    Its partition is without the `incarnation` of its copy. `its` are the attributes, as they are.
    """

    cell: str
    partition: str
    incarnation: int
    name: str
    from_us: int
    until_us: int
    its: Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Placed:
    """A queue at a moment: the cell that counts, and under which incarnation it lies there."""

    cell: str
    incarnation: int
    uid: str
    account: str
    region: str
    queue: str
    purged_us: int
    retention_s: int


@dataclass(frozen=True, slots=True)
class Tenure:
    """A time in which that was so, by exports of the cell: from one moment on, before another."""

    placed: Placed
    from_us: int
    until_us: int


Moments = Mapping[str, Sequence[int]]
"""When each cell was exported, in order."""


def tenures(
    known: Iterable[Known], moments: Moments, no_end_us: int
) -> tuple[list[Tenure], Moments]:
    """What each cell counts at its moments; and those moments at which a registry is known.

    A cell goes by the latest registry that was exported by then: its own, where it has one.
    """
    looks = _looks(list(known), moments)
    found: list[Tenure] = []
    told: dict[str, list[int]] = {}
    for cell, its in sorted(moments.items()):
        since: dict[Placed, int] = {}
        for at_us in its:
            placed = _latest(looks, cell, at_us)
            if placed is None:
                continue
            told.setdefault(cell, []).append(at_us)
            of_cell = placed.get(cell, frozenset())
            found += [Tenure(its, since.pop(its), at_us) for its in since.keys() - of_cell]
            since |= dict.fromkeys(of_cell - since.keys(), at_us)
        found += [Tenure(placed, from_us, no_end_us) for placed, from_us in since.items()]
    return sorted(found, key=lambda its: (its.placed, its.from_us)), told


_View = Mapping[str, frozenset[Placed]]
"""The queues that each cell counts."""

_Looks = Mapping[str, Sequence[tuple[int, _View | None]]]


def _looks(known: Sequence[Known], moments: Moments) -> _Looks:
    """By cells with a registry: what it says from which moment on; None: it is no full copy."""
    looks: dict[str, list[tuple[int, _View | None]]] = {}
    for cell in sorted({its.cell for its in known}):
        own = [its for its in known if its.cell == cell]
        if all(its.partition == _OWN for its in own):
            continue
        changes = sorted({at_us for its in own for at_us in (its.from_us, its.until_us)})
        looks[cell] = []
        version = -1
        for at_us in moments[cell]:
            now = bisect_right(changes, at_us)
            if now != version:
                there = [its for its in own if its.from_us <= at_us < its.until_us]
                looks[cell].append((at_us, _view(there, cell, moments)))
                version = now
    return looks


def _latest(looks: _Looks, cell: str, at_us: int) -> _View | None:
    """What the cell's own registry says at a moment, else the one that was looked at last."""
    last = {
        each: its[bisect_right(its, at_us, key=lambda one: one[0]) - 1]
        for each, its in looks.items()
        if its[0][0] <= at_us
    }
    if cell in last and last[cell][1] is not None:
        return last[cell][1]
    others = [its for _, its in sorted(last.items()) if its[1] is not None]
    return max(others, key=lambda its: its[0])[1] if others else None


def _incarnation(there: Iterable[Known]) -> int | None:
    """Under which incarnation a cell has its copy of the registry; None: it has no full one."""
    for own in (each.its for each in there if each.partition == _OWN):
        members = {cell: (incarnation, full) for cell, incarnation, full in json.loads(own["m"])}
        incarnation, full = members.get(own["n"], (0, 0))
        return int(incarnation) if full else None
    return 0


def _view(there: Sequence[Known], cell: str, moments: Moments) -> _View | None:
    """The queues that each cell counts, by the registry that is in this one."""
    own = _incarnation(there)
    if own is None:
        return None
    items = [its for its in there if its.incarnation == own]
    placements = {
        its.name: json.loads(its.its["m"]) for its in items if its.partition == _PLACEMENTS
    }
    tables = {
        its.name: json.loads(its.its["a"]).get("table", its.name)
        for its in items
        if its.partition == _CELLS
    }
    found: dict[str, set[Placed]] = {}
    for its in items:
        if its.partition.startswith(_QUEUES) and its.its["k"] == "q":
            group, _, how = (its.its["c"] or "").partition("/")
            alone = tables.get(group, group)
            members = placements.get(group, [[alone if alone in moments else cell, 0, 1]])
            is_chain = how == "chain" or its.name.endswith(".fifo")
            name, incarnation = _counting(members, is_chain=is_chain)
            placed = _placed(its, tables.get(name, name), incarnation)
            found.setdefault(placed.cell, set()).add(placed)
    return {name: frozenset(its) for name, its in found.items()}


def _counting(members: Sequence[Any], *, is_chain: bool) -> tuple[str, int]:
    """The member that counts: the first one, on a chain the last one that is full."""
    full = [member for member in members if member[2]]
    cell, incarnation, _ = full[-1] if is_chain and full else members[0]
    return str(cell), int(incarnation)


def _placed(queue: Known, cell: str, incarnation: int) -> Placed:
    _, account, region = queue.partition.split("|")
    attributes = json.loads(queue.its["a"] or "{}")
    return Placed(
        cell,
        incarnation,
        queue.its["u"],
        account,
        region,
        queue.name,
        int(queue.its["p"] or 0),
        int(attributes.get("MessageRetentionPeriod", RETENTION_S_DEFAULT)),
    )
