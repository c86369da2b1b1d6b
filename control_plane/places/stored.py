"""Placements and cells in the registry: read together, changed by compare-and-set on the epoch.

Every change is idempotent and fenced: it names the epoch that it was decided on, and a nonce by
which a repetition finds that it has been done. Two that decide at once: one is told that it is
late, and has changed nothing.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from control_plane.places import changes
from control_plane.places.groups import (
    REGISTRY,
    alone_in,
    common_group,
    first_placement,
    group_names,
    own_group,
)
from control_plane.places.items import (
    CELLS,
    HEARTBEATS,
    PLACEMENTS,
    REMOVAL,
    STATES,
    CellRecord,
    Heartbeat,
    Removal,
    StoredPlacement,
    as_it_began,
    cell_key,
    decode_cell,
    decode_heartbeat,
    decode_placement,
    decode_removal,
    encode_cell,
    encode_heartbeat,
    encode_placement,
    encode_removal,
    heartbeat_key,
    placement_key,
    with_own,
)
from control_plane.places.own import OwnPlacement, StalePlanError
from data_plane.ports import (
    ITEM_ABSENT,
    Cell,
    CellUnavailableError,
    Clock,
    Condition,
    Entropy,
    Equals,
    Item,
)
from data_plane.replication.member_cell import StalePlacementError

NONCE_BYTES: Final = 8

ALONE_MAX: Final = 16
"""Queues of a group that have groups of their own: its item lists them, and every front end reads
their placements with all others."""

_ATTEMPTS_MAX: Final = 8
_PAGE: Final = 100

_TRIES: Final = 100
"""More than there are groups: of each a write may have ended half way."""

T = TypeVar("T")

__all__ = ["PlaceMap", "Places", "StalePlanError", "by_what_is_now"]


async def by_what_is_now(change: Callable[[], Awaitable[T]]) -> T:
    """What `change` answers, which is made again where somebody else was faster.

    That may have been a process that ended half way: its write counts once somebody meets it.
    Raises CellUnavailableError, and as `change`.
    """
    for _ in range(_TRIES):
        try:
            return await change()
        except (StalePlanError, StalePlacementError):
            continue
    raise CellUnavailableError("others change the same groups all the time")


@dataclass(frozen=True, slots=True)
class PlaceMap:
    """All placements and cells as they were read at `read_us`, the registry's own among them."""

    placements: Mapping[str, StoredPlacement] = field(default_factory=dict)
    cells: Mapping[str, CellRecord] = field(default_factory=dict)
    read_us: int = 0


class Places:
    """Placements and cells in the registry's cell; all methods raise CellUnavailableError.

    `own` is the registry's own placement, where it has one. `noted` is told of every placement that
    was written here. `nonce` of a change is NONCE_BYTES long; who derives it from what is to be
    done may repeat it. Changes raise StalePlanError where the epoch is not the present one, and
    PlacementChangeError where they would do harm.
    """

    def __init__(
        self,
        cell: Cell,
        clock: Clock,
        entropy: Entropy,
        own: OwnPlacement | None = None,
        noted: Callable[[StoredPlacement], None] = lambda _stored: None,
    ) -> None:
        self._cell = cell
        self._clock = clock
        self._entropy = entropy
        self._own = own
        self._noted = noted

    # Reading

    async def read_all(self) -> PlaceMap:
        """Everything, by strong reads."""
        read_us = self._clock.now_us()
        placements = {} if self._own is None else {REGISTRY: self._own.stored}
        for item in await self._all(PLACEMENTS):
            group = item.key.sort.decode()
            placements[group] = decode_placement(group, item.attributes)
        cells = [
            decode_cell(item.key.sort.decode(), item.attributes) for item in await self._all(CELLS)
        ]
        return PlaceMap(with_own(placements), {cell.name: cell for cell in cells}, read_us)

    async def read(self, group: str) -> StoredPlacement:
        """One placement. Raises KeyError where there is no such group."""
        if group == REGISTRY and self._own is not None:
            return self._own.stored
        return (await self._held(group))[0]

    async def _held(self, group: str) -> tuple[StoredPlacement, Condition]:
        """A placement, and the condition that it is stored so. Raises KeyError."""
        item = await self._cell.get(placement_key(group))
        if item is not None:
            held = decode_placement(group, item)
            return held, ((Equals("e", held.placement.epoch),), (Equals("w", held.nonce),))
        uid = alone_in(group)
        common = await self.read(common_group(group)) if uid else None
        if common is None or uid not in common.alone:
            raise KeyError(group)
        return as_it_began(common, common.alone[uid]), ITEM_ABSENT

    async def heartbeats(self) -> list[Heartbeat]:
        """Those that are stored, old ones too."""
        return [
            decode_heartbeat(item.key.sort.decode(), item.attributes)
            for item in await self._all(HEARTBEATS)
        ]

    async def _all(self, partition: str) -> list[Item]:
        found: list[Item] = []
        after = b""
        while page := await self._cell.query(partition, after=after, limit=_PAGE):
            found += page
            after = page[-1].key.sort
        return found

    # Changing placements

    async def make_missing(self, cells: Sequence[str]) -> None:
        """Place the groups of all factors that so many cells allow, where they are not placed."""
        present = (await self.read_all()).placements
        for factor in range(1, len(cells) + 1):
            for group in group_names(factor):
                if group not in present:
                    first = first_placement(group, cells, self._clock.now_us())
                    stored = StoredPlacement(first, factor, self._new_nonce())
                    await self._cell.put(
                        placement_key(group), encode_placement(stored), ITEM_ABSENT
                    )

    async def drop_member(
        self, group: str, cell: str, *, epoch: int, nonce: bytes = b"", forced: bool = False
    ) -> StoredPlacement:
        """Take the cell out of the group (changes.without): a fail-over, where it was the first."""

        def decide(stored: StoredPlacement, now_us: int) -> StoredPlacement:
            at, factor = stored.placement, stored.factor
            return replace(
                stored, placement=changes.without(at, cell, factor, now_us, forced=forced)
            )

        return await self._change(group, epoch, nonce, decide)

    async def add_joining(
        self, group: str, cell: str, *, epoch: int, nonce: bytes = b""
    ) -> StoredPlacement:
        """Let the cell get every write to the group from now on (changes.with_joining)."""

        def decide(stored: StoredPlacement, now_us: int) -> StoredPlacement:
            return replace(stored, placement=changes.with_joining(stored.placement, cell, now_us))

        return await self._change(group, epoch, nonce, decide)

    async def make_full(
        self, group: str, cell: str, *, epoch: int, nonce: bytes = b""
    ) -> StoredPlacement:
        """Let the cell serve the group: it has got everything (changes.with_full)."""

        def decide(stored: StoredPlacement, now_us: int) -> StoredPlacement:
            return replace(stored, placement=changes.with_full(stored.placement, cell, now_us))

        return await self._change(group, epoch, nonce, decide)

    async def part(self, group: str, uid: str, *, epoch: int) -> StoredPlacement:
        """Give a queue of the group one of its own, with the same members: that of the group.

        One write of the group's item, in which the own one begins: so of each queue there is one
        history of placements, whoever knows how much of it. Raises PlacementChangeError also where
        a cell joins the group, for it may lack something yet.
        """

        def decide(stored: StoredPlacement, now_us: int) -> StoredPlacement:
            if uid in stored.alone:
                return stored
            joining = [member.cell for member in stored.placement.members if not member.full]
            if joining:
                raise changes.PlacementChangeError(f"{joining[0]} joins {group}: ask again later")
            if len(stored.alone) >= ALONE_MAX:
                raise changes.PlacementChangeError(
                    f"{ALONE_MAX} queues of {group} have groups of their own, which is the most"
                )
            after = changes.unchanged(stored.placement, now_us)
            began = replace(after, group=own_group(group, uid))
            return replace(stored, placement=after, alone={**stored.alone, uid: began})

        return await self._change(group, epoch, b"", decide)

    async def choose(self, group: str, cells: Sequence[str], *, epoch: int) -> StoredPlacement:
        """Say to which cells a group is to be moved; the manager sees to it."""

        def decide(stored: StoredPlacement, now_us: int) -> StoredPlacement:
            if stored.chosen == tuple(cells):
                return stored
            after = changes.unchanged(stored.placement, now_us)
            return replace(stored, placement=after, chosen=tuple(cells))

        return await self._change(group, epoch, b"", decide)

    async def forget_own(self, group: str, uid: str) -> None:
        """Forget the own group of a queue of which nothing is left."""

        def decide(stored: StoredPlacement, now_us: int) -> StoredPlacement:
            left = {name: began for name, began in stored.alone.items() if name != uid}
            after = changes.unchanged(stored.placement, now_us)
            return replace(stored, placement=after, alone=left)

        async def forget() -> None:
            held = await self.read(group)
            if uid not in held.alone:
                return
            own = placement_key(own_group(group, uid))
            await self._cell.delete(own)  # First, so that who is cut off begins again.
            await self._change(group, held.placement.epoch, b"", decide)
            await self._cell.delete(own)  # Where a manager has moved it meanwhile.

        await by_what_is_now(forget)

    async def _change(
        self,
        group: str,
        epoch: int,
        nonce: bytes,
        decide: Callable[[StoredPlacement, int], StoredPlacement],
    ) -> StoredPlacement:
        nonce = nonce or self._new_nonce()
        now_us = self._clock.now_us()
        if group == REGISTRY and self._own is not None:
            stored = await self._own.change(
                epoch, nonce, lambda held: decide(held, now_us).placement
            )
            self._noted(stored)
            return stored
        held, condition = await self._held(group)
        if held.nonce != nonce:
            if held.placement.epoch != epoch:
                raise StalePlanError(held.placement, epoch)
            after = decide(held, now_us)
            if after == held:
                return held
            wanted = replace(after, nonce=nonce)
            written = await self._cell.put(
                placement_key(group), encode_placement(wanted), condition
            )
            before = written.before or {}
            if not written.applied and not before:
                raise KeyError(group)  # An own group, of which nothing is left.
            if not written.applied and before.get("w") != nonce:
                raise StalePlanError(decode_placement(group, before).placement, epoch)
            held = wanted
        self._noted(held)
        return held

    # Changing cells

    async def put_cell(self, record: CellRecord) -> CellRecord:
        """Store a new cell, or leave the one that has this name."""
        wanted = replace(record, nonce=self._new_nonce())
        written = await self._cell.put(cell_key(record.name), encode_cell(wanted), ITEM_ABSENT)
        if written.applied or written.before is None:
            return wanted
        return decode_cell(record.name, written.before)

    async def set_state(self, name: str, state: str, was: Collection[str] = STATES) -> CellRecord:
        """Say what is to become of a cell that is in one of these states; of others how it is.

        Raises KeyError where there is none of this name.
        """
        now_us = self._clock.now_us()

        def changed(record: CellRecord) -> CellRecord:
            if record.state == state or record.state not in was:
                return record
            return replace(record, state=state, since_us=now_us)

        return await self._edit_cell(name, changed)

    async def _edit_cell(self, name: str, edit: Callable[[CellRecord], CellRecord]) -> CellRecord:
        nonce = self._new_nonce()
        item = await self._cell.get(cell_key(name))
        for _ in range(_ATTEMPTS_MAX):
            if item is None:
                raise KeyError(name)
            held = decode_cell(name, item)
            edited = edit(held)
            if edited == held:
                return held
            wanted = replace(edited, nonce=nonce)
            written = await self._cell.put(
                cell_key(name), encode_cell(wanted), ((Equals("w", held.nonce),),)
            )
            if written.applied or (written.before or {}).get("w") == nonce:
                return wanted
            item = written.before
        raise StaleCellError(f"others change cell {name} faster than this one")

    # Heartbeats and removals

    async def removal(self) -> Removal | None:
        """The cell that was given up last because it failed."""
        item = await self._cell.get(REMOVAL)
        return None if item is None else decode_removal(item)

    async def note_removal(self, cell: str, before: Removal | None) -> Removal | None:
        """Say that this cell is given up now, if `before` still is the last one: then what it is.

        None where somebody else was faster.
        """
        wanted = Removal(cell, self._clock.now_us(), self._new_nonce())
        condition = ITEM_ABSENT if before is None else ((Equals("w", before.nonce),),)
        written = await self._cell.put(REMOVAL, encode_removal(wanted), condition)
        is_own = written.applied or (written.before or {}).get("w") == wanted.nonce
        return wanted if is_own else None

    async def beat(self, beat: Heartbeat) -> None:
        """Store what a front end sees."""
        await self._cell.put(heartbeat_key(beat.front_end), encode_heartbeat(beat))

    async def leave(self, front_end: str) -> None:
        """Forget a front end that ends, and has kept nothing to itself."""
        await self._cell.delete(heartbeat_key(front_end))

    async def forget(self, front_end: str, time_us: int) -> None:
        """Forget a front end that is gone, unless it was heard of since."""
        await self._cell.delete(heartbeat_key(front_end), ((Equals("t", time_us),),))

    def _new_nonce(self) -> bytes:
        return self._entropy.random_bytes(NONCE_BYTES)


class StaleCellError(Exception):
    """Others changed what is known of a cell, again and again."""
