"""The registry's own placement: stored in every embedded cell, because it cannot lie in itself.

One process has the cells, so nobody else changes it; more than half of the cells have to have
stored a change before it counts (docs/storage.md, "The registry's own placement").
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from control_plane.places.groups import REGISTRY
from control_plane.places.items import (
    FORMAT,
    StoredPlacement,
    UnreadablePlaceError,
    decode_members,
    encode_members,
    integer,
    octets,
    text,
)
from data_plane.ports import (
    Attributes,
    Cell,
    CellUnavailableError,
    Clock,
    Entropy,
    Key,
    Waits,
)
from data_plane.replication.placement import Member, Placement

OWN: Final = Key("M|cells", b"\0")

_NONCE_BYTES: Final = 8


class StalePlanError(Exception):
    """The placement has another epoch than the change was decided on; nothing was changed."""

    def __init__(self, held: Placement, epoch: int) -> None:
        super().__init__(f"{held.group} has epoch {held.epoch}, not {epoch}")
        self.held = held


class OwnPlacementError(Exception):
    """The cells do not say where the registry lies; the message is one line."""


@dataclass(frozen=True, slots=True)
class _Own:
    """What the item says: which cell has it, the placement, and where all cells are."""

    cell: str
    stored: StoredPlacement
    paths: Mapping[str, str]


async def names_of(cell: Cell) -> tuple[str, Mapping[str, str]] | None:
    """The cell's own name, and all cells' paths, by what it has stored; None if it is new.

    Raises CellUnavailableError, UnreadablePlaceError.
    """
    item = await cell.get(OWN)
    return None if item is None else names_in(item)


def names_in(item: Attributes) -> tuple[str, Mapping[str, str]]:
    """As `names_of`, of what lies under OWN. Raises UnreadablePlaceError."""
    own = _decode(item)
    return own.cell, own.paths


class OwnPlacement:
    """The registry's placement over `cells`, which may grow. `paths` has where each of them is.

    Cells that are `empty` get nothing: they are still counted on for what they have lost.
    """

    def __init__(
        self,
        cells: Mapping[str, Cell],
        clock: Clock,
        waits: Waits,
        stored: StoredPlacement,
        paths: Mapping[str, str],
    ) -> None:
        self._cells = cells
        self._clock = clock
        self._waits = waits
        self._lacking: set[str] = set()
        self.empty: set[str] = set()
        self._is_changing = False
        self.stored = stored
        self.paths = dict(paths)

    def placement(self) -> Placement:
        """The one that counts."""
        return self.stored.placement

    async def change(
        self, epoch: int, nonce: bytes, decide: Callable[[StoredPlacement], Placement]
    ) -> StoredPlacement:
        """Store what `decide` makes of it, in more than half of the cells.

        Raises StalePlanError, CellUnavailableError where too few cells answer, and as `decide`.
        """
        held = self.stored
        if held.nonce == nonce:
            return held
        if held.placement.epoch != epoch or self._is_changing:
            raise StalePlanError(held.placement, epoch)
        after = decide(held)
        if after is held.placement:
            return held
        wanted = StoredPlacement(after, held.factor, nonce)
        await self._store(wanted, self.paths)
        return wanted

    async def change_cells(self, paths: Mapping[str, str], nonce: bytes) -> None:
        """Let the service have these cells from now on. Raises as `change`."""
        if self._is_changing:
            raise StalePlanError(self.placement(), self.placement().epoch)
        placement = self.placement()
        after = replace(placement, epoch=placement.epoch + 1, since_us=self._clock.now_us())
        await self._store(StoredPlacement(after, len(paths), nonce), paths)

    async def mend(self) -> None:
        """Give the placement to cells that missed it; those that do not answer miss it still."""
        for name in sorted(self._lacking):
            await self._put(name, self.stored, self.paths)

    async def _store(self, wanted: StoredPlacement, paths: Mapping[str, str]) -> None:
        self._is_changing = True
        try:
            names = sorted({*self.paths, *paths})
            outcomes = await self._waits.all_of([self._put(name, wanted, paths) for name in names])
            have = {name for name, done in zip(names, outcomes, strict=True) if done is True}
            for known in (self.paths, paths):
                if 2 * len(have.intersection(known)) <= len(known):
                    raise CellUnavailableError(
                        f"{len(have)} of {len(names)} cells have stored where the registry lies"
                    )
            self.stored, self.paths = wanted, dict(paths)
        finally:
            self._is_changing = False

    async def _put(self, name: str, stored: StoredPlacement, paths: Mapping[str, str]) -> bool:
        """Whether the cell has stored it."""
        self._lacking.add(name)
        cell = self._cells.get(name)
        if cell is None or name in self.empty:
            return False
        try:
            await cell.put(OWN, _encode(_Own(name, stored, paths)))
        except CellUnavailableError:
            return False  # It counts for nothing, and `mend` tries again.
        self._lacking.discard(name)
        return True


async def open_own_placement(
    cells: Mapping[str, Cell],
    paths: Mapping[str, str],
    clock: Clock,
    entropy: Entropy,
    waits: Waits,
) -> OwnPlacement:
    """The placement as the cells say, or a first one over all of them.

    `cells` are those that could be opened, `paths` says where all are, by name; what was removed
    stays so. Raises OwnPlacementError, CellUnavailableError, UnreadablePlaceError.
    """
    found = await _read(cells, waits)
    have = [own for own in found.values() if own is not None]
    nonce = entropy.random_bytes(_NONCE_BYTES)
    if not have:
        if len(found) < len(paths):
            raise OwnPlacementError("a new service needs all of its cells")
        names = sorted(cells)
        first = Placement(REGISTRY, 1, tuple(map(Member, names)), clock.now_us())
        stored = StoredPlacement(first, len(names), nonce)
        own = OwnPlacement(cells, clock, waits, stored, paths)
        await own._store(stored, paths)  # noqa: SLF001 - the one who makes it
        return own
    latest = max(have, key=lambda own: _order(own.stored.placement))
    voters = [own for own in have if own.cell in latest.paths]
    if 2 * len(voters) <= len(latest.paths):
        raise OwnPlacementError(
            f"{len(voters)} of {len(latest.paths)} cells can be read, which is not more than half:"
            f" {_listed(latest.paths)}"
        )
    removed = {own.cell for own in have} - latest.paths.keys()
    known = {**latest.paths, **{name: paths[name] for name in paths.keys() - removed}}
    own = OwnPlacement(cells, clock, waits, latest.stored, latest.paths)
    own.empty = {name for name, held in found.items() if held is None and name in latest.paths}
    # What was half written when the process ended counts only now.
    await own._store(latest.stored, latest.paths)  # noqa: SLF001
    if known != latest.paths:
        await own.change_cells(known, nonce)
    return own


async def _read(cells: Mapping[str, Cell], waits: Waits) -> dict[str, _Own | None]:
    """What each cell that answers has. Raises OwnPlacementError for a cell of another name."""

    async def read(cell: Cell) -> _Own | None:
        item = await cell.get(OWN)
        return None if item is None else _decode(item)

    outcomes = await waits.all_of([read(cell) for cell in cells.values()])
    found: dict[str, _Own | None] = {}
    for name, outcome in zip(cells, outcomes, strict=True):
        if isinstance(outcome, CellUnavailableError):
            continue
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None and outcome.cell != name:
            raise OwnPlacementError(f"what should be {name} is {outcome.cell}")
        found[name] = outcome
    return found


def _order(placement: Placement) -> tuple[int, int]:
    return placement.epoch, placement.since_us


def _listed(paths: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({path})" for name, path in sorted(paths.items()))


def _encode(own: _Own) -> Attributes:
    placement = own.stored.placement
    return {
        "v": FORMAT,
        "w": own.stored.nonce,
        "e": placement.epoch,
        "m": encode_members(placement.members),
        "s": placement.since_us,
        "n": own.cell,
        "c": json.dumps(dict(own.paths), separators=(",", ":"), sort_keys=True),
    }


def _decode(item: Attributes) -> _Own:
    if item.get("v") != FORMAT:
        raise UnreadablePlaceError(f"the registry's placement: format {item.get('v')!r}")
    placement = Placement(
        REGISTRY, integer(item, "e"), decode_members(text(item, "m")), integer(item, "s")
    )
    paths = json.loads(text(item, "c"))
    return _Own(text(item, "n"), StoredPlacement(placement, len(paths), octets(item, "w")), paths)
