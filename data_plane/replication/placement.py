"""Where the replicas of a placement group are: values, and which changes of them are safe."""

from dataclasses import dataclass
from typing import NamedTuple

INCARNATION_MARK = "@"

_UID = slice(2, 18)
"""Where a partition of messages has its queue's uid (docs/storage.md)."""


class Member(NamedTuple):
    """A cell's part in a group.

    `incarnation` names the key space that the replica has in its cell, the epoch at which it
    joined: one that comes back has another one, so that whatever stale writers left there touches
    nothing. `full` is False while it joins: it gets every write, and serves nothing.
    """

    cell: str
    incarnation: int = 0
    full: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """The members of a group in their order, as of an epoch; `since_us` is when that began.

    The first member decides every conditional write. The last full one has everything that was
    acknowledged, and nothing that is not at all full members before it.
    """

    group: str
    epoch: int
    members: tuple[Member, ...]
    since_us: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a placement that could not serve."""
        if self.epoch < 1:
            raise ValueError(f"{self.group}: epochs begin at 1, not {self.epoch}")
        if not self.members or not self.members[0].full:
            raise ValueError(f"{self.group}: the first member of a group is full")
        if len({member.cell for member in self.members}) != len(self.members):
            raise ValueError(f"{self.group}: a cell is one member of a group at most")

    @property
    def tail(self) -> int:
        """The position of the last full member."""
        return max(at for at, member in enumerate(self.members) if member.full)

    def has(self, member: Member) -> bool:
        """Whether it is a member, full or not."""
        return any(_place(other) == _place(member) for other in self.members)


def partition_of(member: Member, partition: str) -> str:
    """What a partition is called in the member's cell."""
    if not member.incarnation:
        return partition
    return f"{partition}{INCARNATION_MARK}{member.incarnation}"


def uid_of(partition: str) -> str:
    """The uid of the queue that a partition of messages belongs to; of others, anything."""
    return partition[_UID]


def check_change(before: Placement, after: Placement) -> None:
    """Raise ValueError where front ends that still have `before` could do harm.

    Members may leave, which leaves the others in their order; members may join behind all others,
    under the new epoch as their incarnation; and joining members may become full where nothing
    else changes. A cell never changes its place: two front ends would let two cells decide.
    """
    if after.group != before.group or after.epoch != before.epoch + 1:
        raise ValueError(f"{before.group}: epoch {after.epoch} does not follow {before.epoch}")
    left = [member for member in before.members if after.has(member)]
    kept = [member for member in after.members if before.has(member)]
    joined = after.members[len(kept) :]
    if [_place(member) for member in left] != [_place(member) for member in kept]:
        raise ValueError(f"{before.group}: members keep their order")
    if kept != list(after.members[: len(kept)]):
        raise ValueError(f"{before.group}: who joins comes last")
    if any(member.full or member.incarnation != after.epoch for member in joined):
        raise ValueError(f"{before.group}: who joins is not full, and has the epoch's incarnation")
    for old, new in zip(left, kept, strict=True):
        if old.full != new.full and (old.full or len(left) != len(before.members) or joined):
            raise ValueError(f"{before.group}: a member becomes full by a change of its own")


def _place(member: Member) -> tuple[str, int]:
    return member.cell, member.incarnation
