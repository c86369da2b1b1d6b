"""What one front end remembers of what is to be read of a partition: groups of messages not done.

Everything here is a cache of the cell's items; exclusivity rests on the conditions of writes alone,
and order on the fact that what is done never becomes undone (docs/storage.md, "Block state"). It is
bounded by SCAN_MESSAGES_MAX, whatever lies behind.
"""

import heapq
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Container, Iterable, Sequence
from itertools import islice

from data_plane.core.eras import ONE_TIME, Eras
from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.log.block import Block, Finished, Pending
from data_plane.log.bounds import (
    ASIDE_MS,
    BLOCK_FULL_MESSAGES,
    COLLECT_AFTER_US,
    FOREIGN_LEASE_GUARD_MS,
    RANGE_SLOTS_MIN,
    RANGES_LOOKED_AT_MAX,
    RANGES_MAX,
)
from data_plane.log.held_slots import Held, HeldSlots
from data_plane.log.ready import Ready
from data_plane.log.slots import END, MESSAGES, Slot
from data_plane.log.sources import Piece
from data_plane.ports import Attributes, Key
from data_plane.stored import lease
from data_plane.stored.segment import LoadedSegment
from data_plane.stored.shelf import Shelf
from data_plane.stored.superfluous import is_emptied

NEVER_MS = 1 << 62
DUE_ENTRIES_MAX = 20_000


class Reader:
    """See the module's docstring. No method awaits: each is one step for everyone else.

    Where it `keeps` its log, that of a stream, no block is collected when all of it is done.
    Bodies that are at hand count on the `shelf`.
    """

    def __init__(
        self,
        writer: bytes,
        eras: Eras = ONE_TIME,
        *,
        keeps: bool = False,
        shelf: Shelf | None = None,
    ) -> None:
        self.writer = writer
        self.eras = eras
        self.keeps = keeps
        self.opened = False
        self.cursor = self.read_us = self.low_written = 0
        self.low_doubted: int | None = None
        self.ranges: list[tuple[int, int]] = []
        self.passed_messages = self.pending_count = self.groups_gone = 0
        self.refreshed_us = self.looked_us = self.looked_behind = self.delay_s = 0
        self.end: Slot | None = None
        self.behind_earlier: set[bytes] = set()
        self.earlier_seen: list[tuple[Reader, int]] = []
        self.blocks: OrderedDict[int, Block] = OrderedDict()
        self.block_read: Block | None = None
        self.open_slots: OrderedDict[int, list[Pending]] = OrderedDict()
        self.groups: dict[bytes, deque[Pending]] = {}
        self.aside: dict[bytes, int] = {}
        self.ready = Ready()
        self.ready_dead = Ready()
        self.due: list[tuple[int, bytes]] = []
        self.finished: deque[Finished] = deque()
        self.held = HeldSlots(shelf or Shelf())

    # Reading on

    def start_at(self, low: int, ranges: list[tuple[int, int]]) -> None:
        """Begin to read behind the low-water mark, and pass over what is done above it."""
        self.opened = True
        self.cursor = self.low_written = low
        self.ranges = ranges

    def pass_over(self, low: int, ranges: list[tuple[int, int]]) -> None:
        """Leave out, of what was not read yet, what others have found done meanwhile."""
        self.low_written = max(self.low_written, low)
        self.ranges = [(0, low), *ranges]

    def skip(self) -> int:
        """The slot behind which to read on: the cursor, or the end of what is done behind it."""
        return self._passed(self.cursor + 1)

    def _passed(self, slot: int) -> int:
        """The cursor, behind the range of what is done that this slot lies in, if there is one."""
        place = bisect_right(self.ranges, (slot, NEVER_MS)) - 1
        if place >= 0 and self.ranges[place][1] >= max(slot, self.cursor + 1):
            self.cursor = self.ranges[place][1]
            if self.block_read is not None:
                self.block_read.cut = True
                self._leave(self.block_read, 0)
        return self.cursor

    def wants_state(self, slot: Slot) -> bool:
        """Whether the state of the slot's block is not known yet."""
        return slot.kind == MESSAGES and slot.block not in self.blocks

    def absorb(
        self,
        queue: Queue,
        slots: Iterable[Slot],
        states: dict[int, Attributes],
        asked_us: int,
        collected: Container[int] = (),
    ) -> None:
        """Take over slots that were not read before, with the states of blocks new to this one.

        Blocks that were `collected` since their slots were read have nothing to deliver.
        """
        for slot in slots:
            if slot.number <= self._passed(slot.number):
                continue
            self.cursor = slot.number
            if slot.kind == END:
                self.end = slot
            elif slot.kind == MESSAGES and slot.block not in collected:
                self._absorb(queue, slot, states.get(slot.block), asked_us)

    def _absorb(self, queue: Queue, slot: Slot, state: Attributes | None, asked_us: int) -> None:
        block = self.blocks.get(slot.block)
        if block is None:
            block = self.blocks[slot.block] = Block(slot.block)
            self.learn(block, state, asked_us)
        block.last, block.upto, block.cut = slot.number, slot.next_index, False
        self.block_read = block
        block.kept = block.kept or self.keeps or "j" in slot.item
        if "o" in slot.item:
            block.apart.append(str(slot.item["o"]))
        if slot.next_index >= BLOCK_FULL_MESSAGES:
            block.total = slot.next_index
        over = is_over(queue, slot.stamp_us, asked_us, self.eras) or is_emptied(slot.item)
        opened: list[Pending] = []
        for position in range(len(slot.messages)):
            message = Pending(slot, block, position)
            if over or message.index in block.done:
                self.passed_messages += 1
                continue
            block.pending[message.index] = message
            opened.append(message)
            group = self.groups.get(message.group)
            if group is None:
                group = self.groups[message.group] = deque()
            group.append(message)
            if len(group) == 1:
                self.offer(message.group)
        if opened:
            self.pending_count += len(opened)
            self.open_slots[slot.number] = opened
            self.held.add(slot.number, self.held_as(slot.number, slot.key, slot.item, slot.opened))
        else:
            self._leave(block, asked_us)

    def held_as(
        self, slot: int, key: Key, item: Attributes, opened: Sequence[Message] | None = None
    ) -> Held:
        """A slot's bodies in memory, as they are stored if they are not `opened`."""
        return Piece(slot, key, item, opened) if self.keeps else LoadedSegment(key, item)

    # States of blocks

    def learn(
        self, block: Block, state: Attributes | None, asked_us: int, *, touched: bool = False
    ) -> None:
        """Take over a state that was asked for then. Done stays done; receive counts only grow.

        A block that was `touched` before, and has no state now, was collected: all of it is done.
        """
        block.checked_us = max(block.checked_us, asked_us)
        if state is None and touched:
            self.gone(block, list(block.pending), asked_us)
            block.checked_us = 0  # The rest may be on its way here: it is looked for then.
        for name, value in (state or {}).items():
            if name == "d" and isinstance(value, frozenset):
                self.gone(block, value - block.done, asked_us)
            elif name[0] == "m" and isinstance(value, bytes):
                index = int(name[1:])
                if block.leases.get(index) != value:
                    move = (state or {}).get(f"q{index}", "")
                    self.learn_lease(block, index, value, str(move))
            elif name == "f" and isinstance(value, int):
                block.total = value
            elif name == "k":
                block.kept = True

    def learn_lease(self, block: Block, index: int, stored: bytes, move: str = "") -> None:
        """A lease that was read, or that a write put there; `move` was begun with it ("": none)."""
        if index in block.done:
            return
        known = block.leases.get(index)
        if known is None or lease.receive_count(known) <= lease.receive_count(stored):
            block.leases[index] = stored
            if move:
                block.moves[index] = move
            else:
                block.moves.pop(index, None)
            message = block.pending.get(index)
            if message is not None:
                self.offer(message.group)

    def gone(self, block: Block, indexes: Iterable[int], now_us: int) -> None:
        """The block's state says that these messages are done: deleted, or moved elsewhere."""
        for index in indexes:
            block.done.add(index)
            block.leases.pop(index, None)
            block.moves.pop(index, None)
            self._pass(block, index)
        self._leave(block, now_us)

    def _pass(self, block: Block, index: int) -> None:
        """There is nothing to deliver of this message any more."""
        message = block.pending.pop(index, None)
        if message is None:
            return
        message.done = True
        self.pending_count -= 1
        self.passed_messages += 1
        opened = self.open_slots.get(message.slot)
        # From the end: what is done lies at the front mostly.
        if opened is not None and all(one.done for one in reversed(opened)):
            del self.open_slots[message.slot]
            self.held.done(message.slot)
        group = self.groups.get(message.group)
        while group and group[0].done:
            group.popleft()
        if group:
            self.offer(message.group)
        elif group is not None:
            del self.groups[message.group]
            self.aside.pop(message.group, None)
            self.groups_gone += 1

    def vanished(self, message: Pending) -> None:
        """The message's slot is no more: it was collected, so the message is done or expired."""
        self._pass(message.block, message.index)

    def _leave(self, block: Block, now_us: int) -> None:
        """Forget a block of which nothing is pending, once all of it was read."""
        is_read = block.total is not None and block.upto >= block.total
        if block.pending or not (is_read or block.cut):
            return
        if self.blocks.get(block.first) is not block:
            return
        del self.blocks[block.first]
        if is_read and len(block.done) == block.total and not block.kept:
            due_us = now_us + COLLECT_AFTER_US
            self.finished.append(Finished(due_us, block.first, block.last, tuple(block.apart)))

    # Delivering

    def offer(self, group: bytes) -> None:
        """The group may have a message to deliver.

        Groups that were received before, or put aside, go behind the others, so that one which
        comes back again and again keeps none waiting (recorded from AWS).
        """
        waiting = self.groups.get(group)
        if not waiting:
            return
        first = waiting[0]
        stored = first.block.leases.get(first.index)
        ready = self.ready_dead if stored is not None and lease.is_of_dead(stored) else self.ready
        if group not in ready:
            leased_ms = lease.from_bytes(stored).leased_ms if stored is not None else 0
            last_ms = max(leased_ms, self.aside.get(group, 0))
            ready.push((last_ms, first.slot, first.position), group, self.groups)

    def _due_at(self, free_ms: int, group: bytes) -> None:
        heapq.heappush(self.due, (free_ms, group))
        if len(self.due) > DUE_ENTRIES_MAX + 2 * len(self.groups):
            # What comes later for a group is looked up again when its first entry is due.
            first: dict[bytes, int] = {}
            for due_ms, waiting in self.due:
                if waiting in self.groups:
                    first[waiting] = min(due_ms, first.get(waiting, due_ms))
            self.due = sorted((due_ms, waiting) for waiting, due_ms in first.items())

    def next_due_ms(self) -> int:
        """When the next blocked group may have a message to deliver."""
        return self.due[0][0] if self.due else NEVER_MS

    def expire(self, queue: Queue, now_us: int) -> None:
        """What is expired or purged is done; it lies at the front."""
        while self.open_slots:
            opened = next(iter(self.open_slots.values()))
            if not is_over(queue, opened[0].stamp_us, now_us, self.eras):
                return
            for message in opened:
                self._pass(message.block, message.index)
            self._leave(opened[0].block, now_us)

    @property
    def is_drained(self) -> bool:
        """Whether nothing will ever be delivered from here any more."""
        return self.end is not None and not self.groups

    def take(
        self, queue: Queue, count: int, now_us: int, earlier: Sequence["Reader"] = ()
    ) -> list[Pending]:
        """Take up to `count` messages that may be claimed, group by group, in their order.

        Groups wait for what they have in `earlier` generations.
        """
        self._look_again(queue, now_us, earlier)
        now_ms = now_us // 1000
        taken = self._take_ready(queue, count, now_ms, earlier, across=not self.keeps)
        if self.keeps and len(taken) < count:
            # What a group has in one block costs one write: the rest where there is nothing else.
            self.put_back(taken)
            return self._take_ready(queue, count, now_ms, earlier, across=True)
        return taken

    def _look_again(self, queue: Queue, now_us: int, earlier: Sequence["Reader"]) -> None:
        """Offer the groups that may have something to deliver by now."""
        now_ms = now_us // 1000
        self.expire(queue, now_us)
        if queue.delay_s != self.delay_s:
            # A change of a FIFO queue's delay holds for what is there, too.
            self.delay_s = queue.delay_s
            for group in self.groups:
                self.offer(group)
        while self.due and self.due[0][0] <= now_ms:
            self.offer(heapq.heappop(self.due)[1])
        seen = [(reader, reader.groups_gone) for reader in earlier]
        if self.behind_earlier and seen != self.earlier_seen:
            waiting, self.behind_earlier = self.behind_earlier, set()
            for group in waiting:
                self.offer(group)
        self.earlier_seen = seen

    def _take_ready(
        self, queue: Queue, count: int, now_ms: int, earlier: Sequence["Reader"], *, across: bool
    ) -> list[Pending]:
        """Take of the groups that are ready, `across` blocks or from one block of each group."""
        taken: list[Pending] = []
        ready = self.ready_dead if queue.of_dead else self.ready
        while ready and len(taken) < count:
            group = ready.pop()
            if any(group in reader.groups for reader in earlier):
                self.behind_earlier.add(group)
                continue
            taken += self._take_of(queue, group, count - len(taken), now_ms, across=across)
        return taken

    def claimable(
        self, queue: Queue, count: int, now_us: int, earlier: Sequence["Reader"] = ()
    ) -> int:
        """How many messages `take` would take, `count` at most, but those that did not open."""
        self._look_again(queue, now_us, earlier)
        taken = self._take_ready(queue, count, now_us // 1000, earlier, across=True)
        self.put_back(taken)
        return len([message for message in taken if message.group not in self.aside])

    def _take_of(
        self, queue: Queue, group: bytes, count: int, now_ms: int, *, across: bool
    ) -> list[Pending]:
        """The messages at the front of a group that may be claimed."""
        taken: list[Pending] = []
        for message in self.groups.get(group, ()):
            if message.done:
                continue
            if message.taken or len(taken) == count:
                break
            if taken and not across and message.block is not taken[0].block:
                break
            if self.keeps and not is_seen_by(queue, message):
                self.offer(group)  # to the others
                break
            free_ms = max(self.free_ms(queue, message), self._passed_until_ms(group, now_ms))
            if free_ms > now_ms:
                self._due_at(free_ms, group)
                break
            taken.append(message)
        for message in taken:
            message.taken = True
        return taken

    def _passed_until_ms(self, group: bytes, now_ms: int) -> int:
        """Until when others may pass the group; 0 where they no longer may."""
        since_ms = self.aside.get(group)
        if since_ms is None or not 0 <= now_ms - since_ms < ASIDE_MS:
            return 0
        return since_ms + ASIDE_MS

    def free_ms(self, queue: Queue, message: Pending) -> int:
        """When the message's own delay and lease allow to claim it."""
        stored = message.block.leases.get(message.index)
        if stored is None and self.keeps and not queue.delay_s:
            return 0  # Stamps of a new shard may be a second ahead, and others read them already.
        if stored is None:
            return message.stamp_us // 1000 + queue.delay_s * 1000
        return lease.from_bytes(stored).free_ms(self.writer, FOREIGN_LEASE_GUARD_MS)

    def put_aside(self, slots: Iterable[int], now_ms: int) -> None:
        """What these slots have does not open: others pass the groups that it is first in.

        Until it does, other groups come first, and what is not read yet.
        """
        for slot in slots:
            for message in self.open_slots.get(slot, ()):
                if self._is_first(message):
                    self.aside[message.group] = now_ms

    def note_opened(self, message: Pending) -> None:
        """The message does open."""
        if self.aside and self._is_first(message):
            self.aside.pop(message.group, None)

    def _is_first(self, message: Pending) -> bool:
        return not message.done and self.groups[message.group][0] is message

    def let_back(self) -> bool:
        """Offer the groups that were put aside again; whether there are any."""
        waiting, self.aside = self.aside, {}
        for group in waiting:
            self.offer(group)
        return bool(waiting)

    def put_back(self, messages: Iterable[Pending]) -> None:
        """A receive is through with these, leased or not: others look at their groups again."""
        for message in messages:
            message.taken = False
            self.offer(message.group)

    # The low-water mark

    @property
    def low(self) -> int:
        """Every message at or below this slot is done."""
        if self.open_slots:
            return next(iter(self.open_slots)) - 1
        # Who starts afresh must find the end.
        return self.cursor if self.end is None else self.end.number - 1

    def closed_ranges(self) -> list[tuple[int, int]]:
        """Ranges of slots above the low-water mark without a message that is not done."""
        closed: list[tuple[int, int]] = []
        before = self.low
        opened = list(islice(self.open_slots, RANGES_LOOKED_AT_MAX))
        if len(opened) == len(self.open_slots):
            opened.append(self.cursor + 1 if self.end is None else self.end.number)
        for slot in opened:
            if slot - before > RANGE_SLOTS_MIN:
                closed.append((before + 1, slot - 1))
                if len(closed) == RANGES_MAX:
                    break
            before = slot
        return closed


def is_seen_by(queue: Queue, message: Pending) -> bool:
    """Whether it is one of those that are received so: dead letters of Kinesis are apart."""
    stored = message.block.leases.get(message.index)
    return (stored is not None and lease.is_of_dead(stored)) == queue.of_dead


def is_over(queue: Queue, stamp_us: int, now_us: int, eras: Eras) -> bool:
    """Whether a message of this stamp is expired or purged."""
    is_old = eras.between_us(stamp_us, now_us) >= queue.retention_s * 1_000_000
    return is_old or stamp_us <= max(queue.purged_us, queue.expired_us)
