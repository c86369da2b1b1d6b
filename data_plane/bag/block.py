"""A block and its segments as one front end knows them."""

from collections.abc import Iterable
from typing import NamedTuple

from data_plane.bag.bounds import OVERTAKEN_US_MAX, PUT_BEHIND_RECEIVES, READY_AGE_US_MAX
from data_plane.ports import Attributes, Key
from data_plane.stored import lease
from data_plane.stored.segment import LoadedSegment

READY, TAKEN, LEASED, GONE = range(4)
"""A message as this front end sees it: to be handed out, being handed out, in flight, done."""

NEVER_MS = 1 << 62


class Block:
    """A block's state as last seen, and the status of those of its messages that were met."""

    __slots__ = (
        "checked_us",
        "entries",
        "first_of",
        "id",
        "leases",
        "leases_asked_us",
        "marked_ms",
        "marked_us",
        "moves",
        "segments",
        "sizes",
        "slices",
        "status",
        "tags",
        "total",
        "touched",
    )

    def __init__(self, block_id: bytes) -> None:
        self.id = block_id
        self.status: dict[int, int] = {}
        self.leases: dict[int, bytes] = {}
        self.leases_asked_us: dict[int, int] = {}
        self.moves: dict[int, str] = {}
        self.first_of: dict[int, int] = {}
        self.slices: dict[int, int] = {}
        self.segments: dict[int, LoadedSegment] = {}
        self.sizes: dict[int, int] = {}
        self.tags: dict[int, bytes] = {}
        self.total: int | None = None
        self.touched = False
        self.entries = 0
        self.marked_ms = NEVER_MS
        self.marked_us = 0
        self.checked_us = 0

    def is_old(self, now_us: int) -> bool:
        """Whether the block may be finished, or even collected, and this front end not know it."""
        return not 0 <= now_us - self.checked_us <= READY_AGE_US_MAX

    def hold(self, segment: LoadedSegment) -> None:
        """Have a segment at hand; how big its messages are is known from then on."""
        self.segments[segment.first] = segment
        self.sizes[segment.first] = segment.size_bytes // segment.count

    def size_bytes(self, index: int) -> int:
        """About how big a message is, as far as its segment was met."""
        return self.sizes.get(self.first_of[index], 0)

    def learn(self, state: Attributes | None, asked_us: int) -> None:
        """Take over a state that was asked for then; statuses are settled by `Lane.settle`.

        Answers may overtake each other. A lease never vanishes but into `d`, and its count only
        grows: what is known beyond the answer is newer and stays. Where what was known is old, a
        late delete may have written the state anew of a block that was collected, and knows of no
        other deletes: so its segments are forgotten, and read again before they are delivered.
        """
        if self.is_old(asked_us):
            self.segments = {}
        if state is None:
            # If it had one, the block was collected, or the answer is older than the first lease.
            # The segments tell: they are read again before anything of it is delivered.
            self.checked_us = 0 if self.touched else asked_us
            return
        self.touched = True
        self.checked_us = asked_us
        for name, value in state.items():
            if name == "d" and isinstance(value, frozenset):
                for index in value:
                    self.status[index] = GONE
                    self.forget_lease(index)
            elif name[0] == "m" and isinstance(value, bytes):
                index = int(name[1:])
                if self.learn_lease(index, value, asked_us):
                    self.note_move(index, str(state.get(f"q{index}") or ""))
            elif name[0] == "s" and isinstance(value, bytes):
                self.slices[int(name[1:])] = int.from_bytes(value, "big")
            elif name == "f" and isinstance(value, int):
                self.total = value

    def learn_lease(self, index: int, stored: bytes, asked_us: int) -> bool:
        """Take over a lease that was asked for, or written, then; whether it is the one that holds.

        Its count only grows. Of two with the same count the one that was asked for later is newer,
        but one that was asked for earlier may be, too: a write of others came in between. Of those
        the one holds that ends first. If it is the wrong one, a write is refused, and tells; the
        other wrong one would hide the message.
        """
        known = self.leases.get(index)
        if known is not None and known != stored:
            count = lease.receive_count(stored)
            if count < lease.receive_count(known):
                return False
            is_overtaken = 0 < self.leases_asked_us.get(index, 0) - asked_us <= OVERTAKEN_US_MAX
            if (
                is_overtaken
                and count == lease.receive_count(known)
                and lease.visible_ms(known) <= lease.visible_ms(stored)
            ):
                return False
        self.first_of[index] = lease.from_bytes(stored).first
        self.leases[index] = stored
        self.leases_asked_us[index] = asked_us
        return True

    def forget_lease(self, index: int) -> None:
        """The message is gone."""
        self.leases.pop(index, None)
        self.leases_asked_us.pop(index, None)
        self.moves.pop(index, None)

    def is_put_behind(self, index: int) -> bool:
        """Whether the message came back so often that it queues behind what was visible before."""
        stored = self.leases.get(index)
        return stored is not None and lease.receive_count(stored) >= PUT_BEHIND_RECEIVES

    def note_move(self, index: int, move: str) -> None:
        """With this lease a move was begun ("": none, or it was given up)."""
        if move:
            self.moves[index] = move
        else:
            self.moves.pop(index, None)


class Entry:
    """An item of the window: its key, and which of its messages were not done when last seen."""

    __slots__ = ("block", "open", "size", "sort")

    def __init__(self, sort: bytes, block: Block, indexes: Iterable[int]) -> None:
        self.sort = sort
        self.block = block
        self.open = set(indexes)
        self.size = len(self.open)


class Finished(NamedTuple):
    """Items of a block that nobody needs from `due_us` on, and segments with their bodies apart."""

    due_us: int
    unneeded: tuple[Key, ...]
    apart: tuple[Key, ...] = ()
