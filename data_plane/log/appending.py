"""Appending: one conditional put at the next slot, and what makes it count (docs/storage.md)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

from data_plane.log import tails
from data_plane.log.bounds import (
    APPEND_AGE_US_MAX,
    APPEND_ATTEMPTS_MAX,
    BLOCK_FULL_MESSAGES,
)
from data_plane.log.desk import Access
from data_plane.log.partition import Tail
from data_plane.log.slots import (
    END,
    PURGE,
    START,
    Slot,
    common_attributes,
    generation_after,
    read_slot,
)
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    CellUnavailableError,
    Item,
    Key,
    Tallies,
    Value,
    Written,
    no_tallies,
)
from data_plane.stored import keys
from data_plane.stored.segment import FORMAT_VERSION

PAGE_TTL_SLACK_S = 300 + 3_600


class EndedError(CellUnavailableError):
    """The log has an end: it goes on in another generation, which the desk knows by now."""


def next_stamp_us(at: Access, tail: Tail) -> int:
    """The stamp of the next slot: above all before it, and the present if that is later."""
    return max(tail.last.stamp_us + 1, at.partition.stamp_us_min, at.cell.now_us())


def place(at: Access, tail: Tail, kind: str, nonce: bytes, stamp_us: int) -> dict[str, Value]:
    """The attributes that say where in the log the next slot is."""
    last = tail.last
    expires_s = max(last.expires_s, at.slot_ttl_s(stamp_us))
    full = last.next_index >= BLOCK_FULL_MESSAGES
    return {
        **common_attributes(kind, nonce, stamp_us, expires_s),
        "b": last.number + 1 if full else last.block,
        "i": 0 if full else last.next_index,
        "n": 0,
    }


async def put_next(
    at: Access, tail: Tail, attributes: Attributes, tallies: Tallies = no_tallies
) -> bool:
    """Store the slot behind the tail; False where another writer was faster.

    Raises CellUnavailableError; then the slot may have been stored, and whoever appends next reads
    on before.
    """
    key = at.partition.slot_key(tail.last.number + 1)
    if not _is_next(at, tail, key):
        return False
    if at.bodies is not None:
        attributes = await at.bodies.put_slot_apart(key, attributes, at.now_us())
        if not _is_next(at, tail, key):
            return False
    tail.unsure = True
    asked_us = at.cell.now_us()
    stored = await _put_beside_page(at, tail, key, attributes, tallies)
    written, record = stored
    if not written.applied and (written.before or {}).get("w") != attributes["w"]:
        return False
    came_us = written.time_ms * 1000
    if came_us >= tail.last.expires_s * 1_000_000 or came_us - tail.seen_us > APPEND_AGE_US_MAX:
        # Others may hold the slot for one that was collected.
        at.partition.tail = None
        raise CellUnavailableError("the slot was stored too late to count")
    tail.take_over(read_slot(Item(key, record)))
    tail.seen_us, tail.unsure = max(tail.seen_us, asked_us), False
    return True


def _is_next(at: Access, tail: Tail, key: Key) -> bool:
    """Whether this slot still is the next one, as far as this front end knows."""
    return (
        at.partition.tail is tail
        and not tail.unsure
        and at.partition.slot_key(tail.last.number + 1) == key
    )


async def _put_beside_page(
    at: Access, tail: Tail, key: Key, attributes: Attributes, tallies: Tallies
) -> tuple[Written, Attributes]:
    """Store the slot and, where one is due, the deduplication page of what lies below it."""
    put = _put(at, key, attributes, tallies)
    if not tail.page_due:
        return await put
    last = tail.last
    stored, page = await at.desk.waits.all_of([put, _write_page(at, tail, last)])
    if isinstance(page, Exception) and not isinstance(page, CellUnavailableError):
        raise page  # One that the cell did not take stays due.
    if isinstance(stored, Exception):
        raise stored
    return cast(tuple[Written, Attributes], stored)


async def _put(
    at: Access, key: Key, attributes: Attributes, tallies: Tallies
) -> tuple[Written, Attributes]:
    written = await at.cell.put(key, attributes, ITEM_ABSENT, tallies)
    return written, attributes


async def _write_page(at: Access, tail: Tail, last: Slot) -> None:
    await at.cell.put(
        Key(at.partition.pages, keys.be64(last.number)),
        {
            "v": FORMAT_VERSION,
            "f": tail.covered + 1,
            "t": last.stamp_us,
            "p": tail.window.purged_us,
            "z": tail.window.pack_after(tail.covered_us),
            "x": last.stamp_us // 1_000_000 + PAGE_TTL_SLACK_S,
        },
    )
    tail.page_written(last)


async def purge(partitions: Sequence[Access]) -> int:
    """Append a purge to each partition: a stamp above all that was sent before, below what follows.

    So a partition whose stamps are behind those of another one is brought forward.
    """
    stamps = [await append_record(at, PURGE) for at in partitions]
    latest_us = max(stamps)
    for at, stamp_us in zip(partitions, stamps, strict=True):
        if stamp_us < latest_us:
            await append_record(at, PURGE, {"l": latest_us}, stamp_us_min=latest_us)
    return latest_us


async def append_start(at: Access) -> int:
    """Append a record that raises `x` of all that follow to what the retention asks for."""
    return await append_record(at, START)


async def append_record(
    at: Access,
    kind: str,
    more: Mapping[str, Value] = MappingProxyType({}),
    *,
    stamp_us_min: int = 0,
) -> int:
    """Append a slot without messages: its stamp. A log that has an end stays as it is.

    What goes on behind that end is known from then on.
    """
    for _ in range(APPEND_ATTEMPTS_MAX):
        nonce = at.desk.new_token()
        tail = await tails.current(at)
        if tail.last.kind == END:
            at.desk.learn(at.queue, generation_after(tail.last))
            return tail.last.stamp_us
        stamp_us = max(next_stamp_us(at, tail), stamp_us_min)
        if await put_next(at, tail, {**place(at, tail, kind, nonce, stamp_us), **more}):
            return stamp_us
    raise CellUnavailableError("others append to the log faster than this front end")


def check_open(at: Access, tail: Tail) -> None:
    """Raises EndedError where nothing may be appended any more."""
    if tail.last.kind == END:
        at.desk.learn(at.queue, generation_after(tail.last))
        raise EndedError("the log goes on in another generation")
