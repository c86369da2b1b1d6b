"""What all cells took, and the placements that there were: the truth of a replicated universe."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from control_plane.places.groups import read_place
from control_plane.places.items import (
    PLACEMENTS,
    StoredPlacement,
    as_it_began,
    decode_placement,
)
from data_plane.ports import Attributes, Key
from data_plane.replication.chain import EPOCH, REVISION
from data_plane.replication.placement import INCARNATION_MARK, Placement
from data_plane.stored.keys import block_of
from data_plane.stored.segment import number, open_segment
from tests.simulation.faulty_cell import Store, Stored
from tests.simulation.replicated.promised import Promised
from tests.simulation.sealed import unseal

if TYPE_CHECKING:
    from tests.simulation.replicated.world import ReplicatedWorld

SEGMENTS: Final = "B|"
STATES: Final = "S|"
DEFINITIONS: Final = ("Q|", "A|")
"""Of queues, and of streams."""


STAYS_AWAY: Final = "what is collected stays away"

Replica = tuple[str, int]
"""A cell and an incarnation in it."""


class Applied(NamedTuple):
    """A write as a cell took it; `image` is the item after it."""

    time_us: int
    at: Replica
    front_end: str
    image: Attributes


class Records:
    """Sees every write to every cell, and judges on the spot what can be judged there.

    `writes` are by the key as engines know it. `placed_us` are the placements of each group with
    the times from which they were true. `decided` says where a lease, by its bytes, or a delete was
    seen first.
    """

    def __init__(self, world: "ReplicatedWorld", promised: Promised) -> None:
        self.writes: dict[Key, list[Applied]] = defaultdict(list)
        self.present: dict[str, Placement] = {}
        self.placed_us: dict[str, list[tuple[int, Placement]]] = defaultdict(list)
        self.leases: dict[tuple[bytes, int, bytes], Replica] = {}
        self.deletes: dict[tuple[bytes, int], Replica] = {}
        self.groups: dict[str, str] = {}
        self.stored: dict[str, StoredPlacement] = {}
        self.uids: dict[str, str] = {}
        self.broken: list[tuple[str, str]] = []
        self._last: dict[tuple[Key, Replica], Attributes] = {}
        self._removed_us: dict[Key, int] = {}
        self._there: set[tuple[Key, Replica]] = set()
        self._came_back: set[tuple[Key, Replica]] = set()
        self._world = world
        self._promised = promised
        promised.records = self

    def at(self, store: Store) -> "Desk":
        """The witness of one cell, of what it removes, too."""
        expire = store.cell.expire

        def noted(keys: Sequence[Key]) -> None:
            expire(keys)
            for key in keys:
                base, _, incarnation = key.partition.partition(INCARNATION_MARK)
                known = Key(base, key.sort)
                self._there.discard((known, (store.name, int(incarnation or 0))))
                self._removed_us.setdefault(known, self._world.scheduler.now_us)
                self._promised.removed(known)

        store.cell.expire = noted  # type: ignore[method-assign]
        return Desk(self, store)

    def was_removed(self, key: Key, until_us: int) -> bool:
        """Whether a cell removed the item before, as one that nobody needs."""
        return self._removed_us.get(key, until_us) < until_us

    def placement(self, group: str, time_us: int) -> Placement:
        """The group's placement at that time."""
        return [placement for us, placement in self.placed_us[group] if us <= time_us][-1]

    def first(self, group: str, time_us: int) -> Replica:
        """The member that decided at that time."""
        member = self.placement(group, time_us).members[0]
        return member.cell, member.incarnation

    def revision(self, key: Key, at: Replica) -> int | None:
        """The item's revision in a member now, 0 without one; None where it never was there."""
        item = self._last.get((key, at))
        return None if item is None else rank_of(item)[0]

    def taken(self, key: Key, at: Replica, revision: int) -> list[Attributes]:
        """All that a member took as this revision of an item."""
        return [
            write.image
            for write in self.writes.get(key, ())
            if write.at == at and rank_of(write.image)[0] == revision
        ]

    @property
    def now_us(self) -> int:
        """The time of the universe."""
        return self._world.scheduler.now_us

    @property
    def latest_s(self) -> int:
        """The time, by the clock that is ahead of all others."""
        ahead_us = max(store.offset_us for store in self._world.stores)
        ahead_us = max(ahead_us, self._world.tables_apart_us)
        return (self._world.scheduler.now_us + ahead_us) // 1_000_000

    def rank(self, key: Key, at: Replica, until_us: int | None) -> tuple[int, int]:
        """Revision and epoch of an item in a member by then (None: at last)."""
        there = [
            write.image
            for write in self.writes.get(key, ())
            if write.at == at and (until_us is None or write.time_us <= until_us)
        ]
        return rank_of(there[-1] if there else None)

    def placed(self, placement: Placement) -> None:
        """A group's placement was changed."""
        before = self.present.get(placement.group, placement)
        self.present[placement.group] = placement
        for member in placement.members:
            if member.full and member not in before.members:
                at = (member.cell, member.incarnation)
                self._promised.begins_to_serve(placement.group, at)
        if len(placement.members) > len(before.members):
            self._world.stall_a_write()
        now_us = self._world.scheduler.now_us
        self.placed_us[placement.group].append((now_us, placement))
        members = ", ".join(
            f"{one.cell}@{one.incarnation}{'' if one.full else ' joining'}"
            for one in placement.members
        )
        self._world.note(f"{placement.group} is at {placement.epoch}: {members}")

    def group_of(self, partition: str) -> str:
        """The group that a queue's partition belongs to; "" for others."""
        parts = partition.split("|")
        return self.groups.get(parts[1], "") if len(parts) > 1 else ""

    def queue_group(self, queue: str) -> str:
        """The group of a queue, by its name."""
        return self.groups[self.uids[queue]]

    def dropped_us(self, group: str, at: Replica | None) -> int | None:
        """When a member was dropped; None for one that is a member, or never was."""
        there = [
            from_us
            for from_us, placement in self.placed_us[group]
            if at in [(one.cell, one.incarnation) for one in placement.members]
        ]
        if not there:
            return None
        return next((us for us, _ in self.placed_us[group] if us > there[-1]), None)

    def registered(self, key: Key, after: Attributes) -> None:
        """The registry took an item."""
        if key.partition == PLACEMENTS:
            self._note_placement(decode_placement(key.sort.decode(), after))
        elif key.partition.startswith(DEFINITIONS):
            place = read_place(str(after["c"]))
            if place is not None:
                self.groups.setdefault(str(after["u"]), place[0])
            self.uids[key.sort.decode()] = str(after["u"])

    def _note_placement(self, stored: StoredPlacement) -> None:
        """A placement was changed; queues may have left the group for one of their own."""
        common = stored.placement.group
        self.placed(stored.placement)
        self.stored[common] = stored
        for uid, began in stored.alone.items():
            if began.group not in self.present:
                # Whatever was true of the group until then was true of the queue.
                self.placed_us[began.group] = self.placed_us[common][:-1]
                self.groups[uid] = began.group
                self.stored[began.group] = as_it_began(stored, began)
                self.placed(began)

    def applied(self, store: Store, front_end: str, key: Key, image: Attributes) -> None:
        """A cell of messages took a write."""
        base, _, incarnation = key.partition.partition(INCARNATION_MARK)
        if not self.group_of(base):
            return
        known, at = Key(base, key.sort), (store.name, int(incarnation or 0))
        now_us = self._world.scheduler.now_us
        if not self._world.is_fifo and base.startswith(SEGMENTS) and image.get("k") == "s":
            self._note_return(known, at, image)
        self._there.add((known, at))
        if self._world.is_fifo:
            self._check_order(known, at, image)
        elif base.startswith(SEGMENTS) and image.get("k") == "s" and known not in self.writes:
            self._note_segment(store, front_end, known, image)
        elif base.startswith(STATES):
            self._note_state(known, at, image)
            self._check_deleted(known, at, image)
        self.writes[known].append(Applied(now_us, at, front_end, image))
        self._last[known, at] = image

    def _note_segment(self, store: Store, front_end: str, key: Key, item: Attributes) -> None:
        now_us, stamp_us = self._world.scheduler.now_us, number(item, "t")
        for message in open_segment(key, item, None, unseal):
            dead = message.dead_letter_source != ""
            store.stored.append(
                Stored(
                    now_us, stamp_us, front_end, message.id, message.body, again=False, dead=dead
                )
            )

    def _note_return(self, key: Key, at: Replica, segment: Attributes) -> None:
        """A member takes, again or late, what was removed: it has to know that it is deleted."""
        if (key, at) in self._there or key not in self._removed_us:
            return
        if any((block_of(key.sort), index) not in self.deletes for index in indexes_of(segment)):
            return
        first = self.first(self.group_of(key.partition), self._world.scheduler.now_us)
        # What the member that decides holds for undeleted is copied as such.
        if (key, first) not in self._there or self._knows_deleted(key, first):
            self._came_back.add((key, at))

    def look_at_what_came_back(self) -> None:
        """No full member has what was deleted and collected, and takes it for new."""
        for key, at in self._came_back & self._there:
            members = self.present[self.group_of(key.partition)].members
            is_full = at in [(one.cell, one.incarnation) for one in members if one.full]
            if is_full and not self._knows_deleted(key, at):
                self.broken.append((STAYS_AWAY, f"{key} came back to {at}, and is not deleted"))

    def _knows_deleted(self, key: Key, at: Replica) -> bool:
        """Whether the state that a member has of a segment's block says so of all its messages."""
        state = Key(STATES + key.partition.removeprefix(SEGMENTS), block_of(key.sort))
        known = self._last.get((state, at)) if (state, at) in self._there else None
        return deleted_in(known).issuperset(indexes_of(self._last[key, at]))

    def _note_state(self, key: Key, at: Replica, image: Attributes) -> None:
        for name, value in image.items():
            if name == "d" and isinstance(value, frozenset):
                for index in value:
                    self.deletes.setdefault((key.sort, index), at)
            elif name[0] == "m" and isinstance(value, bytes):
                self.leases.setdefault((key.sort, int(name[1:]), value[-13:]), at)

    def _check_deleted(self, key: Key, at: Replica, image: Attributes) -> None:
        """What a member was told of deletes it keeps."""
        lost = deleted_in(self._last.get((key, at))) - deleted_in(image)
        if lost and key not in self._removed_us:
            self.broken.append(("deletes are kept", f"{key} at {at} forgets {set(lost)}"))

    def _check_order(self, key: Key, at: Replica, image: Attributes) -> None:
        """What a full member takes, the one before it has, or has more of; nothing goes back."""
        known = self._last.get((key, at))
        if rank_of(image)[0] < rank_of(known)[0] and key not in self._removed_us:
            self.broken.append(
                ("revisions never fall", f"{key} at {at} was {rank_of(known)}: {rank_of(image)}")
            )
        full = [
            (member.cell, member.incarnation)
            for member in self.present[self.group_of(key.partition)].members
            if member.full
        ]
        if at not in full[1:] or REVISION not in image:
            return
        before = self._last.get((key, full[full.index(at) - 1]))
        rank, above = rank_of(image), rank_of(before)
        if rank[0] > above[0]:
            self.broken.append(
                ("revisions never rise along the chain", f"{key} is {rank} at {at}, behind {above}")
            )
        elif rank == above and image != before:
            self.broken.append(
                ("revisions never rise along the chain", f"{key} is two items of {rank}")
            )


def indexes_of(segment: Attributes) -> range:
    """The messages of a segment, by their places in the block."""
    first = number(segment, "i")
    return range(first, first + number(segment, "n"))


def deleted_in(item: Attributes | None) -> frozenset[object]:
    """The messages of a block that its state says are deleted."""
    deleted = None if item is None else item.get("d")
    return deleted if isinstance(deleted, frozenset) else frozenset()


def rank_of(item: Attributes | None) -> tuple[int, int]:
    """Revision and epoch of an item, 0 for what has none."""
    return (
        (0, 0)
        if item is None or REVISION not in item
        else (
            number(item, REVISION),
            number(item, EPOCH),
        )
    )


class Desk:
    """Implements Witness for one cell."""

    def __init__(self, records: Records, store: Store) -> None:
        self._records = records
        self._store = store

    def put(self, front_end: str, key: Key, after: Attributes) -> None:
        """See Witness."""
        if self._store.name == "meta":
            self._records.registered(key, after)
        else:
            self._records.applied(self._store, front_end, key, after)

    def updated(self, key: Key, before: Attributes | None, after: Attributes) -> None:  # noqa: ARG002
        """See Witness."""
        if self._store.name != "meta":
            self._records.applied(self._store, "", key, after)
