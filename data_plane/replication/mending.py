"""Bringing the copy of an item that a member was told part of to know what the first one knows."""

from collections.abc import Callable
from typing import Final

from data_plane.core.conditions import apply
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    CellUnavailableError,
    Condition,
    Key,
    Update,
)
from data_plane.replication.member_cell import MemberCell

_MERGES_MAX: Final = 8

Lacking = Callable[[Attributes, Attributes], tuple[Update, Condition] | None]
"""Of an item at the first member, and a copy of it: what brings the copy to know the same."""


async def mend(
    first: MemberCell, other: MemberCell, key: Key, copy: Attributes | None, lacking: Lacking
) -> None:
    """Bring a member's copy of an item (None: it has none) to know what the first member knows.

    That is read after the copy: so it knows all that the copy was told until then, and what differs
    is older in the copy. Raises CellUnavailableError.
    """
    known: Attributes | None = None
    for _ in range(_MERGES_MAX):
        known = known or await first.get(key)
        if known is None:
            return  # It was collected: nobody needs it any more.
        if copy is None:
            written = await other.put(key, known, ITEM_ABSENT)
            if written.applied:
                return
            copy, known = written.before, None
            continue
        change = lacking(known, copy)
        if change is None:
            return
        update, as_seen = change
        written = await other.update(key, update, as_seen)
        if written.applied:
            copy = apply(update, written.before)
        else:
            copy, known = written.before, None
    raise CellUnavailableError("others write to an item faster than its copies can be compared")
