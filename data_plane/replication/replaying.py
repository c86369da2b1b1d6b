"""Making at another member a change that the first one took, whatever that member was told before.

Front ends tell it in any order, and their requests may be repeated, and come late.
"""

from typing import Final

from data_plane.core.conditions import apply
from data_plane.ports import (
    ITEM_ABSENT,
    CellUnavailableError,
    Condition,
    Equals,
    Key,
    LessThan,
    Tallies,
    Update,
    Written,
    no_tallies,
)
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.mending import Lacking, mend

_MERGES_MAX: Final = 8


async def replay(  # noqa: PLR0913, PLR0917 - where, what, and how it comes together
    first: MemberCell,
    member: MemberCell,
    key: Key,
    change: Update,
    condition: Condition,
    tallies: Tallies,
    lacking: Lacking,
) -> Written:
    """Make a change that the first member took under this condition.

    Under the same one, so that a request that comes late changes nothing that came after it. Where
    it does not hold the member was told of other changes first, or not yet: then it gets of this
    one what it lacks, and what it should know after that the first member says: which of two
    changes of one delivery's visibility came later they do not tell themselves. Raises
    CellUnavailableError.
    """
    written = await member.update(key, change, condition, tallies)
    everywhere = _holding_everywhere(condition)
    if written.applied or everywhere == condition:
        return written
    told = {**change.assign, **change.add}
    copy = written.before
    for _ in range(_MERGES_MAX):
        missing = (change, ITEM_ABSENT) if copy is None else lacking(told, copy)
        if missing is None:
            await mend(first, member, key, copy, lacking)
            return written
        update, as_seen = missing
        written = await member.update(key, update, (*everywhere, *as_seen), tallies)
        copy = written.before
        if written.applied:
            copy, tallies = apply(update, copy), no_tallies
    raise CellUnavailableError("others write to an item faster than a copy can be told of it")


def _holding_everywhere(condition: Condition) -> Condition:
    """What of a condition has to hold at a member that knows less, or more, too.

    That a mark only rises, and that an item which was collected does not come into being again. A
    lease that the first member granted is granted.
    """
    return tuple(
        any_of
        for any_of in condition
        if any(
            isinstance(clause, LessThan) or (isinstance(clause, Equals) and clause.attribute == "v")
            for clause in any_of
        )
    )
