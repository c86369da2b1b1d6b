"""Giving members an item that they may have collected (docs/replication.md, "Who told nobody").

Cells collect what everybody is done with, each in its own time. What is read at one member and put
in another could come back there, and nobody would know any more that it was deleted.
"""

from collections.abc import Callable, Sequence

from data_plane.ports import Attributes, Item, Key, Waits
from data_plane.replication.copying import copy_item
from data_plane.replication.member_cell import GIVE_US_MAX, MemberCell
from data_plane.replication.mending import Lacking

IsNeeded = Callable[[Attributes, Attributes | None], bool]
"""Whether anybody needs an item, by it and the item that says what became of it."""


async def give_needed(  # noqa: PLR0913, PLR0917 - from where, to where, and what
    waits: Waits,
    first: MemberCell,
    others: Sequence[MemberCell],
    key: Key,
    state: Key,
    is_needed: IsNeeded,
    lacking: Lacking,
) -> bool:
    """See that the others have what the first member has of an item, if anybody needs it.

    Before it they get `state`, what the first member knows that became of it. False where the first
    member has no such item, or not any more. Raises CellUnavailableError, also where it takes
    longer than GIVE_US_MAX: then it has to be read anew.
    """
    in_time = [other.within(GIVE_US_MAX) for other in others]
    found = await first.get_many([key, state])
    item, known = found.get(key), found.get(state)
    if item is None:
        return False
    if is_needed(item, known):
        if known is not None:
            await give_all(waits, first, in_time, Item(state, known), lacking)
        await give_all(waits, first, in_time, Item(key, item), lacking)
    return True


async def give_all(
    waits: Waits, first: MemberCell, others: Sequence[MemberCell], item: Item, lacking: Lacking
) -> None:
    """Give members an item of the first, or what they lack of it. Raises CellUnavailableError."""
    calls = [copy_item(first, other, item, lacking) for other in others]
    for outcome in await waits.all_of(calls):
        if isinstance(outcome, Exception):
            raise outcome
