"""Appending: one conditional put at the next slot, and what makes it count (docs/storage.md)."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from data_plane.log import ends, tails
from data_plane.log.bounds import (
    APPEND_ATTEMPTS_MAX,
    BLOCK_FULL_MESSAGES,
)
from data_plane.log.desk import Access
from data_plane.log.partition import Tail
from data_plane.log.slots import (
    END,
    PURGE,
    Slot,
    common_attributes,
    generation_after,
)
from data_plane.ports import (
    Attributes,
    CellUnavailableError,
    Key,
    Tallies,
    Value,
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
    """Store the slot behind the tail, and the page of duplicates below it where one is due.

    False where another writer was faster. Raises as `ends.put_next`.
    """
    page = partial(_write_page, at, tail, tail.last) if tail.page_due else None
    return await ends.put_next(at, at.partition, tail, attributes, tallies, page)


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
