"""Making at another member a change that the first one took, whatever that member was told before.

Front ends tell it in any order, and their requests may be repeated, and come late.
"""

from typing import Final, Protocol

from data_plane.core.conditions import apply
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
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
from data_plane.replication.mending import mend

_MERGES_MAX: Final = 8


class Merging(Protocol):
    """A `Lacking` that knows of copies that decide: with `copy_decides` that of the first member.

    It is told then what another one decided that was the first before.
    """

    def __call__(  # noqa: D102 - as the class says
        self, state: Attributes, copy: Attributes, /, *, copy_decides: bool = False
    ) -> tuple[Update, Condition] | None: ...


async def replay(  # noqa: PLR0913, PLR0917 - where, what, and how it comes together
    first: MemberCell,
    member: MemberCell,
    key: Key,
    change: Update,
    condition: Condition,
    tallies: Tallies,
    lacking: Merging,
) -> Written:
    """Make a change that the first member took under this condition.

    Under the same one, so that a request that comes late changes nothing that came after it. Where
    it does not hold the member was told of other changes first, or not yet: then it gets of this
    one what it lacks, and what it should know after that the first member says: which of two
    changes of one delivery's visibility came later they do not tell themselves. That may be the
    member itself, where one took the change that was first before it: then what it has granted
    since stays granted. Raises CellUnavailableError.
    """
    written = await member.update(key, change, condition, tallies)
    everywhere = _holding_everywhere(condition)
    if written.applied or everywhere == condition:
        return written
    told = {**change.assign, **change.add}
    copy, decides = written.before, member.is_same(first)
    for _ in range(_MERGES_MAX):
        missing = (
            (change, ITEM_ABSENT) if copy is None else lacking(told, copy, copy_decides=decides)
        )
        if missing is None:
            if not decides:
                await mend(first, member, key, copy, lacking)
            return written
        update, as_seen = missing
        written = await member.update(key, update, (*everywhere, *as_seen), tallies)
        copy = written.before
        if written.applied:
            if decides:
                return written  # told anew, it would pass for a change of the lease it became
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
