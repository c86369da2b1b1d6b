"""Anti-entropy: what the first member of a group knows and the others were never told.

The front end that did it is gone, with what it still had to tell. So nobody knows what is missing:
all that was written since is compared (docs/replication.md, "Who told nobody").
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from data_plane.ports import Item, Waits
from data_plane.replication.copying import Position
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.mending import Lacking, mend

PAGE: Final = 100
"""What a member answers of in one request."""


class Range(NamedTuple):
    """What is compared of a partition: items behind `after` that are `wanted`.

    `copied` gives another member those that it does not have at all, where that takes more than the
    item: from the first member, to the other, the item.
    """

    partition: str
    after: bytes
    is_wanted: Callable[[Item], bool]
    lacking: Lacking
    copied: Callable[[MemberCell, MemberCell, Item], Awaitable[object]] | None = None


class Compared(NamedTuple):
    """Where to go on, None at the end; and how many copies were behind."""

    left: Position | None
    mended: int


async def compare_some(
    waits: Waits,
    members: Sequence[MemberCell],
    ranges: Sequence[Range],
    position: Position,
    items_max: int,
) -> Compared:
    """Compare up to about `items_max` items of a group, and tell the others what they lack.

    For 100 items one request to each member; for each copy that is behind a read of the first
    member and a write. May be repeated from any position. Raises CellUnavailableError.
    """
    first, *others = members
    compared = mended = 0
    while position.partition < len(ranges):
        if compared >= items_max:
            return Compared(position, mended)
        one = ranges[position.partition]
        after = max(position.after, one.after)
        page = await first.query(one.partition, after=after, limit=PAGE)
        wanted = [item for item in page if one.is_wanted(item)]
        if wanted:
            calls = [_mend_all(waits, first, other, wanted, one) for other in others]
            for outcome in await waits.all_of(calls):
                if isinstance(outcome, Exception):
                    raise outcome
                mended += outcome
        compared += len(page)
        position = (
            Position(position.partition, page[-1].key.sort)
            if page
            else Position(position.partition + 1)
        )
    return Compared(None, mended)


async def _mend_all(
    waits: Waits, first: MemberCell, other: MemberCell, items: Sequence[Item], one: Range
) -> int:
    """Bring the copies of these items up to date: how many were behind."""
    present = await other.get_many([item.key for item in items])
    calls: list[Awaitable[object]] = []
    for item in items:
        copy = present.get(item.key)
        if copy is None and one.copied is not None:
            calls.append(one.copied(first, other, item))
        elif copy is None or one.lacking(item.attributes, copy) is not None:
            calls.append(mend(first, other, item.key, copy, one.lacking))
    for outcome in await waits.all_of(calls):
        if isinstance(outcome, Exception):
            raise outcome
    return len(calls)
