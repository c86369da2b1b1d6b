"""What one front end remembers of a lane: a cursor, a bounded window behind it, and no more.

Everything here is a cache of the cell's items (docs/storage.md); exclusivity rests on the
conditions of writes alone. The window holds, in key order, the items that were read and are not
*covered* yet. An item is covered when each of its messages is gone (deleted, expired, purged) or
leased with a marker of its block ahead of the cursor; the low-water mark follows the covered ones.
"""

import heapq
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping

from data_plane.bag.block import GONE, LEASED, NEVER_MS, READY, TAKEN, Block, Entry, Finished
from data_plane.bag.bounds import (
    ASIDE_LOOK_EVERY_US,
    BLOCK_FULL_MESSAGES,
    DUE_ENTRIES_MAX,
    FOREIGN_LEASE_GUARD_MS,
    IDLE_BLOCKS_MAX,
    LOW_WATER_MESSAGES,
    WINDOW_ENTRIES_MAX,
    WINDOW_MESSAGES_MAX,
)
from data_plane.bag.held_segments import HeldSegments
from data_plane.bag.shut_keys import ShutKeys
from data_plane.core.eras import ONE_TIME, Eras
from data_plane.core.queue import Queue
from data_plane.ports import Attributes, Item, Key
from data_plane.stored import keys, lease
from data_plane.stored.segment import LoadedSegment, group_tags, number, octets
from data_plane.stored.shelf import Shelf
from data_plane.stored.superfluous import is_emptied


class Lane:
    """See the module's docstring. No method awaits: each is one step for everyone else."""

    def __init__(
        self,
        queue: Queue,
        writer: bytes,
        number: int = 0,
        eras: Eras = ONE_TIME,
        shelf: Shelf | None = None,
    ) -> None:
        self.eras = eras
        self.uid = uid = queue.uid
        self.cell = queue.cell
        self.number = number
        self.epoch = 0
        self.writer = writer
        self.segments = keys.segments(uid, self.number, self.epoch)
        self.states = keys.states(uid, self.number, self.epoch)
        self.low_water_key = keys.low_water(uid, self.number, self.epoch)
        self.upkeep_under_way = False
        self.is_aside: Callable[[bytes], bool] | None = None
        self.lanes_told = 0
        self.low_known = b""
        self.low_doubted: int | None = None
        self.open_block = b""
        self.next_index = BLOCK_FULL_MESSAGES
        self.opened = False
        self.passed = b""
        self.settled = b""
        self.unsettled: set[bytes] = set()
        self.looked_again_at = b""
        self.low_written = b""
        self.passed_messages = 0
        self.passed_items = 0
        self.cursor = b""
        self.window: deque[Entry] = deque()
        self.window_messages = 0
        self.held = HeldSegments(shelf or Shelf())
        self.window_gone = 0
        self.blocks: dict[bytes, Block] = {}
        self.idle: OrderedDict[bytes, Block] = OrderedDict()
        self.ready: list[tuple[int, int, Block, int]] = []
        self.aside: list[tuple[int, int, Block, int]] = []
        self.aside_looked_us = 0
        self.shut = ShutKeys()
        self.readied = 0
        self.read_until_us = 0
        self.due: list[tuple[int, bytes, int]] = []
        self.finished: deque[Finished] = deque()
        self.messages_per_item = 1.0
        self.last_page_was_barren = False

    # Reading

    @property
    def low(self) -> bytes:
        """The low-water mark: what is passed, as far as it is settled."""
        return min(self.passed, self.settled)

    def start_at(self, low: bytes) -> None:
        """Begin to read behind the durable low-water mark."""
        self.opened = True
        self.passed = self.settled = self.low_written = low
        self.cursor = max(self.cursor, low)

    def settle_to(self, settled: bytes) -> None:
        """All that counts up to this key was read."""
        self.settled = max(self.settled, settled)
        self.unsettled = {sort for sort in self.unsettled if sort > self.settled}

    def known(self, block_id: bytes) -> Block | None:
        """The block, if this front end remembers it."""
        return self.blocks.get(block_id) or self.idle.get(block_id)

    def _block(self, block_id: bytes, state: Attributes | None, now_us: int) -> Block:
        block = self.blocks.get(block_id)
        if block is not None:
            return block
        block = self.idle.pop(block_id, None)
        if block is None:
            block = Block(block_id)
            block.learn(state, now_us)
        self.blocks[block_id] = block
        return block

    def absorb(
        self, queue: Queue, items: list[Item], found: dict[Key, Attributes], now_us: int
    ) -> None:
        """Take over items that were not read before, with the states of their blocks.

        `found` has the segments that late markers among them announce, too.
        """
        ready_before = len(self.ready)
        for item in items:
            sort, attributes = item.key.sort, item.attributes
            kind = attributes["k"]
            if kind in {"s", "m", "l"}:
                block_id = octets(attributes, "b")
                state = found.get(Key(self.states, block_id))
                block = self._block(block_id, state, now_us)
                if kind == "s":
                    self._absorb_segment(queue, item, sort, block, now_us)
                elif kind == "m":
                    self._absorb_marker(sort, block, state, now_us)
                else:
                    late = Key(self.segments, octets(attributes, "s"))
                    announced = found.get(late)
                    if announced is None:
                        self._enter(Entry(sort, block, ()))
                    else:
                        self._absorb_segment(queue, Item(late, announced), sort, block, now_us)
            elif kind == "n":
                self.lanes_told = max(self.lanes_told, number(attributes, "l"))
            self.unsettled.add(sort)
            self.cursor = max(self.cursor, sort)
        self.last_page_was_barren = bool(items) and len(self.ready) == ready_before
        self.advance()

    def _absorb_segment(
        self, queue: Queue, item: Item, sort: bytes, block: Block, now_us: int
    ) -> None:
        """Take over a segment that was met under the key `sort`, its own or a late marker's."""
        segment = LoadedSegment(item.key, item.attributes)
        self.messages_per_item += (segment.count - self.messages_per_item) / 8
        if is_over(queue, segment, now_us, self.eras) or is_emptied(segment.item):
            self._enter(Entry(sort, block, ()))
            return
        self.held.add(block, segment)
        block.slices[segment.first] = keys.slice_of(item.key.sort)
        full = item.attributes.get("f")
        if isinstance(full, int):
            block.total = full
        indexes = range(segment.first, segment.first + segment.count)
        if self.is_aside is not None:
            block.tags.update(zip(indexes, group_tags(item.attributes), strict=False))
        for index in indexes:
            block.first_of[index] = segment.first
            self.settle(block, index, now_us // 1000)
        self._enter(Entry(sort, block, [i for i in indexes if block.status[i] != GONE]))

    def _absorb_marker(
        self, sort: bytes, block: Block, state: Attributes | None, now_us: int
    ) -> None:
        block.learn(state, now_us)
        block.marked_ms = NEVER_MS
        # A lease that was only changed, from here or as this copy was told, says nothing of where
        # its message lies: it is met at its segment, if it is not gone.
        leased = [index for index in block.leases if block.first_of.get(index) in block.slices]
        for index in leased:
            self.settle(block, index, now_us // 1000)
        self._enter(Entry(sort, block, [i for i in leased if block.status[i] != GONE]))

    def _enter(self, entry: Entry) -> None:
        if self.window and entry.sort < self.window[-1].sort:
            insort(self.window, entry, key=lambda known: known.sort)
        else:
            self.window.append(entry)
        if entry.sort <= self.passed:
            self.passed = keys.before(entry.sort)
        self.window_messages += entry.size
        entry.block.entries += 1

    def settle(self, block: Block, index: int, now_ms: int) -> None:
        """Bring the status of a message in line with its lease as last seen."""
        status = block.status.get(index)
        if status in (GONE, TAKEN):
            return
        free_ms = self._free_ms(block, index)
        if free_ms > now_ms:
            block.status[index] = LEASED
            self._push_due(free_ms, block.id, index)
        elif status != READY:
            block.status[index] = READY
            visible_us = block.slices[block.first_of[index]]
            if block.is_put_behind(index):
                visible_us = (free_ms or now_ms) * 1000
            self.readied += 1
            heapq.heappush(self.ready, (visible_us, self.readied, block, index))

    def _free_ms(self, block: Block, index: int) -> int:
        """When the message is to be had, by the lease that is known; 0: at once."""
        stored = block.leases.get(index)
        if stored is None:
            return 0
        return lease.from_bytes(stored).free_ms(self.writer, FOREIGN_LEASE_GUARD_MS)

    def _push_due(self, free_ms: int, block_id: bytes, index: int) -> None:
        heapq.heappush(self.due, (free_ms, block_id, index))
        if len(self.due) > DUE_ENTRIES_MAX:
            # Long visibility timeouts and quick deletes leave mostly entries that mean nothing.
            self.due = [
                entry
                for entry in set(self.due)
                if (block := self.blocks.get(entry[1])) and block.status.get(entry[2]) == LEASED
            ]
            heapq.heapify(self.due)

    def ripen(self, now_ms: int) -> None:
        """Make ready what is due by now."""
        while self.due and self.due[0][0] <= now_ms:
            _, block_id, index = heapq.heappop(self.due)
            block = self.blocks.get(block_id)
            if block is not None and block.status.get(index) == LEASED:
                self.settle(block, index, now_ms)

    def next_due_ms(self) -> int:
        """When the next message in the window may become visible again."""
        return self.due[0][0] if self.due else NEVER_MS

    def take(
        self, queue: Queue, count: int, now_us: int, until_us: int
    ) -> list[tuple[Block, list[int]]]:
        """Take up to `count` ready messages for a delivery, by block.

        In the order in which they first became visible, but for those that were put behind, and
        none later than `until_us`: what is still to be read may have been visible before.
        Messages that others should pass are put aside, and those whose keys were not to be had.
        """
        self.ripen(now_us // 1000)
        self._let_back(now_us)
        taken: dict[Block, list[int]] = {}
        put_aside = False
        while self.ready and count and self.ready[0][0] <= until_us:
            entry = heapq.heappop(self.ready)
            block, index = entry[2:]
            if self._is_to_pass(block, index):
                heapq.heappush(self.aside, entry)
                put_aside = True
            elif self._take_one(queue, block, index, now_us):
                taken.setdefault(block, []).append(index)
                count -= 1
        if put_aside and not taken:
            self.last_page_was_barren = True
        return list(taken.items())

    def take_aside(
        self, queue: Queue, count: int, now_us: int, *, shut: bool
    ) -> list[tuple[Block, list[int]]]:
        """Take up to `count` of the messages that were put aside, by block; of `shut` keys, too."""
        taken, left = dict[Block, list[int]](), []
        while self.aside and count:
            *_, block, index = entry = heapq.heappop(self.aside)
            if not shut and self.shut.keep(block, index):
                left.append(entry)
            elif self._take_one(queue, block, index, now_us):
                taken.setdefault(block, []).append(index)
                count -= 1
        self.aside = sorted(self.aside + left) if left else self.aside
        return list(taken.items())

    def _let_back(self, now_us: int) -> None:
        """Make ready again what need not let others pass any more."""
        if 0 <= now_us - self.aside_looked_us < ASIDE_LOOK_EVERY_US:
            return
        self.aside_looked_us = now_us
        self.shut.try_one()
        entries, self.aside = self.aside, []
        for entry in entries:
            heap = self.aside if self._is_to_pass(entry[2], entry[3]) else self.ready
            heapq.heappush(heap, entry)

    def _is_to_pass(self, block: Block, index: int) -> bool:
        tag = block.tags.get(index)
        is_aside = tag is not None and self.is_aside is not None and self.is_aside(tag)
        return is_aside or self.shut.keep(block, index)

    def _take_one(self, queue: Queue, block: Block, index: int, now_us: int) -> bool:
        if block.status.get(index) != READY:
            return False
        segment = block.segments.get(block.first_of[index])
        if segment is not None and is_over(queue, segment, now_us, self.eras):
            self.gone(block, (index,))
            return False
        if self._free_ms(block, index) > now_us // 1000:
            # Another front end holds it, as was learnt with others of the block.
            self.settle(block, index, now_us // 1000)
            return False
        block.status[index] = TAKEN
        return True

    def has_room(self) -> bool:
        """Whether the window may grow by messages that are put aside."""
        return (
            len(self.window) * 2 < WINDOW_ENTRIES_MAX
            and self.window_messages * 2 < WINDOW_MESSAGES_MAX
        )

    def progress_us(self) -> int:
        """The slice up to which all messages were handed out, but those put aside."""
        while self.ready and self.ready[0][2].status.get(self.ready[0][3]) != READY:
            heapq.heappop(self.ready)
        first_us = self.ready[0][0] - 1 if self.ready else self.read_until_us
        return min(first_us, self.read_until_us)  # What is put behind may stand beyond it.

    def put_back(self, block: Block, indexes: Iterable[int], now_ms: int) -> None:
        """Give up what was taken; what others lease meanwhile is seen as leased."""
        for index in indexes:
            if block.status.get(index) == TAKEN:
                block.status[index] = LEASED
                self.settle(block, index, now_ms)

    def leased(self, block: Block, leases: dict[int, bytes], asked_us: int) -> None:
        """Leases that this front end wrote then took effect, on messages it has not met, too."""
        block.checked_us = asked_us
        block.touched = True
        for index, stored in leases.items():
            block.learn_lease(index, stored, asked_us)
            if block.status.get(index, GONE) != GONE:
                block.status[index] = LEASED
                self.settle(block, index, asked_us // 1000)
        self._unload(block)

    def _unload(self, block: Block) -> None:
        needed = {
            block.first_of.get(index)
            for index, status in block.status.items()
            if status in (READY, TAKEN)
        }
        if len(needed) < len(block.segments):
            block.segments = {f: s for f, s in block.segments.items() if f in needed}

    def gone(self, block: Block, indexes: Iterable[int]) -> None:
        """These messages are done with: deleted, expired, purged."""
        for index in indexes:
            if block.status.get(index, GONE) != GONE and block.entries:
                self.window_gone += 1
            block.status[index] = GONE
            block.forget_lease(index)

    # The window

    def advance(self) -> None:
        """Let the covered items at the front of the window go, and move the low-water mark."""
        while self.window:
            entry = self.window[0]
            self._prune(entry)
            if entry.open:
                return
            self._pass_front()
        self.passed = self.cursor

    def _prune(self, entry: Entry) -> None:
        status = entry.block.status
        while entry.open:
            index = next(iter(entry.open))
            if status.get(index, GONE) != GONE:
                return
            entry.open.discard(index)

    def _pass_front(self) -> None:
        entry = self.window.popleft()
        self.passed = entry.sort
        self.passed_messages += entry.size
        self.passed_items += 1
        self.window_messages -= entry.size
        self.window_gone -= entry.size - len(entry.open)
        block = entry.block
        block.entries -= 1
        if block.entries == 0:
            del self.blocks[block.id]
            self.idle[block.id] = block
            if len(self.idle) > IDLE_BLOCKS_MAX:
                self.idle.popitem(last=False)

    def overflowing(self) -> bool:
        """Whether items at the front of the window should leave it under a marker.

        So that a message which stays in flight does not keep a reader that starts afresh among
        those that were deleted behind it, nor the window growing.
        """
        return (
            self.window_gone >= LOW_WATER_MESSAGES
            or len(self.window) > WINDOW_ENTRIES_MAX
            or self.window_messages > WINDOW_MESSAGES_MAX
        )

    def unmarked(self, most: int) -> dict[bytes, int]:
        """Blocks at the front of the window that need a marker to leave it, and its time in ms."""
        wanted: dict[bytes, int] = {}
        gone = 0
        for entry in self.window:
            self._prune_all(entry)
            gone += entry.size - len(entry.open)
            block = entry.block
            if any(block.status[index] != LEASED for index in entry.open):
                break
            due_ms = min(
                (
                    lease.visible_ms(stored)
                    for index, stored in block.leases.items()
                    if block.status.get(index) == LEASED
                ),
                default=NEVER_MS,
            )
            if entry.open and due_ms < self._covered_from_ms(block):
                wanted[block.id] = due_ms
            if len(wanted) == most or gone == self.window_gone > 0:
                break
        return wanted

    def marked(self, block: Block, due_ms: int, slice_us: int) -> None:
        """A marker of the block for `due_ms` was stored at this slice."""
        if due_ms < self._covered_from_ms(block):
            block.marked_ms, block.marked_us = due_ms, slice_us

    def _covered_from_ms(self, block: Block) -> int:
        """Leases that end from then on are covered by a marker, which is still to be read.

        One that a purge or an expiry has let this reader skip covers nothing.
        """
        ahead = block.marked_us > (keys.slice_of(self.cursor) if self.cursor else 0)
        return block.marked_ms if ahead else NEVER_MS

    def covered(self, most: int) -> list[bytes]:
        """Blocks at the front of the window that `cover` would let go while messages are open."""
        found: dict[bytes, None] = {}
        for entry in self.window:
            self._prune_all(entry)
            if not all(self._is_covered(entry.block, index) for index in entry.open):
                break
            if entry.open:
                found[entry.block.id] = None
            if len(found) == most:
                break
        return list(found)

    def cover(self, shared: Mapping[bytes, Attributes] | None = None) -> None:
        """Let go of the items at the front that are gone or that markers cover.

        Only as far as something gone lies behind them, or while the window overflows. With `shared`
        only what these states, which all members know, lead back to.
        """
        while self.window and (self.window_gone > 0 or self.overflowing()):
            entry = self.window[0]
            self._prune_all(entry)
            if not all(self._is_covered(entry.block, index) for index in entry.open):
                return
            if shared is not None and not _leads_back(entry, shared.get(entry.block.id, {})):
                return
            self._pass_front()
        self.advance()

    def _prune_all(self, entry: Entry) -> None:
        status = entry.block.status
        entry.open = {index for index in entry.open if status.get(index, GONE) != GONE}

    def _is_covered(self, block: Block, index: int) -> bool:
        status = block.status.get(index, GONE)
        if status == LEASED:
            return lease.visible_ms(block.leases[index]) >= self._covered_from_ms(block)
        return status == GONE


def _leads_back(entry: Entry, state: Attributes) -> bool:
    """Whether who has only this state and a marker finds the open messages of an item again."""
    first_of = entry.block.first_of
    return all(f"m{index}" in state and f"s{first_of.get(index)}" in state for index in entry.open)


def is_over(queue: Queue, segment: LoadedSegment, now_us: int, eras: Eras) -> bool:
    """Whether the messages of this segment are expired or purged."""
    age_us = eras.between_us(segment.sent_us, now_us)
    return segment.stamp_us <= queue.purged_us or age_us >= queue.retention_s * 1_000_000
