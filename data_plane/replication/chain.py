"""A chain of cells: one decides, all have it before anybody sees it (docs/replication.md).

Chain replication (van Renesse and Schneider, OSDI 2004), driven by the front ends as in CORFU
(Balakrishnan et al., TOCS 2013): the first member decides a write, the front end hands the item
down, and whoever finds one that somebody else left half way hands that down. Reads ask the last
full member, which has only what all others have.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from data_plane.core.conditions import apply, holds
from data_plane.core.dropping import Dropped, Superfluous
from data_plane.ports import (
    ALWAYS,
    ITEM_ABSENT,
    Absent,
    AnyOf,
    Append,
    Appended,
    Attributes,
    Cell,
    CellUnavailableError,
    Condition,
    Equals,
    Item,
    Key,
    LessThan,
    Tallies,
    Update,
    Waits,
    Written,
    no_tallies,
)
from data_plane.replication.dropping import drop_in_all
from data_plane.replication.lately import Lately
from data_plane.replication.member_cell import (
    GIVE_US_MAX,
    MemberCell,
    StalePlacementError,
    check_in_group,
    check_joined,
    members_of,
)
from data_plane.replication.placement import Placement
from data_plane.replication.unneeded import Unneeded

REVISION: Final = "R"
EPOCH: Final = "E"
REMOVED: Final = "D"
TOMBSTONE_S: Final = 24 * 3600
"""How long a removed item is remembered. Who forgets it sooner or later than others does no harm:
what begins anew takes the place of what is past its time."""

CALL_US_MAX: Final = 3600 * 1_000_000
"""A call gives nothing to any member later than this: it could be a copy of what was removed
meanwhile, and is remembered no more. No request waits for so long; a process may be stopped."""

_DECISIONS_MAX: Final = 8
_GET_MANY_MAX: Final = 100
_HIGHEST: Final = b"\xff" * 64


class Chain(Lately):
    """Implements `data_plane.ports.Cell` over the members of a placement.

    `placement` answers the front end's present map of the group, which is taken once for each call,
    `alone` the uids of queues that have left the group for one of their own, by the same map, and
    `latest` the last one, however old.
    Raises StalePlacementError where a member knows of a later epoch, LeftGroupError where
    something of such a queue is asked for.
    """

    def __init__(
        self,
        placement: Callable[[], Placement],
        cells: Mapping[str, Cell],
        waits: Waits,
        alone: Callable[[], Collection[str]] = tuple,
        latest: Callable[[], Placement] | None = None,
    ) -> None:
        super().__init__(latest or placement, cells)
        self._placement = placement
        self._cells = cells
        self._waits = waits
        self._alone = alone
        self._unneeded = Unneeded(placement, cells, alone)

    def _at(self, *partitions: str) -> Placement:
        """The placement by which these partitions are to be read and written."""
        at = self._placement()
        check_in_group(at.group, partitions, self._alone())
        return at

    @property
    def chooses_stamps(self) -> bool:
        """Never: all members have one key."""
        return False

    def collects(self) -> bool:
        """As `Fanout.collects`."""
        return any(cell.chooses_stamps for cell in self._cells.values())

    def settled_us(self) -> int:
        """What the member that is read has settled."""
        at = self._latest()
        return self._settled_us(at.members[at.tail])

    # Writing

    async def append(self, record: Append) -> Appended:
        """Store a new item under the proposed key."""
        self._unneeded.let_go()
        stamp_us = record.proposed_us
        sort = (stamp_us + record.delay_us).to_bytes(8, "big") + record.suffix
        key = Key(record.partition, sort)
        written = await self.put(
            key,
            {**record.attributes, "t": stamp_us},
            ITEM_ABSENT,
            lambda before: record.tallies(stamp_us) if before is None else (),
        )
        return Appended(key, stamp_us, written.time_ms)

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Replace the whole item if the condition holds: one write where there was none."""
        at, counted = self._at(key.partition), _without_marks(tallies)
        head, *others = members_of(at, self._cells, CALL_US_MAX)
        occupant: Attributes | None = None
        for _ in range(_DECISIONS_MAX):
            image = {**attributes, REVISION: _revision(occupant) + 1, EPOCH: at.epoch}
            # Of what was removed it was looked at here: there it would see what is left.
            wanted = () if _is_removed(occupant) else condition
            written = await head.put(key, image, (*wanted, _as_it_is(occupant)), counted)
            occupant = written.before
            if written.applied or occupant == image:
                time_ms = await _hand_down(at, others, key, image, counted)
                check_joined(at, self._at(key.partition))
                before = _bare(written.before) if written.applied else None
                return Written(applied=True, before=before, time_ms=max(written.time_ms, time_ms))
            _check_epoch(at, occupant)
            if not holds(condition, _bare(occupant)):
                return await self._refuse(at, others, key, written)
        raise CellUnavailableError(f"others write to an item of {at.group} faster than this one")

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Change single attributes if the condition holds: one write, but where one was removed."""
        at, counted = self._at(key.partition), _without_marks(tallies)
        head, *others = members_of(at, self._cells, CALL_US_MAX)
        marked = Update(
            {**change.assign, EPOCH: at.epoch}, {**change.add, REVISION: 1}, change.remove
        )
        guarded = (*condition, (Absent(REMOVED),), _not_later(at.epoch))
        for _ in range(_DECISIONS_MAX):
            written = await head.update(key, marked, guarded, counted)
            if written.applied:
                image = apply(marked, written.before)
                time_ms = await _hand_down(at, others, key, image, counted)
                check_joined(at, self._at(key.partition))
                before = _bare(written.before)
                return Written(applied=True, before=before, time_ms=max(written.time_ms, time_ms))
            _check_epoch(at, written.before)
            if not _is_removed(written.before) or not holds(condition, None):
                return await self._refuse(at, others, key, written)
            # Nothing of what was removed stays in what begins anew, its time to live above all.
            begun = await self.put(key, apply(change, None), (*condition, *ITEM_ABSENT), tallies)
            if begun.applied:
                return begun
        raise CellUnavailableError(f"others write to an item of {at.group} faster than this one")

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """Remove the item if the condition holds; what is left of it says so to late copies."""
        at, counted = self._at(key.partition), _without_marks(tallies)
        head, *others = members_of(at, self._cells, CALL_US_MAX)
        for _ in range(_DECISIONS_MAX):
            occupant = await head.get(key)
            _check_epoch(at, occupant)
            time_ms = head.plain.now_us() // 1000
            if occupant is None:
                return Written(holds(condition, None), None, time_ms)
            if not holds(condition, _bare(occupant)):
                found = Written(applied=False, before=occupant, time_ms=time_ms)
                return await self._refuse(at, others, key, found)
            image = {
                REVISION: _revision(occupant) + 1,
                EPOCH: at.epoch,
                REMOVED: 1,
                "x": time_ms // 1000 + TOMBSTONE_S,
            }
            written = await head.put(key, image, (_as_it_is(occupant),), counted)
            if written.applied or written.before == image:
                down_ms = await _hand_down(at, others, key, image, counted)
                check_joined(at, self._at(key.partition))
                return Written(
                    applied=True, before=_bare(occupant), time_ms=max(written.time_ms, down_ms)
                )
        raise CellUnavailableError(f"others write to an item of {at.group} faster than this one")

    async def _refuse(
        self, at: Placement, others: Sequence[MemberCell], key: Key, written: Written
    ) -> Written:
        """Answer a condition that did not hold.

        What it failed on may be what the caller itself wrote before, which counts as stored then.
        """
        refused = await _refused(at, others, key, written)
        check_joined(at, self._at(key.partition))
        return refused

    def expire(self, keys: Sequence[Key]) -> None:
        """Say to all members that nobody needs these items any more, once nobody joins."""
        self._unneeded.expire(keys)

    def let_go(self) -> None:
        """Say so of some that were held back, where nobody joins any more: a bounded step."""
        self._unneeded.let_go()

    async def drop(self, partition: str, budget: int) -> int:
        """Remove up to `budget` items, in every member, of a partition that nobody writes to."""
        members = members_of(self._at(partition), self._cells)
        return max([await member.drop(partition, budget) for member in members])

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """Drop in every member what a purge has made superfluous: a bounded step.

        States of a standard queue's blocks stay: one that is gone from some members and not from
        others would begin with a lower revision than theirs.
        """
        if part.partition.startswith("S|"):
            return Dropped(b"")
        at = self._at(part.partition)
        members = members_of(at, self._cells)
        return await drop_in_all(self._waits, at, members, part, after)

    # Reading

    def _readers(self, *partitions: str) -> tuple[Placement, MemberCell, list[MemberCell]]:
        """The placement, its last full member, and those behind it, which join."""
        at = self._at(*partitions)
        members = members_of(at, self._cells, CALL_US_MAX)
        joining = members[at.tail + 1 :]
        if self.collects():
            joining = [member.within(GIVE_US_MAX) for member in joining]
        return at, members[at.tail], joining

    async def _share(
        self, at: Placement, joining: Sequence[MemberCell], found: Mapping[Key, Attributes]
    ) -> None:
        """See to it that all members have what was read, before anybody acts on it.

        A member that was dropped may get a copy after others were copied what it had. Raises
        StalePlacementError, CellUnavailableError.
        """
        await _let_have(self._waits, joining, found)
        check_joined(at, self._at(*{key.partition for key in found}))

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        """Read one item."""
        at, tail, joining = self._readers(key.partition)
        found = await tail.get(key, strong=strong)
        await self._share(at, joining, {} if found is None else {key: found})
        return _bare(found)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """Read up to 100 items in one request; absent ones are missing from the answer."""
        at, tail, joining = self._readers(*(key.partition for key in keys))
        found = await tail.get_many(keys, strong=strong)
        await self._share(at, joining, found)
        return {key: bare for key, item in found.items() if (bare := _bare(item)) is not None}

    async def query(  # noqa: PLR0913 - a range has that many sides
        self,
        partition: str,
        *,
        after: bytes = b"",
        until: bytes | None = None,
        limit: int,
        reverse: bool = False,
        strong: bool = True,
    ) -> list[Item]:
        """Read items with `after < sort <= until` in order of `sort`, at most `limit` of them."""
        at, tail, joining = self._readers(partition)
        while True:
            page = await tail.query(
                partition, after=after, until=until, limit=limit, reverse=reverse, strong=strong
            )
            await self._share(at, joining, {item.key: item.attributes for item in page})
            present = [
                Item(item.key, bare)
                for item in page
                if (bare := _bare(item.attributes)) is not None
            ]
            if present or not page:
                return present
            # Removed items alone, which must not look like the end of the range.
            if reverse:
                until = _below(page[-1].key.sort)
                if until is None or until <= after:
                    return []
            else:
                after = page[-1].key.sort


async def _hand_down(
    at: Placement,
    others: Sequence[MemberCell],
    key: Key,
    image: Attributes,
    tallies: Tallies = no_tallies,
) -> int:
    """Give an item to the members behind the first, one after the other: the latest time, in ms.

    A member that has a later revision has this one in it, unless it is past its time: what began
    anew where it was removed counts from 1 again. Raises StalePlacementError, CellUnavailableError;
    then some members have the item, and others may hand it on.
    """
    latest_ms = 0
    for member in others:
        written = await give(member, key, image, tallies)
        latest_ms = max(latest_ms, written.time_ms)
        if written.applied or all(
            _is_past(item, written.time_ms) for item in (image, written.before)
        ):
            continue
        _check_epoch(at, written.before)
        if _epoch(written.before) < _epoch(image):
            raise CellUnavailableError(f"members of {at.group} have items of different histories")
    return latest_ms


async def give(
    member: MemberCell, key: Key, image: Attributes, tallies: Tallies = no_tallies
) -> Written:
    """Put an item in a member, if what is there comes before it.

    Before it come lower revisions; and what is past its time, unless both are: where a cell has
    removed such an item what begins anew counts from 1 again. Raises CellUnavailableError.
    """
    written = await member.put(key, image, older_than(image), tallies)
    present, time_ms = written.before, written.time_ms
    if written.applied or not _is_past(present, time_ms) or _is_past(image, time_ms):
        return written
    # Of whatever epoch it is: a cell that removed it remembers none.
    return await member.put(key, image, (_as_it_is(present),), tallies)


async def give_copy(member: MemberCell, key: Key, image: Attributes) -> None:
    """Put an item in a member that was read elsewhere, maybe long ago. Raises CellUnavailableError.

    Past its time it stays away: its revision may be above that of what has begun anew meanwhile.
    """
    if not _is_past(image, member.plain.now_us() // 1000):
        await give(member, key, image)


def _is_past(item: Attributes | None, time_ms: int) -> bool:
    expires_s = None if item is None else item.get("x")
    return isinstance(expires_s, int) and expires_s * 1000 <= time_ms


def _is_behind(present: Attributes | None, image: Attributes, time_ms: int) -> bool:
    """Whether what a member has comes before this."""
    if _is_past(present, time_ms) != _is_past(image, time_ms):
        return _is_past(present, time_ms)
    return _revision(present) < _revision(image)


async def _let_have(
    waits: Waits, joining: Sequence[MemberCell], found: Mapping[Key, Attributes]
) -> None:
    """Give joining members what was read, before anybody acts on it.

    It may be half way to them, and the copy under way past it: once they serve, it would be seen no
    more. Side by side, for nobody knows of any of it before all is there, and each item has a
    condition of its own. Raises CellUnavailableError.
    """
    keys = list(found)
    for member in joining:
        for start in range(0, len(keys), _GET_MANY_MAX):
            asked = keys[start : start + _GET_MANY_MAX]
            present, now_ms = await member.get_many(asked), member.plain.now_us() // 1000
            calls = [
                give_copy(member, key, found[key])
                for key in asked
                if _is_behind(present.get(key), found[key], now_ms)
            ]
            for outcome in await waits.all_of(calls) if calls else ():
                if isinstance(outcome, Exception):
                    raise outcome


def older_than(image: Attributes) -> Condition:
    """The condition under which an item takes the place of what a member has."""
    revision = (Absent(REVISION), LessThan(REVISION, _revision(image)))
    return (revision, _not_later(_epoch(image)))


async def _refused(
    at: Placement, others: Sequence[MemberCell], key: Key, written: Written
) -> Written:
    """Answer a condition that did not hold, once all members have what it failed on.

    The time is when the last of them got it: to a caller that wrote it, it was stored by then.
    """
    occupant, time_ms = written.before, written.time_ms
    if occupant is not None and others:
        last = await others[-1].get(key)
        _check_epoch(at, last)
        now_ms = others[-1].plain.now_us() // 1000
        # What began anew where the first one has removed it counts from 1 again.
        is_anew = _is_past(last, now_ms) and not _is_past(occupant, now_ms)
        if last is None or is_anew or _revision(last) < _revision(occupant):
            time_ms = max(time_ms, await _hand_down(at, others, key, occupant))
    return Written(applied=False, before=_bare(occupant), time_ms=time_ms)


def _check_epoch(at: Placement, occupant: Attributes | None) -> None:
    if _epoch(occupant) > at.epoch:
        raise StalePlacementError(f"{at.group} has a later epoch than {at.epoch}")


def _not_later(epoch: int) -> AnyOf:
    return (Absent(EPOCH), LessThan(EPOCH, epoch), Equals(EPOCH, epoch))


def _as_it_is(occupant: Attributes | None) -> AnyOf:
    if occupant is None or REVISION not in occupant:
        return (Absent(REVISION),)
    return (Equals(REVISION, _revision(occupant)),)


def _revision(item: Attributes | None) -> int:
    return _number(item, REVISION)


def _epoch(item: Attributes | None) -> int:
    return _number(item, EPOCH)


def _number(item: Attributes | None, name: str) -> int:
    value = None if item is None else item.get(name)
    return value if isinstance(value, int) else 0


def _is_removed(item: Attributes | None) -> bool:
    return item is not None and REMOVED in item


def _bare(item: Attributes | None) -> Attributes | None:
    """The item as engines know it; None for one that was removed."""
    if item is None or REVISION not in item:
        return item
    if REMOVED in item:
        return None
    return {name: value for name, value in item.items() if name not in {REVISION, EPOCH}}


def _without_marks(tallies: Tallies) -> Tallies:
    return tallies if tallies is no_tallies else lambda before: tallies(_bare(before))


def _below(sort: bytes) -> bytes | None:
    """A bound that all lesser keys are within, or None."""
    number = int.from_bytes(sort, "big")
    return None if number == 0 else (number - 1).to_bytes(len(sort), "big") + _HIGHEST
