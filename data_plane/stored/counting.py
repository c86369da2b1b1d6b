"""Approximate counts from counters by time, so that no count needs a scan (docs/storage.md)."""

from collections import Counter
from collections.abc import Iterable, Mapping

from data_plane.core.message import Counts, Message
from data_plane.core.queue import Queue
from data_plane.ports import Attributes, Cell, Item, Tally
from data_plane.stored import keys, lease
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.stored.segment import number

ALIVE = b"a"
DELAYED = b"d"
IN_FLIGHT = b"f"
MINUTE_US = 60_000_000
TENTH_US = 100_000


def _tenth(time_ms: int) -> int:
    """The tenth of a second at whose beginning this time has passed."""
    return -(-time_ms * 1000 // TENTH_US)


def counted_ms(queue: Queue, message: Message) -> int:
    """When the counters of the queue have a message sent: a dead letter, after the last purge."""
    if not message.dead_letter_source:
        return message.sent_ms
    return max(message.sent_ms, queue.purged_us // 1000 + 1)


def sent(queue: Queue, stamp_us: int, delay_us: int, count: int) -> Iterable[Tally]:
    """What a send adds."""
    yield Tally(keys.counter(queue.uid, queue.purged_us, ALIVE, stamp_us // MINUTE_US), count)
    if delay_us:
        tenth = _tenth((stamp_us + delay_us) // 1000)
        yield Tally(keys.counter(queue.uid, queue.purged_us, DELAYED, tenth), count)


def leased(
    queue: Queue, before: Attributes | None, indexes: Iterable[int], visible_ms: int, now_ms: int
) -> Iterable[Tally]:
    """What new leases, or changed ones, move."""
    moved: Counter[int] = Counter()
    for index in indexes:
        moved[_tenth(visible_ms)] += visible_ms > now_ms
        _unlease(moved, before, index, now_ms)
    return _in_flight(queue, moved)


def leased_each(
    queue: Queue, before: Attributes | None, leases: Mapping[int, lease.Lease], now_ms: int
) -> Iterable[Tally]:
    """`leased`, of leases that end at different times."""
    for visible_ms in {new.visible_ms for new in leases.values()}:
        indexes = [index for index, new in leases.items() if new.visible_ms == visible_ms]
        yield from leased(queue, before, indexes, visible_ms, now_ms)


def deleted(
    queue: Queue, before: Attributes | None, sent_ms: dict[int, int], now_ms: int
) -> Iterable[Tally]:
    """What a delete takes away, each message once; `sent_ms` is by index."""
    done = before.get("d", frozenset()) if before is not None else frozenset()
    minutes: Counter[int] = Counter()
    moved: Counter[int] = Counter()
    for index, time_ms in sent_ms.items():
        if isinstance(done, frozenset) and index in done:
            continue
        if time_ms * 1000 <= queue.purged_us:
            continue
        minutes[time_ms * 1000 // MINUTE_US] -= 1
        _unlease(moved, before, index, now_ms)
    yield from _in_flight(queue, moved)
    for minute, amount in minutes.items():
        yield Tally(keys.counter(queue.uid, queue.purged_us, ALIVE, minute), amount)


def _unlease(moved: Counter[int], before: Attributes | None, index: int, now_ms: int) -> None:
    stored = before.get(f"m{index}") if before is not None else None
    if isinstance(stored, bytes) and (visible_ms := lease.visible_ms(stored)) > now_ms:
        moved[_tenth(visible_ms)] -= 1


def _in_flight(queue: Queue, moved: Counter[int]) -> Iterable[Tally]:
    for tenth, amount in moved.items():
        if amount:
            yield Tally(keys.counter(queue.uid, queue.purged_us, IN_FLIGHT, tenth), amount)


async def counts(cell: Cell, queue: Queue, now_us: int) -> Counts:
    """The queue's approximate numbers of messages."""
    oldest_minute = (now_us - queue.retention_s * 1_000_000) // MINUTE_US
    alive = await _buckets(cell, queue, ALIVE, oldest_minute)
    total = sum(number(item.attributes, "n") for item in alive)
    delayed = await _total(cell, queue, DELAYED, now_us // TENTH_US + 1)
    flying = min(await in_flight(cell, queue, now_us), max(0, total))
    delayed = min(max(0, delayed), max(0, total) - flying)
    oldest_ms = next(
        (
            keys.slice_of(item.key.sort[9:]) * (MINUTE_US // 1000)
            for item in alive
            if number(item.attributes, "n") > 0
        ),
        0,
    )
    return Counts(
        visible=max(0, total) - flying - delayed,
        in_flight=flying,
        delayed=delayed,
        oldest_sent_ms=oldest_ms,
    )


async def in_flight(cell: Cell, queue: Queue, now_us: int) -> int:
    """The queue's approximate number of messages in flight."""
    return max(0, await _total(cell, queue, IN_FLIGHT, now_us // TENTH_US + 1))


async def _total(cell: Cell, queue: Queue, kind: bytes, first_bucket: int) -> int:
    found = await _buckets(cell, queue, kind, first_bucket)
    return sum(number(item.attributes, "n") for item in found)


async def _buckets(cell: Cell, queue: Queue, kind: bytes, first_bucket: int) -> list[Item]:
    partition = keys.counters(queue.uid)
    until = keys.counter(queue.uid, queue.purged_us, kind, (1 << 64) - 1).sort
    after = keys.counter(queue.uid, queue.purged_us, kind, max(0, first_bucket - 1)).sort
    found: list[Item] = []
    while True:
        page = await cell.query(partition, after=after, until=until, limit=QUERY_PAGE)
        if not page:
            return found
        found += page
        after = page[-1].key.sort


async def drop_past(cell: Cell, queue: Queue, now_us: int) -> None:
    """Let go of buckets that no count will look at again."""
    past: list[Item] = []
    for kind in (DELAYED, IN_FLIGHT):
        past += await cell.query(
            keys.counters(queue.uid),
            after=keys.counter(queue.uid, queue.purged_us, kind, 0).sort[:-8],
            until=keys.counter(queue.uid, queue.purged_us, kind, now_us // TENTH_US - 600).sort,
            limit=QUERY_PAGE,
        )
    past += await cell.query(
        keys.counters(queue.uid),
        until=keys.counter(queue.uid, queue.purged_us, b"", 0).sort[:8],
        limit=QUERY_PAGE,
    )
    if past:
        cell.expire([item.key for item in past])
