"""Reading a shard from a place on: whole slots, cut to what was asked for."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import NamedTuple

from data_plane.core.eras import Eras
from data_plane.core.limits import SMALL_BODY_BYTES_MAX
from data_plane.core.long_answers import leave_room, room_for, room_now
from data_plane.core.record import Record
from data_plane.log import ends
from data_plane.ports import Item
from data_plane.stored import keys
from data_plane.stored.data_keys import Opener
from data_plane.stored.segment import DamagedSegmentError, Unseal
from data_plane.streams import searching, tails
from data_plane.streams.bounds import LONG_TERM_US, READ_ITEMS_MAX
from data_plane.streams.desk import Access
from data_plane.streams.slots import END, PackedRecord, RecordSlot, read_slot, unpack_slot

_MS = 1_000


class Place(NamedTuple):
    """Where to read on: at `offset`, which lies in the slot that begins at `slot` (0: unknown)."""

    offset: int
    slot: int = 0


class Read(NamedTuple):
    """Records, and where to read on; None at the end of a closed shard.

    `behind_ms`: so long ago the last of them arrived, where there are more behind it; 0 if not.
    Of `long_term` ones all are older than a week, of others none.
    """

    records: list[Record]
    place: Place | None
    behind_ms: int
    long_term: bool = False


class _Page:
    """What is read so far, and how much more fits. It `has_more` where something lies behind it.

    Records up to the stamp `long_term_us` are on another page than those behind it.
    """

    def __init__(
        self, place: Place, records_max: int, bytes_max: int, eras: Eras, long_term_us: int
    ) -> None:
        self.eras = eras
        self.long_term_us = long_term_us
        self.place = place
        self.records: list[Record] = []
        self.records_max = records_max
        self.room_bytes = bytes_max
        self.ended = False
        self.has_more = False

    @property
    def room(self) -> int:
        """How many more records may come."""
        return self.records_max - len(self.records)

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits."""
        return not self.room or (bool(self.records) and self.room_bytes <= 0)

    @property
    def is_long_term(self) -> bool:
        """Whether there are records, which are that old."""
        return bool(self.records) and self.records[-1].stamp_us <= self.long_term_us

    def ends_before(self, slot: RecordSlot) -> bool:
        """Whether nothing of the next slot is to be on the page."""
        return self.is_full or (self.is_long_term and slot.stamp_us > self.long_term_us)

    def take(self, slot: RecordSlot, packed: Sequence[PackedRecord]) -> None:
        """Take the slot's records from the place on, as many as fit."""
        arrived_us = self.eras.world_us(slot.stamp_us)
        for position in range(max(0, self.place.offset - slot.number), len(packed)):
            key, data = packed[position]
            size_bytes = len(data) + len((key or "").encode())
            if self.records and (not self.room or size_bytes > self.room_bytes):
                self.place = Place(slot.number + position, slot.number)
                self.has_more = True
                return
            self.room_bytes -= size_bytes
            offset = slot.number + position
            self.records.append(Record(offset, slot.stamp_us, arrived_us, key, data))
        self.pass_over(slot)

    def pass_over(self, slot: RecordSlot) -> None:
        """Go on behind a slot."""
        self.place = Place(slot.following, slot.following)

    def wanted(self, slots: Sequence[RecordSlot]) -> list[RecordSlot]:
        """Those of the slots, which follow each other, that have what fits."""
        found: list[RecordSlot] = []
        records, size_bytes = self.room, self.room_bytes
        for slot in slots:
            if slot.kind == END or records <= 0 or size_bytes <= 0:
                break
            if found and found[0].stamp_us <= self.long_term_us < slot.stamp_us:
                break
            if slot.following > self.place.offset:
                found.append(slot)
                records -= slot.following - max(slot.number, self.place.offset)
                size_bytes -= slot.size_bytes
        return found


LookAgain = Callable[[], Awaitable[None]]
"""Finds out, once a second and for a read that waits, whether there is still what it reads."""


async def read(
    at: Access,
    place: Place,
    *,
    records_max: int,
    until_us: int,
    look_again: LookAgain | None = None,
) -> Read:
    """Up to so many records from the place on, of `desk.read_bytes_max` at most if of several.

    Waits for a first one until `until_us`. What has expired is passed over. Raises
    CellUnavailableError, and what `look_again` does.
    """
    if at.shard.was_never_open:
        return Read([], None, 0)
    while True:
        seen = at.desk.waits.signals(at.channel)
        page = await _read_now(at, place, records_max)
        now_us = at.now_us()
        if page.records or page.ended or now_us >= until_us:
            return _outcome(at, page)
        place = page.place
        leave_room()
        if not await at.desk.waits.wait_for(at.channel, seen, _next_look_us(now_us, until_us)):
            return _outcome(at, page)
        if look_again is not None:
            await look_again()


_LOOK_US = 1_000_000
"""What other front ends append is seen so much later by a read that waits."""


def _next_look_us(now_us: int, until_us: int) -> int:
    return min(until_us, now_us + _LOOK_US)


async def _read_now(at: Access, place: Place, records_max: int) -> _Page:
    long_term_us = at.log.eras.before_us(at.cell.now_us(), LONG_TERM_US)
    page = _Page(place, records_max, at.desk.read_bytes_max, at.log.eras, long_term_us)
    expired_us = horizon_us(at)
    while not (page.has_more or page.ended):
        slots, is_last = await _next(at, page)
        if slots and page.ends_before(slots[0]):
            page.ended = slots[0].kind == END
            page.has_more = not page.ended
        elif slots and slots[0].stamp_us <= expired_us:
            page.ended = slots[0].kind == END
            offset = await searching.first_since(at, expired_us + 1)
            page.place = Place(max(page.place.offset, offset))
            continue  # To the end, if all has expired: it is one, however old it is.
        elif slots:
            await _take(at, page, slots)
        if is_last and page.place.offset >= (slots[-1].following if slots else 0):
            break
    return page


async def _next(at: Access, page: _Page) -> tuple[list[RecordSlot], bool]:
    """Slots from the place on, once there is room for those wanted; whether they are the last."""
    # The place may lie within the first slot; and what lies behind the last is to be known.
    more = 2 if page.place.offset != page.place.slot else 1
    limit = min(READ_ITEMS_MAX, page.room // at.log.slot_records + more)
    items = await _items(at, page.place, limit)
    slots = [read_slot(item) for item in items]
    size_bytes = sum(slot.size_bytes for slot in page.wanted(slots))
    if not room_now(size_bytes):
        # Many may wait, and each would hold a page.
        items, slots = [], []
        await room_for(size_bytes)
        items = await _items(at, page.place, limit)
        slots = [read_slot(item) for item in items]
    if slots:
        at.log.slot_records = max(1, sum(slot.records for slot in slots) // len(slots))
    return slots, len(items) < limit and ends.is_last_page(items)


async def _items(at: Access, place: Place, limit: int) -> list[Item]:
    """Slots from the one on that has the place."""
    start = place.slot
    if not start:
        found = await searching.slot_with(at, place.offset)
        start = found.number if found is not None and found.following > place.offset else 0
        start = start or place.offset
    after = keys.be64(max(0, start - 1))
    return await at.cell.query(at.log.slots, after=after, limit=limit)


async def _take(at: Access, page: _Page, slots: Sequence[RecordSlot]) -> None:
    """Take what fits of these slots, and note where the last one is the end."""
    wanted = page.wanted(slots)
    opener = await at.data_keys.opener(wanted)
    opened = await at.desk.waits.all_of([open_slot(at, slot, opener) for slot in wanted])
    for slot, packed in zip(wanted, opened, strict=True):
        if isinstance(packed, DamagedSegmentError):
            at.desk.damaged_slots += 1  # It stays stored.
            page.pass_over(slot)
        elif isinstance(packed, Exception):
            if not page.records:
                raise packed
            page.has_more = True
        else:
            page.take(slot, packed)
        if page.has_more:
            return
    if slots[-1].kind == END and page.place.offset >= slots[-1].number:
        page.ended = True


async def open_slot(at: Access, slot: RecordSlot, opener: Opener) -> list[PackedRecord]:
    """The records of a slot. Raises DamagedSegmentError, and what the keys and bodies raise."""
    failure = opener.failure(slot)
    if failure is not None:
        raise failure
    body: bytes | None = None
    if "o" in slot.item:
        body = await at.bodies.body_of(slot.item) if at.bodies is not None else None
        if body is None:
            raise DamagedSegmentError(f"slot {slot.number} has lost its body")
    if slot.size_bytes <= SMALL_BODY_BYTES_MAX:
        return unpack_slot(slot, body, opener.unseal)
    return await at.desk.waits.in_turns(_unpacking(slot, body, opener.unseal))


def _unpacking(
    slot: RecordSlot, body: bytes | None, unseal: Unseal | None
) -> Generator[None, None, list[PackedRecord]]:
    """A mebibyte takes about a millisecond, and others have their turn before the next."""
    yield
    return unpack_slot(slot, body, unseal)


def _outcome(at: Access, page: _Page) -> Read:
    if page.ended:
        return Read(page.records, None, 0, page.is_long_term)
    last_us = page.records[-1].stamp_us if page.records else 0
    behind_ms = max(0, at.cell.now_us() - last_us) // _MS if page.has_more and last_us else 0
    return Read(page.records, page.place, behind_ms, page.is_long_term)


def horizon_us(at: Access) -> int:
    """The last stamp of what has expired."""
    by_age_us = at.log.eras.before_us(at.cell.now_us(), at.stream.retention_s * 1_000_000)
    return max(by_age_us, at.stream.expired_us)


async def place_of(at: Access, offset: int) -> Place:
    """The place of the record at an offset; of one that is not there, of what comes after it."""
    found = await searching.slot_with(at, offset)
    if found is None:
        return Place(max(offset, tails.FIRST_OFFSET))
    if offset < found.following:
        return Place(offset, found.number)
    return Place(found.following, found.following)


async def latest(at: Access) -> Place:
    """The place behind the last record that there is now."""
    offset = await tails.following(at)
    return Place(offset, offset)
