"""Approximate counts from counters by time, so that no count needs a scan (docs/storage.md)."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

from data_plane.core.browsing import Page
from data_plane.core.limits import DELAY_S_MAX, VISIBILITY_TIMEOUT_S_MAX
from data_plane.core.message import Counts, Message
from data_plane.core.message_rules import size_bytes
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import Attributes, Cell, Equals, Item, Key, Tally
from data_plane.stored import keys, lease
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.stored.segment import number

ALIVE = b"a"
DELAYED = b"d"
DELAYED_LONG = b"e"
IN_FLIGHT = b"f"
IN_FLIGHT_LONG = b"g"
DEAD = b"h"
DEAD_IN_FLIGHT = b"i"
DEAD_IN_FLIGHT_LONG = b"j"
MINUTE_US = 60_000_000
TENTH_US = 100_000
SETTLED_US: Final = 2 * MINUTE_US
"""Counters of minutes before that are not added to any more, but by dead letters."""

_PAGES_MAX: Final = 4
_STORED_PAGE: Final = 1_000
"""Counters of a day are 1,440."""
_PASSING: Final = (
    (DELAYED, TENTH_US),
    (DELAYED_LONG, MINUTE_US),
    (IN_FLIGHT, TENTH_US),
    (IN_FLIGHT_LONG, MINUTE_US),
)
"""Counters whose buckets pass by, and how long one is."""
_PASSING_OF_KINESIS: Final = (
    *_PASSING[2:],
    (DEAD_IN_FLIGHT, TENTH_US),
    (DEAD_IN_FLIGHT_LONG, MINUTE_US),
)
"""Likewise, of queues of the Kinesis API, which delay nothing."""
_LASTING = ((ALIVE, MINUTE_US), (DEAD, MINUTE_US))
"""Likewise, those that count until the retention is over."""
_KEPT_US: Final = 86_400_000_000
_KIND = slice(8, 9)
_BUCKET = slice(9, None)

_Bucket = tuple[bytes, int]
"""Kind of a counter, and which."""

_SIZE = "y"
"""Attribute of counters of messages sent: their bytes."""


class Gone(NamedTuple):
    """A message that is deleted: when counters have it sent, and how big it was (0: unknown)."""

    sent_ms: int
    size_bytes: int


def _delayed(stamp_us: int, delay_us: int) -> _Bucket:
    """The counter of messages that are delayed so."""
    visible_us = (stamp_us + delay_us) // 1000 * 1000
    if delay_us > DELAY_S_MAX * 1_000_000:
        return DELAYED_LONG, -(-visible_us // MINUTE_US)
    return DELAYED, -(-visible_us // TENTH_US)


def _flying(
    held: lease.Lease, kind: bytes = IN_FLIGHT, long_kind: bytes = IN_FLIGHT_LONG
) -> _Bucket:
    """The counter of messages with such a lease."""
    if held.visible_ms - held.leased_ms > VISIBILITY_TIMEOUT_S_MAX * 1000:
        return long_kind, -(-held.visible_ms * 1000 // MINUTE_US)
    return kind, -(-held.visible_ms * 1000 // TENTH_US)


def is_lasting(counter: Key) -> bool:
    """Whether what this counter lacks stays wrong until the messages' retention is over.

    What others lack is right again when the time of their bucket has come: a delay or a visibility.
    """
    return counter.sort[_KIND] in dict(_LASTING)


def counted_ms(queue: Queue, message: Message) -> int:
    """When the counters of the queue have a message sent: a dead letter, after the last purge."""
    if not message.dead_letter_source:
        return message.sent_ms
    return max(message.sent_ms, queue.purged_us // 1000 + 1)


def gone(queue: Queue, message: Message) -> Gone:
    """What a delete of this message takes away."""
    return Gone(counted_ms(queue, message), size_bytes(message.body, message.attributes))


def gone_by(handles: Iterable[ReceiptHandle]) -> dict[int, Gone]:
    """What deletes with these handles of one block take away, by index."""
    return {handle.index: Gone(handle.sent_ms, handle.size_bytes) for handle in handles}


def sent(
    queue: Queue, stamp_us: int, delay_us: int, count: int, size_bytes: int
) -> Iterable[Tally]:
    """What a send of so many messages, of this size together, adds."""
    minute = keys.counter(queue.uid, queue.purged_us, ALIVE, stamp_us // MINUTE_US)
    yield Tally(minute, count)
    yield Tally(minute, size_bytes, _SIZE)
    if delay_us:
        kind, bucket = _delayed(stamp_us, delay_us)
        yield Tally(keys.counter(queue.uid, queue.purged_us, kind, bucket), count)


def leased(
    queue: Queue, before: Attributes | None, leases: Mapping[int, lease.Lease], now_ms: int
) -> Iterable[Tally]:
    """What new leases, or changed ones, move."""
    moved: Counter[_Bucket] = Counter()
    for index, new in leases.items():
        moved[_flying(new)] += new.visible_ms > now_ms
        _unlease(moved, before, index, now_ms)
    return _moved(queue, moved)


def doomed(
    queue: Queue,
    before: Attributes | None,
    changes: Iterable[tuple[int, int, lease.Lease | None]],
    now_ms: int,
) -> Iterable[Tally]:
    """What becomes of dead letters of a queue of the Kinesis API, and of records that will be some.

    Of each record its index, when it was sent, and its new lease (None: it is acknowledged).
    """
    moved: Counter[_Bucket] = Counter()
    done = _done(before)
    for index, sent_ms, new in changes:
        if index in done:
            continue
        for held, amount in ((_lease_of(before, index), -1), (new, 1)):
            if held is not None and held.is_of_dead:
                moved[DEAD, sent_ms * 1000 // MINUTE_US] += amount
                if held.visible_ms > now_ms:
                    moved[_flying(held, DEAD_IN_FLIGHT, DEAD_IN_FLIGHT_LONG)] += amount
    return _moved(queue, moved)


def deleted(
    queue: Queue, before: Attributes | None, gone: Mapping[int, Gone], now_ms: int
) -> Iterable[Tally]:
    """What a delete takes away, each message once; `gone` is by index."""
    done = _done(before)
    minutes: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    moved: Counter[_Bucket] = Counter()
    for index, one in gone.items():
        if index in done:
            continue
        # A stream's records may have been put in the millisecond in which the queue began.
        sent_us = one.sent_ms * 1000 + (999 if queue.reads_stream else 0)
        if sent_us <= queue.purged_us:
            continue
        minute = one.sent_ms * 1000 // MINUTE_US
        minutes[minute] -= 1
        sizes[minute] -= one.size_bytes
        _unlease(moved, before, index, now_ms)
    yield from _moved(queue, moved)
    for minute, amount in minutes.items():
        key = keys.counter(queue.uid, queue.purged_us, ALIVE, minute)
        yield Tally(key, amount)
        yield Tally(key, sizes[minute], _SIZE)


def _unlease(moved: Counter[_Bucket], before: Attributes | None, index: int, now_ms: int) -> None:
    stored = before.get(f"m{index}") if before is not None else None
    if isinstance(stored, bytes) and lease.visible_ms(stored) > now_ms:
        moved[_flying(lease.from_bytes(stored))] -= 1


def _done(state: Attributes | None) -> frozenset[int]:
    done = state.get("d") if state is not None else None
    return done if isinstance(done, frozenset) else frozenset()


def _lease_of(state: Attributes | None, index: int) -> lease.Lease | None:
    stored = state.get(f"m{index}") if state is not None else None
    return lease.from_bytes(stored) if isinstance(stored, bytes) else None


def _moved(queue: Queue, moved: Counter[_Bucket]) -> Iterable[Tally]:
    for (kind, bucket), amount in moved.items():
        if amount:
            yield Tally(keys.counter(queue.uid, queue.purged_us, kind, bucket), amount)


async def counts(cell: Cell, queue: Queue, now_us: int, records: int | None = None) -> Counts:
    """The queue's approximate numbers of messages.

    Of a queue over a stream, which has so many `records`, counters know what was deleted alone.
    Dead letters that stay in their queue are visible in none of the others.
    """
    oldest_minute = cell.eras.before_us(now_us, queue.retention_s * 1_000_000) // MINUTE_US
    alive = await _buckets(cell, queue, (ALIVE, oldest_minute), ALIVE)
    if records is None:
        total = sum(_amount(item) for item in alive)
    else:
        total = max(0, records + sum(number(item.attributes, "n") for item in alive))
    delayed = await _total(cell, queue, DELAYED, DELAYED_LONG, now_us)
    flying = min(await in_flight(cell, queue, now_us), total)
    delayed = min(delayed, total - flying)
    dead = await _dead(cell, queue, oldest_minute, now_us) if queue.is_kinesis else 0
    dead = min(dead, total - flying - delayed)
    oldest_ms = next(
        (
            cell.eras.world_ms(keys.slice_of(item.key.sort[_BUCKET]) * (MINUTE_US // 1000))
            for item in alive
            if _amount(item)
        ),
        0,
    )
    return Counts(
        visible=total - flying - delayed - dead,
        in_flight=flying,
        delayed=delayed,
        oldest_sent_ms=oldest_ms,
        dead=dead,
    )


async def _dead(cell: Cell, queue: Queue, oldest_minute: int, now_us: int) -> int:
    """Dead letters that are visible to who asks for them."""
    minutes = await _buckets(cell, queue, (DEAD, oldest_minute), DEAD)
    flying = await _total(cell, queue, DEAD_IN_FLIGHT, DEAD_IN_FLIGHT_LONG, now_us)
    return max(0, sum(_amount(item) for item in minutes) - flying)


async def stored_bytes(cell: Cell, queue: Queue, since_us: int) -> dict[int, int]:
    """What the queue's messages take as limits and bills count them, by minute of sending.

    Of those that were sent since then and are not deleted; minutes without any are left out.
    """
    first = (ALIVE, since_us // MINUTE_US)
    minutes = await _buckets(cell, queue, first, ALIVE, roughly=True)
    return {
        keys.slice_of(item.key.sort[_BUCKET]): size
        for item in minutes
        if _amount(item) and isinstance(size := item.attributes.get(_SIZE), int) and size > 0
    }


async def in_flight(cell: Cell, queue: Queue, now_us: int) -> int:
    """The queue's approximate number of messages in flight."""
    return await _total(cell, queue, IN_FLIGHT, IN_FLIGHT_LONG, now_us)


async def _total(cell: Cell, queue: Queue, kind: bytes, long_kind: bytes, now_us: int) -> int:
    """The sum of the counters of both kinds whose time is to come: one range, as they adjoin."""
    total = 0
    for item in await _buckets(cell, queue, (kind, now_us // TENTH_US + 1), long_kind):
        is_past = (
            item.key.sort[_KIND] == long_kind
            and keys.slice_of(item.key.sort[_BUCKET]) * MINUTE_US <= now_us
        )
        total += 0 if is_past else _amount(item)
    return total


def _amount(counter: Item) -> int:
    """What a counter says. One below 0 lacks what a copy was not told; others are right."""
    return max(0, number(counter.attributes, "n"))


async def _buckets(
    cell: Cell, queue: Queue, first: _Bucket, last_kind: bytes, *, roughly: bool = False
) -> list[Item]:
    """Counters from `first` on, to the last of a kind; `roughly`: many at a time, a moment old."""
    page_items = _STORED_PAGE if roughly else QUERY_PAGE
    partition = keys.counters(queue.uid)
    kind, first_bucket = first
    until = keys.counter(queue.uid, queue.purged_us, last_kind, (1 << 64) - 1).sort
    after = keys.counter(queue.uid, queue.purged_us, kind, max(0, first_bucket - 1)).sort
    found: list[Item] = []
    while True:
        page = await cell.query(
            partition, after=after, until=until, limit=page_items, strong=not roughly
        )
        if not page:
            return found
        found += page
        after = page[-1].key.sort


async def drop_past(cell: Cell, queue: Queue, now_us: int) -> None:
    """Let go of buckets that no count will look at again, some at a time.

    Minutes of messages stay for a day after their retention, which may be raised meanwhile.
    """
    past: list[Item] = []
    passed = (now_us - MINUTE_US, _PASSING_OF_KINESIS if queue.is_kinesis else _PASSING)
    kept_us = queue.retention_s * 1_000_000 + _KEPT_US
    expired = (max(0, cell.eras.before_us(now_us, kept_us)), _LASTING)
    for gone_us, kinds in (passed, expired):
        for kind, length_us in kinds:
            past += await cell.query(
                keys.counters(queue.uid),
                after=keys.counter(queue.uid, queue.purged_us, kind, 0).sort[:-8],
                until=keys.counter(queue.uid, queue.purged_us, kind, gone_us // length_us).sort,
                limit=QUERY_PAGE,
            )
    past += await cell.query(
        keys.counters(queue.uid),
        until=keys.counter(queue.uid, queue.purged_us, b"", 0).sort[:8],
        limit=QUERY_PAGE,
    )
    if past:
        cell.expire([item.key for item in past])


async def settle(
    cell: Cell, queue: Queue, now_us: int, page_at: Callable[[bytes], Awaitable[Page]]
) -> None:
    """Where no message lies in a queue, let go of what its counters say of settled minutes.

    A copy that joined, or came back, may lack what was counted meanwhile; without this it would be
    wrong until the retention is over. `page_at` browses.
    """
    last = keys.counter(queue.uid, queue.purged_us, ALIVE, (now_us - SETTLED_US) // MINUTE_US)
    before_all = keys.counter(queue.uid, queue.purged_us, ALIVE, 0).sort[:-8]
    counted = await cell.query(last.partition, after=before_all, until=last.sort, limit=QUERY_PAGE)
    if not counted:
        return
    position = b""
    for _page in range(_PAGES_MAX):
        page = await page_at(position)
        if page.messages:
            return
        position = page.next_position
        if not position:
            break
    else:
        return
    for item in counted:
        # One that changed meanwhile is right about a dead letter that came.
        await cell.delete(item.key, ((Equals("n", number(item.attributes, "n")),),))
