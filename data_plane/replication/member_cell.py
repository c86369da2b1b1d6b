"""A member of a group as a cell: the key space that its incarnation has in the plain cell."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from data_plane.core.dropping import Dropped, Dropping, DroppingAll, Superfluous
from data_plane.ports import (
    ALWAYS,
    Attributes,
    Cell,
    CellUnavailableError,
    Condition,
    Item,
    Key,
    Tallies,
    Tally,
    Update,
    Written,
    no_tallies,
)
from data_plane.replication.placement import Member, Placement, partition_of, uid_of

GIVE_US_MAX: Final = 5_000_000
"""So long after it was read at one member an item may be given to another one that may collect it.
What somebody still needed then no cell collects within four times of that, and what reaches a cell
earlier is removed with the rest."""


class StalePlacementError(CellUnavailableError):
    """A member was written to under a later epoch: this front end's placement is old.

    To be asked again, with a fresh map. The write may or may not have taken effect.
    """


class LeftGroupError(StalePlacementError):
    """The queue lies in a group of its own by now: this one's placement is not its any more."""


class MemberCell:
    """What replication uses of the Cell port, over one incarnation's items of a plain cell.

    After `until_us`, by the clock of the cell, nothing is put in it any more.
    """

    def __init__(self, cell: Cell, member: Member, until_us: int | None = None) -> None:
        self.plain = cell
        self.member = member
        self._until_us = until_us

    def is_same(self, other: "MemberCell") -> bool:
        """Whether both are the same member."""
        return self.member[:2] == other.member[:2]

    def within(self, us: int) -> "MemberCell":
        """The member, in which nothing is put any more after so long from now."""
        return MemberCell(self.plain, self.member, self.plain.now_us() + us)

    def _key(self, key: Key) -> Key:
        return Key(partition_of(self.member, key.partition), key.sort)

    def _tallies(self, tallies: Tallies) -> Tallies:
        if tallies is no_tallies or not self.member.incarnation:
            return tallies

        def renamed(before: Attributes | None) -> Iterable[Tally]:
            return [tally._replace(key=self._key(tally.key)) for tally in tallies(before)]

        return renamed

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """As `Cell.put`. Raises CellUnavailableError when it is too late for that, too."""
        if self._until_us is not None and self.plain.now_us() > self._until_us:
            raise CellUnavailableError(f"a call that writes to {self.member.cell} took too long")
        return await self.plain.put(self._key(key), attributes, condition, self._tallies(tallies))

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """As `Cell.update`."""
        return await self.plain.update(self._key(key), change, condition, self._tallies(tallies))

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """As `Cell.delete`."""
        return await self.plain.delete(self._key(key), condition, self._tallies(tallies))

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        """As `Cell.get`."""
        return await self.plain.get(self._key(key), strong=strong)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """As `Cell.get_many`."""
        stored = {self._key(key): key for key in keys}
        found = await self.plain.get_many(list(stored), strong=strong)
        return {stored[key]: item for key, item in found.items()}

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
        """As `Cell.query`."""
        page = await self.plain.query(
            partition_of(self.member, partition),
            after=after,
            until=until,
            limit=limit,
            reverse=reverse,
            strong=strong,
        )
        if not self.member.incarnation:
            return page
        return [Item(Key(partition, item.key.sort), item.attributes) for item in page]

    def expire(self, keys: Sequence[Key]) -> None:
        """As `Cell.expire`."""
        self.plain.expire([self._key(key) for key in keys])

    async def drop(self, partition: str, budget: int) -> int:
        """Remove up to `budget` items of a partition that nobody writes to: how many it were."""
        if isinstance(self.plain, DroppingAll):
            return await self.plain.drop(partition_of(self.member, partition), budget)
        items = await self.query(partition, limit=budget)
        for item in items:
            await self.delete(item.key)
        return len(items)

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """As the plain cell, if it drops anything before its time."""
        if not isinstance(self.plain, Dropping):
            return Dropped(b"")
        own = part._replace(partition=partition_of(self.member, part.partition))
        return await self.plain.drop_superfluous(own, after)


def check_joined(used: Placement, present: Placement) -> None:
    """Raise StalePlacementError where a write by `used` may be missing in who joined since.

    What is acknowledged is in all members, or comes before what a joining member is copied. So the
    end of a write is held against a map that is not too old, however long the write took.
    """
    if any(not used.has(member) for member in present.members):
        raise StalePlacementError(f"{used.group} got a member while it was written to")


def check_in_group(group: str, partitions: Iterable[str], alone: Collection[str]) -> None:
    """Raise LeftGroupError where a queue of these partitions is one of those that lie alone."""
    if alone and any(uid_of(partition) in alone for partition in partitions):
        raise LeftGroupError(f"a queue of {group} lies in a group of its own by now")


def members_of(
    placement: Placement, cells: Mapping[str, Cell], for_us: int | None = None
) -> list[MemberCell]:
    """The members as cells, in their order, which are put to for so long.

    Raises CellUnavailableError for an unknown one.
    """
    unknown = [member.cell for member in placement.members if member.cell not in cells]
    if unknown:
        raise CellUnavailableError(f"{placement.group} lies in cells not known here: {unknown}")
    found = [(cells[member.cell], member) for member in placement.members]
    if for_us is None:
        return [MemberCell(cell, member) for cell, member in found]
    return [MemberCell(cell, member, cell.now_us() + for_us) for cell, member in found]
