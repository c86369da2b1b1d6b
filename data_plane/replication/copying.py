"""Copying what a group has to a member that joins (docs/replication.md).

The member gets every new write already; what is copied here is what was there before. So a copy
never overwrites what is newer: an item of a chain by its revision, one of a standard queue by
adding what the member lacks.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from data_plane.core.conditions import apply
from data_plane.ports import (
    ITEM_ABSENT,
    Absent,
    Attributes,
    CellUnavailableError,
    Condition,
    Equals,
    Item,
    Update,
    Waits,
)
from data_plane.replication.chain import REVISION, give_copy
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.mending import Lacking, mend

COPY_US_MAX: Final = 60_000_000
"""So long after it was seen that a member still joins nothing is copied to it any more, in cells
that collect: that begins when it has been full for twice as long (unneeded.py)."""

PAGE: Final = 64
_MERGES_MAX: Final = 8


class Position(NamedTuple):
    """How far a copy has come: the partition under way, and the last key of it that was copied."""

    partition: int = 0
    after: bytes = b""


async def copy_some(  # noqa: PLR0913, PLR0917 - from where, to where, what, how much
    waits: Waits,
    source: MemberCell,
    target: MemberCell,
    lacking: Lacking,
    partitions: Sequence[str],
    position: Position,
    items_max: int,
    puts_max: int = PAGE,
) -> Position | None:
    """Copy up to about `items_max` items: where to go on, or None when all is copied.

    At most `puts_max` at a time, so that others find the target free. May be repeated from any
    position. Raises CellUnavailableError.
    """
    copied = 0
    while position.partition < len(partitions):
        if copied >= items_max:
            return position
        page = await source.query(partitions[position.partition], after=position.after, limit=PAGE)
        for start in range(0, len(page), puts_max):
            puts = [
                copy_item(source, target, item, lacking) for item in page[start : start + puts_max]
            ]
            for outcome in await waits.all_of(puts):
                if isinstance(outcome, Exception):
                    raise outcome
        copied += len(page)
        position = (
            Position(position.partition, page[-1].key.sort)
            if page
            else Position(position.partition + 1)
        )
    return None


async def copy_item(source: MemberCell, target: MemberCell, item: Item, lacking: Lacking) -> None:
    """Give a member an item of the source, or what it lacks of it. Raises CellUnavailableError."""
    image = item.attributes
    if REVISION in image:
        await give_copy(target, item.key, image)
        return
    # A counter, which has no version, is replaced: nobody else can tell what was counted before.
    written = await target.put(item.key, image, ITEM_ABSENT)
    if written.applied or written.before is None:
        return
    present = await _merge(target, item, written.before)
    # It may have been told late of a lease that another one has followed long since.
    if present is not None and lacking(image, present) is not None:
        await mend(source, target, item.key, present, lacking)


async def _merge(target: MemberCell, item: Item, present: Attributes) -> Attributes | None:
    """Add what an item of the member lacks, members of sets and attributes: how it is then.

    So a block's state has what was deleted in either, and a mark stays as it is. None: it is gone.
    """
    for _ in range(_MERGES_MAX):
        missing = {name: value for name, value in item.attributes.items() if name not in present}
        sets = {
            name: added
            for name, value in item.attributes.items()
            if isinstance(value, frozenset)
            and isinstance(known := present.get(name), frozenset)
            and (added := value - known)
        }
        if not missing and not sets:
            return present
        condition: Condition = tuple((Absent(name),) for name in missing)
        if "v" in present:  # Not into being again, without the rest, where it was collected.
            condition = (*condition, (Equals("v", present["v"]),))
        change = Update(missing, sets)
        written = await target.update(item.key, change, condition)
        if written.before is None:
            return None
        if written.applied:
            return apply(change, written.before)
        present = written.before
    raise CellUnavailableError("others write to an item faster than it can be copied")
