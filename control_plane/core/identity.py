"""Which directories, or tables, are the cells of a service, and which are not. Pure.

A service has an id. Each of its cells says which cell of which service it is, and its
*incarnation*: when it was opened last, made greater than any before. Each cell, and the manifest
beside them, says besides of all cells which incarnation they have at least. That is written once
the cells have stored it, and before anything else is: so a copy from before has a lower one than
others know of, wherever a crash came between, and what a cell has now never does.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from data_plane.core.utc import utc_time

_US_PER_S: Final = 1_000_000


class Knowledge(NamedTuple):
    """What the manifest, or a cell, says of a service.

    `service` is its id, "" where it had none yet; `cells` says where each is; each has one of
    `incarnations` at least. Of two the one with the greater `order` was written later.
    """

    service: str
    cells: Mapping[str, str]
    incarnations: Mapping[str, int]
    order: tuple[int, int]

    @property
    def is_confirmed(self) -> bool:
        """Whether the service was ever served: the first start may have ended before."""
        return not self.service or bool(self.incarnations)


class Said(NamedTuple):
    """What a directory says of itself: which cell it is, its incarnation, and what it knows."""

    cell: str
    incarnation: int
    knowledge: Knowledge


class Found(NamedTuple):
    """A directory that was looked at; `reason` says why it cannot be read.

    What can be read and says nothing is empty, also what `is_missing`, unless it `has_other` items:
    those of a service that has one cell. One that `is_replaced` took the place of
    what a server had open, and is not read.
    """

    path: str
    said: Said | None = None
    reason: str = ""
    has_other: bool = False
    is_replaced: bool = False
    is_missing: bool = False


class Standing(Enum):
    """What a directory is to the cell in whose place it lies. Only what is CURRENT is read."""

    CURRENT = "current"
    EMPTY = "empty"
    STALE = "stale"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"
    FAILED = "failed"
    UNNAMED = "unnamed"

    @property
    def is_lost(self) -> bool:
        """Whether the cell has lost what it held: others have to have it."""
        return self not in (Standing.CURRENT, Standing.FAILED, Standing.UNNAMED)


class Judged(NamedTuple):
    """A cell of the service and its directory, or a directory without a cell (`name` is "").

    `why` is for people, and goes on where `name (path)` ends.
    """

    name: str
    path: str
    standing: Standing
    why: str

    def __str__(self) -> str:
        """In one line."""
        where = f"{self.name} ({self.path})" if self.name else self.path
        return f"{where} {self.why}"


class Verdict(NamedTuple):
    """What was found out. `service` is "" for one without an id.

    `cells` are its cells, none where there is no service yet; `others` are directories that are
    none of them. `incarnations` are those that its cells have at least; none that was ever used is
    above `last`. `refusal`: nobody can tell, and why.
    `named` are the directories that an operator has named.
    """

    service: str = ""
    cells: Mapping[str, Judged] = MappingProxyType({})
    others: Sequence[Judged] = ()
    incarnations: Mapping[str, int] = MappingProxyType({})
    last: int = 0
    refusal: str = ""
    named: Collection[str] = ()

    def of(self, *standings: Standing) -> list[str]:
        """The names of cells with one of these standings."""
        return [name for name, one in self.cells.items() if one.standing in standings]

    @property
    def lost(self) -> list[str]:
        """The names of cells that have lost what they held."""
        return [name for name, one in self.cells.items() if one.standing.is_lost]


def judge(
    manifest: Knowledge | None,
    found: Sequence[Found],
    named: Collection[str] = (),
    gives_up: Collection[str] = (),
) -> Verdict:
    """Which of the directories are which cells of which service.

    Where an operator has `named` directories, a cell that is none of what was found lies in one of
    these that is no other cell's place, or is UNNAMED; but one that he `gives_up` needs none.
    """
    service = _service(manifest, found)
    if service is None:
        several = ", ".join(f"{one.path} ({one.said.cell})" for one in found if one.said)
        return Verdict(
            refusal=f"these are cells of several services: {several}; name those of one service:"
            " --cell-data"
        )
    ours = [one for one in found if one.said and one.said.knowledge.service in (service, "")]
    knowledge = [one.said.knowledge for one in ours if one.said]
    if manifest is not None:
        knowledge.append(manifest)
    if not any(one.is_confirmed for one in knowledge):
        return Verdict(others=[_other(one._replace(said=None), "", {}) for one in found])
    latest = max(knowledge, key=lambda one: one.order)
    least = _least(knowledge, ours)
    claimed = _claims(latest.cells, ours, least)
    cells = {
        name: Judged(name, one.path, Standing.CURRENT, "is whole") for name, one in claimed.items()
    }
    left = [one for one in found if one not in claimed.values()]
    for name, path in latest.cells.items():
        if name not in cells:
            places = set(latest.cells.values())
            place = _place(path, left, places, claimed.values())
            if named and place not in left:
                free = [one for one in left if one.path in named and one.path not in places]
                instead = None if name in gives_up else _instead(name, service, free)
                if instead is None:
                    why = "is not named by --cell-data"
                    cells[name] = Judged(name, path, Standing.UNNAMED, why)
                    continue
                place = instead
            if place in left:
                left.remove(place)
            cells[name] = _lost(name, place, service, least)
    return Verdict(
        service,
        dict(sorted(cells.items())),
        [_other(one, service, latest.cells) for one in left],
        {name: least.get(name, 0) for name in latest.cells},
        max(least.values(), default=0),
        named=named,
    )


def _service(manifest: Knowledge | None, found: Iterable[Found]) -> str | None:
    """The id of the service that there is; None where nobody can tell which."""
    if manifest is not None:
        return manifest.service
    ids = Counter(one.said.knowledge.service for one in found if one.said)
    del ids[""]  # before it had an id it may have been the same
    (first, cells), *others = [*ids.most_common(2), ("", 0)]
    return None if cells and any(other == cells for _, other in others) else first


def _least(knowledge: Iterable[Knowledge], ours: Iterable[Found]) -> dict[str, int]:
    """The incarnation that each cell has at least, by all that is known."""
    least: dict[str, int] = {}
    said = [{one.said.cell: one.said.incarnation} for one in ours if one.said]
    for incarnations in (*(one.incarnations for one in knowledge), *said):
        for name, incarnation in incarnations.items():
            least[name] = max(incarnation, least.get(name, 0))
    return least


def _claims(
    cells: Mapping[str, str], ours: Iterable[Found], least: Mapping[str, int]
) -> dict[str, Found]:
    """By name the directory that is this cell. Of two that are the same, the one in its place."""
    claimed: dict[str, Found] = {}
    for one in ours:
        said = one.said
        if said is None or said.cell not in cells or said.incarnation < least[said.cell]:
            continue
        if said.cell not in claimed or one.path == cells[said.cell]:
            claimed[said.cell] = one
    return claimed


def _place(path: str, left: Sequence[Found], places: set[str], claimed: Iterable[Found]) -> Found:
    """The directory in a cell's place: that is another cell's where directories were swapped."""
    found = {one.path: one for one in left}
    if path in found:
        return found[path]
    if all(one.path != path for one in claimed):
        return Found(path, reason="it was not looked at")
    free = [one for one in left if one.path in places] or [Found(path, reason="it is another cell")]
    return free[0]


def _instead(name: str, service: str, free: Sequence[Found]) -> Found | None:
    """The named directory in which a cell is to be: an old copy of it, or one without anything."""
    copies = [
        one
        for one in free
        if one.said and one.said.cell == name and one.said.knowledge.service in (service, "")
    ]
    new = [one for one in free if one.said is None and not one.has_other]
    # One that cannot be opened may be any cell; what is empty is none yet.
    new.sort(key=lambda one: bool(one.reason) or one.is_replaced)
    return next(iter([*copies, *new]), None)


def _lost(name: str, one: Found, service: str, least: Mapping[str, int]) -> Judged:
    """A cell of which there is no current directory."""
    standing, why = _standing(one, service, least)
    return Judged(name, one.path, standing, why)


def _standing(one: Found, service: str, least: Mapping[str, int]) -> tuple[Standing, str]:
    if one.reason:
        return Standing.FAILED, f"cannot be opened: {one.reason}"
    if one.is_replaced:
        return Standing.STALE, "is stale: a copy that took the place of the file that was served"
    said = one.said
    if said is None and not one.has_other:
        return Standing.EMPTY, "is missing" if one.is_missing else "is empty"
    if said is None or said.knowledge.service not in (service, ""):
        whose = f"{said.cell} of another service" if said else "the one cell of a service"
        return Standing.FOREIGN, f"is foreign: {whose}"
    if said.incarnation < least.get(said.cell, 0):
        return Standing.STALE, (
            f"is stale: {said.cell} as it was opened {_told(said.incarnation)}, and it was opened"
            f" again {_told(least[said.cell])}"
        )
    return Standing.UNKNOWN, f"is unknown: {said.cell}, which was removed, or is there twice"


def _other(one: Found, service: str, cells: Mapping[str, str]) -> Judged:
    """A directory that is no cell of the service."""
    if one.said is not None and one.said.knowledge.service in (service, ""):
        if one.said.cell not in cells:
            return Judged("", one.path, Standing.UNKNOWN, f"has {one.said.cell}, which was removed")
        return Judged("", one.path, Standing.STALE, f"is a copy of {one.said.cell}")
    standing, why = _standing(one, service, {})
    return Judged("", one.path, standing, why)


def _told(incarnation: int) -> str:
    at = utc_time(incarnation // _US_PER_S)
    day = f"{at.year}-{at.month:02}-{at.day:02}"
    return f"{day}T{at.hour:02}:{at.minute:02}:{at.second:02}Z" if incarnation else "long ago"
