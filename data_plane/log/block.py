"""What a front end remembers of a block of a log, and of its messages that are not done."""

from typing import NamedTuple

from data_plane.log.slots import Slot


class Block:
    """A block's state as last seen, and those of its messages that are not done."""

    __slots__ = (
        "apart",
        "checked_us",
        "cut",
        "done",
        "first",
        "kept",
        "last",
        "leases",
        "moves",
        "pending",
        "total",
        "upto",
    )

    def __init__(self, first: int) -> None:
        self.first = first
        self.last = first
        self.kept = False
        self.apart: list[str] = []
        self.leases: dict[int, bytes] = {}
        self.moves: dict[int, str] = {}
        self.done: set[int] = set()
        self.pending: dict[int, Pending] = {}
        self.total: int | None = None
        self.upto = 0
        self.cut = False
        self.checked_us = 0

    @property
    def touched(self) -> bool:
        """Whether the block is known to have a state, or to have had one."""
        return bool(self.leases or self.done)


class Pending:
    """A message that is not done: its place, its group, and whether a receive has taken it."""

    __slots__ = ("block", "done", "group", "index", "key", "position", "slot", "stamp_us", "taken")

    def __init__(self, slot: Slot, block: Block, position: int) -> None:
        self.slot = slot.number
        self.key = slot.key
        self.position = position
        self.index = slot.first + position
        self.stamp_us = slot.stamp_us
        self.group = slot.messages[position].group
        self.block = block
        self.taken = False
        self.done = False


class Finished(NamedTuple):
    """A block of which nothing is needed from `due_us` on: first and last slot, names of blobs."""

    due_us: int
    first: int
    last: int
    apart: tuple[str, ...]
