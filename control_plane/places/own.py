"""The registry's own placement: stored in every embedded cell, because it cannot lie in itself.

With it each cell stores which one it is, its incarnation, and those that all cells have at least
(control_plane/core/identity.py). One process has the cells, so nobody else changes it; more than
half of the cells have to have stored a change before it counts, or half of them and the manifest
(docs/storage.md, "The registry's own placement").
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from control_plane.core.identity import Knowledge, Said
from control_plane.core.item_field import (
    UnknownItemFormatError,
    integer,
    octets,
    text,
)
from control_plane.places.groups import REGISTRY
from control_plane.places.items import StoredPlacement, decode_members, encode_members
from data_plane.core.deadline import deadline
from data_plane.ports import Attributes, Cell, CellUnavailableError, Clock, Key, Waits
from data_plane.replication.placement import Member, Placement

OWN: Final = Key("M|cells", b"\0")
FORMAT: Final = 2
FORMAT_OF_BEFORE: Final = 1
"""Without a service's id, incarnations, and a manifest."""

PUT_US_MAX: Final = 3_000_000
"""So long a change waits for each cell: one that answers later has not stored it in time."""


class StalePlanError(Exception):
    """The placement has another epoch than the change was decided on; nothing was changed."""

    def __init__(self, held: Placement, epoch: int) -> None:
        super().__init__(f"{held.group} has epoch {held.epoch}, not {epoch}")
        self.held = held


@dataclass(frozen=True, slots=True)
class KnownService:
    """What the manifest, and each cell, says: the registry's placement, and where all cells are.

    `incarnations` are those that the cells have at least; `data` is the data directory that this
    was written for, "" where nobody said so.
    """

    service: str
    stored: StoredPlacement
    paths: Mapping[str, str]
    incarnations: Mapping[str, int] = field(default_factory=dict)
    data: str = ""

    @property
    def knowledge(self) -> Knowledge:
        """As directories are judged by it."""
        placement = self.stored.placement
        order = placement.epoch, placement.since_us
        return Knowledge(self.service, self.paths, self.incarnations, order)

    def elsewhere(self) -> Sequence[str]:
        """Where cells are that do not lie in the data directory."""
        return [path for path in self.paths.values() if path.startswith("/")]


@dataclass(frozen=True, slots=True)
class Own:
    """What the item says: which cell has it, in which incarnation, and what that knows."""

    cell: str
    incarnation: int
    known: KnownService

    @property
    def said(self) -> Said:
        """As it is judged by."""
        return Said(self.cell, self.incarnation, self.known.knowledge)


Keep = Callable[[KnownService], Awaitable[bool]]
"""Writes the manifest; whether it is on disk."""


async def read_own(cell: Cell) -> Own | None:
    """What a cell has stored; None if it is new.

    Raises CellUnavailableError, UnknownItemFormatError.
    """
    item = await cell.get(OWN)
    return None if item is None else decode_own(item)


def names_in(item: Attributes) -> tuple[str, Mapping[str, str]]:
    """The cell's own name, and all cells' paths. Raises UnknownItemFormatError."""
    own = decode_own(item)
    return own.cell, own.known.paths


def first_known(
    service: str, paths: Mapping[str, str], nonce: bytes, now_us: int, data: str = ""
) -> KnownService:
    """A new service with these cells: all of them have the registry."""
    names = sorted(paths)
    first = Placement(REGISTRY, 1, tuple(map(Member, names)), now_us)
    return KnownService(service, StoredPlacement(first, len(names), nonce), paths, data=data)


def with_paths(item: Attributes, paths: Mapping[str, str], data: str) -> Attributes:
    """What lies under OWN, with the cells elsewhere: a backup's, which are put there."""
    return {**item, "c": _json(paths), "d": data}


class OwnPlacement:
    """The registry's placement over `cells`, which may grow. `paths` has where each of them is.

    Cells that are `empty` get nothing: they are still counted on for what they have lost. No
    incarnation was ever above `last`; `keep` writes the manifest.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what is known, where it is stored, and two ports
        self,
        cells: Mapping[str, Cell],
        clock: Clock,
        waits: Waits,
        known: KnownService,
        last: int,
        keep: Keep,
    ) -> None:
        self._cells = cells
        self._clock = clock
        self._waits = waits
        self._keep = keep
        self._lacking: set[str] = set()
        self._is_kept = True
        self._is_changing = False
        self._last = last
        self._having: dict[str, int] = {}
        self._opening: dict[str, Cell] = {}
        self._put_to: set[Cell] = set()
        self.empty: set[str] = set()
        self.service, self._data = known.service, known.data
        self.stored = known.stored
        self.paths = dict(known.paths)
        self.incarnations = dict(known.incarnations)

    def placement(self) -> Placement:
        """The one that counts."""
        return self.stored.placement

    @property
    def is_kept(self) -> bool:
        """Whether the manifest has what is known."""
        return self._is_kept

    @property
    def knowledge(self) -> Knowledge:
        """What directories are judged by."""
        return self._known(self.stored, self.paths).knowledge

    async def advance(self, names: Iterable[str]) -> set[str]:
        """Let these cells have a new incarnation, the first that they get among them.

        Answers those that have not stored it. Nothing else may be written to the others before
        `spread` has returned, which tells all cells that they have it. Raises StalePlanError.
        """
        self._check_changing()
        names, self._is_changing = sorted(names), True
        self._having.update(dict.fromkeys(names, self._next()))
        try:
            puts = [self._put(name, self.stored, self.paths, None) for name in names]
            outcomes = await self._waits.all_of(puts)
        finally:
            self._is_changing = False
        return {name for name, done in zip(names, outcomes, strict=True) if done is not True}

    async def spread(self, stored: StoredPlacement | None = None) -> None:
        """Store what is known now, in all cells and in the manifest. Raises as `change`."""
        self._check_changing()
        await self._store(stored or self.stored, self.paths)

    async def let_in(self, name: str, cell: Cell) -> None:
        """Go on with this cell under a new incarnation, before anybody else has it.

        Raises as `change`.
        """
        self._check_changing()
        was_empty = name in self.empty
        self._opening[name] = cell
        self.empty.discard(name)
        try:
            if await self.advance([name]):
                raise CellUnavailableError(f"{name} did not store which cell it is")
            await self.spread()
        except BaseException:
            self.shut(name)
            self.empty.update([name] if was_empty else [])
            raise
        finally:
            del self._opening[name]

    def shut(self, name: str) -> None:
        """Store nothing in a cell that is closed: what is there when it opens is yet to be seen."""
        self._having.pop(name, None)

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
        self._check_changing()
        for name in paths.keys() - self.paths.keys():
            self._having[name] = self._next()
        placement = self.placement()
        after = replace(placement, epoch=placement.epoch + 1, since_us=self._clock.now_us())
        await self._store(StoredPlacement(after, len(paths), nonce), paths)

    async def mend(self) -> None:
        """Give the placement to cells that missed it; those that do not answer miss it still."""
        for name in sorted(self._lacking):
            if self._is_changing:
                return
            if self._cells.get(name) not in self._put_to:
                await self._put(name, self.stored, self.paths)
        if not self._is_kept and not self._is_changing:
            self._is_kept = await self._keep(self._known(self.stored, self.paths))

    async def _store(self, wanted: StoredPlacement, paths: Mapping[str, str]) -> None:
        self._is_changing = True
        try:
            names = sorted({*self.paths, *paths})
            outcomes = await self._waits.all_of([self._put(name, wanted, paths) for name in names])
            have = {name for name, done in zip(names, outcomes, strict=True) if done is True}
            votes = [
                2 * len(have.intersection(known)) - len(known) for known in (self.paths, paths)
            ]
            # Not before: a manifest of what does not count would be believed at the next start.
            if min(votes) >= 0:
                self._is_kept = await self._keep(self._known(wanted, paths))
            if min(votes) < 0 or (min(votes) == 0 and not self._is_kept):
                raise CellUnavailableError(
                    f"{len(have)} of {len(names)} cells have stored where the registry lies"
                )
            self.stored, self.paths = wanted, dict(paths)
            for gone in self.incarnations.keys() - paths.keys():
                del self.incarnations[gone]
        finally:
            self._is_changing = False

    async def _put(
        self,
        name: str,
        stored: StoredPlacement,
        paths: Mapping[str, str],
        for_us: int | None = PUT_US_MAX,
    ) -> bool:
        """Whether the cell has stored it, within this time."""
        self._lacking.add(name)
        cell = self._opening.get(name) or self._cells.get(name)
        incarnation = self._having.get(name)
        if cell is None or incarnation is None or name in self.empty:
            return False
        try:
            own = Own(name, incarnation, self._known(stored, paths))
            until_us = None if for_us is None else self._clock.now_us() + for_us
            flush = partial(self._put_last, cell)
            await self._waits.coalesce((OWN, cell), _encode(own), flush, until_us)
        except CellUnavailableError:
            return False  # It counts for nothing, and `mend` tries again.
        self._lacking.discard(name)
        self.incarnations[name] = max(incarnation, self.incarnations.get(name, 0))
        return True

    async def _put_last(self, cell: Cell, items: list[Any]) -> Sequence[object]:
        """Put the last of them; one after the other, for a cell may answer late, or never."""
        self._put_to.add(cell)
        try:
            with deadline(None):
                await cell.put(OWN, items[-1])
        finally:
            self._put_to.discard(cell)
        return items

    def _next(self) -> int:
        """An incarnation that no cell ever had: the time, so that no other start gives it."""
        self._last = max(self._last + 1, self._clock.now_us())
        return self._last

    def _check_changing(self) -> None:
        if self._is_changing:
            raise StalePlanError(self.placement(), self.placement().epoch)

    def _known(self, stored: StoredPlacement, paths: Mapping[str, str]) -> KnownService:
        known = {name: one for name, one in self.incarnations.items() if name in paths and one}
        return KnownService(self.service, stored, paths, known, self._data)


def _encode(own: Own) -> Attributes:
    known = own.known
    placement = known.stored.placement
    return {
        "v": FORMAT,
        "w": known.stored.nonce,
        "e": placement.epoch,
        "m": encode_members(placement.members),
        "s": placement.since_us,
        "n": own.cell,
        "c": _json(known.paths),
        "u": known.service,
        "i": own.incarnation,
        "k": _json(known.incarnations),
        "d": known.data,
    }


def decode_own(item: Attributes) -> Own:
    """What a cell has under OWN. Raises UnknownItemFormatError."""
    if item.get("v") not in (FORMAT, FORMAT_OF_BEFORE):
        raise UnknownItemFormatError(f"the registry's placement: format {item.get('v')!r}")
    placement = Placement(
        REGISTRY, integer(item, "e"), decode_members(text(item, "m")), integer(item, "s")
    )
    paths = json.loads(text(item, "c"))
    stored = StoredPlacement(placement, len(paths), octets(item, "w"))
    name = text(item, "n")
    if item["v"] == FORMAT_OF_BEFORE:
        return Own(name, 0, KnownService("", stored, paths))
    data = text(item, "d") if "d" in item else ""  # not there in what was written before
    known = KnownService(text(item, "u"), stored, paths, json.loads(text(item, "k")), data)
    return Own(name, integer(item, "i"), known)


def encode_manifest(known: KnownService) -> str:
    """The manifest's text: JSON with a line for each cell."""
    placement = known.stored.placement
    cells = {
        name: {"path": path, "incarnation": known.incarnations.get(name, 0)}
        for name, path in sorted(known.paths.items())
    }
    registry = {
        "epoch": placement.epoch,
        "since_us": placement.since_us,
        "members": json.loads(encode_members(placement.members)),
        "nonce": known.stored.nonce.hex(),
    }
    whole = {
        "format": FORMAT,
        "service": known.service,
        "data": known.data,
        "cells": cells,
        "registry": registry,
    }
    return json.dumps(whole, indent=1) + "\n"


def decode_manifest(written: str) -> KnownService:
    """What `encode_manifest` made. Raises UnknownItemFormatError."""
    try:
        whole = json.loads(written)
        if whole["format"] != FORMAT:
            raise UnknownItemFormatError(f"format {whole['format']!r}")
        cells, registry = whole["cells"], whole["registry"]
        members = decode_members(json.dumps(registry["members"]))
        placement = Placement(REGISTRY, registry["epoch"], members, registry["since_us"])
        stored = StoredPlacement(placement, len(cells), bytes.fromhex(registry["nonce"]))
        paths = {str(name): str(one["path"]) for name, one in cells.items()}
        incarnations = {str(name): int(one["incarnation"]) for name, one in cells.items()}
        data = str(whole.get("data", ""))
        return KnownService(str(whole["service"]), stored, paths, incarnations, data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnknownItemFormatError("it is not as a server writes it") from error


def _json(mapping: Mapping[str, object]) -> str:
    return json.dumps(dict(mapping), separators=(",", ":"), sort_keys=True)
