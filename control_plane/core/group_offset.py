"""How far a consumer group is in a shard, and whose commits count: one item for each.

Every write is one conditional update. Whoever takes a shard over raises the epoch under which
commits are taken, and is told by that very write how far the former one was. So a commit of that
one is either in what it is told, or fails.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from control_plane.core.consumer_group import ShardHold
from control_plane.core.definition import FORMAT
from control_plane.core.item_field import UnknownItemFormatError, integer
from data_plane.core.sequence_number import OFFSET_MAX
from data_plane.ports import Absent, Attributes, Condition, Equals, LessThan, Update, Value

SHARD_END: Final = "SHARD_END"
END_OFFSET: Final = OFFSET_MAX
"""Above the offset of every record: the shard is read to its end."""


class GroupOffset(NamedTuple):
    """What is known of a shard.

    All up to `offset` is done (None: nothing is). A commit said the sequence number `number` and
    `metadata`; both are "" where the offset was set otherwise. Commits are taken from `owner`
    under the assignment epoch `epoch`; `committed_ms` is when the last one was.
    """

    offset: int | None = None
    number: str = ""
    metadata: str = ""
    owner: str = ""
    epoch: int = 0
    committed_ms: int = 0

    @property
    def is_end(self) -> bool:
        """Whether the shard is read to its end."""
        return self.offset == END_OFFSET


class Commit(NamedTuple):
    """All up to `offset` is done, says a member that has the shard under this epoch."""

    member: str
    epoch: int
    offset: int
    number: str
    metadata: str = ""


def read_offset(item: Attributes | None) -> GroupOffset:
    """What an item says. Raises UnknownItemFormatError."""
    if item is None:
        return GroupOffset()
    if item.get("v") != FORMAT:
        raise UnknownItemFormatError(f"an offset of format {item.get('v')!r}")
    return GroupOffset(
        offset=integer(item, "c") if "c" in item else None,
        number=str(item.get("q", "")),
        metadata=str(item.get("m", "")),
        owner=str(item.get("b", "")),
        epoch=integer(item, "o") if "o" in item else 0,
        committed_ms=integer(item, "t") if "t" in item else 0,
    )


def first_item(offset: int) -> Mapping[str, Value]:
    """A shard of a new group that is done up to this offset."""
    return {"v": FORMAT, "c": offset}


def handing_over(member: str, epoch: int) -> tuple[Update, Condition]:
    """Take commits from this member alone, under this epoch."""
    change = Update(assign={"v": FORMAT, "o": epoch, "b": member})
    return change, ((Absent("o"), LessThan("o", epoch)),)


def has_taken_over(before: Attributes | None, member: str, epoch: int) -> bool:
    """Whether what refused a hand-over is that very one, whose reply was lost."""
    known = read_offset(before)
    return known.epoch == epoch and known.owner == member


def is_taken_up(known: GroupOffset, hold: ShardHold) -> bool:
    """Whether the one that a shard was handed to has come for it."""
    return known.owner == hold.owner and known.epoch == hold.epoch


def committing(commit: Commit, now_ms: int) -> tuple[Update, Condition]:
    """Note a commit, unless the shard is another one's, or more is done than that."""
    change = Update(
        assign={
            "c": commit.offset,
            "q": commit.number,
            "m": commit.metadata,
            "t": now_ms,
        }
    )
    return change, (
        (Equals("o", commit.epoch),),
        (Equals("b", commit.member),),
        (Absent("c"), LessThan("c", commit.offset)),
    )


def is_committed(before: Attributes | None, commit: Commit) -> bool:
    """Whether what refused a commit has as much done, under the same assignment."""
    known = read_offset(before)
    is_owners = known.epoch == commit.epoch and known.owner == commit.member
    return is_owners and known.offset is not None and known.offset >= commit.offset


def resetting(offset: int | None, epoch: int) -> tuple[Update, Condition]:
    """Let all up to this offset be done, and nothing more; None: nothing is.

    The epoch is nobody's, so commits of before fail. It is of before whoever joins later.
    """
    forgotten = frozenset({"q", "m", "t", "b"})
    fence = ((Absent("o"), LessThan("o", epoch)),)
    if offset is None:
        return Update(assign={"v": FORMAT, "o": epoch}, remove=forgotten | {"c"}), fence
    return Update(assign={"v": FORMAT, "o": epoch, "c": offset}, remove=forgotten), fence


def is_reset(before: Attributes | None, epoch: int) -> bool:
    """Whether what refused a reset is that very one, whose reply was lost."""
    known = read_offset(before)
    return known.epoch == epoch and not known.owner
