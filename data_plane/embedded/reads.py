"""Reads from a snapshot of the store: they take microseconds and run on the event loop's thread."""

from collections.abc import Iterable
from typing import Final

import lmdb

from data_plane.embedded.encoding import (
    COUNTERS,
    SEGMENTS,
    decode_item,
    encode_key,
    partition_prefix,
)
from data_plane.embedded.store import Store
from data_plane.ports import Attributes, CellUnavailableError, DamagedItemError, Item, Key, Value

PAGE_BYTES: Final = 1024 * 1024

_LEFT_OUT: Final = (SEGMENTS, COUNTERS)
"""Ranges without their damaged items are of use, and no promise is broken by them: a message of a
standard queue that is missing holds up none, and counts are approximate."""


def read_many(store: Store, keys: Iterable[Key]) -> dict[Key, Attributes]:
    """Those of the items that exist. Raises CellUnavailableError where the store is damaged."""
    found: dict[Key, Attributes] = {}
    try:
        for key in keys:
            stored_key = encode_key(key)
            stored = store.snapshot.get(stored_key)
            if stored is not None:
                found[key] = _item(store, stored_key, stored)[0]
            elif store.damaged and store.damaged.may_have(stored_key):
                raise DamagedItemError("an item that may have been this one is damaged")
    except lmdb.Error as error:
        raise CellUnavailableError(f"a read failed: {error}") from error
    return found


def _item(store: Store, stored_key: bytes, stored: bytes) -> tuple[dict[str, Value], int]:
    """The item and its bytes; one that is damaged is told. Raises DamagedItemError."""
    try:
        value = store.bodies.join(store.snapshot, stored_key, stored)
        return decode_item(value), len(value)
    except DamagedItemError:
        store.damaged.add(stored_key)
        raise


def read_range(  # noqa: PLR0913 - a range has that many sides
    store: Store,
    partition: str,
    after: bytes,
    until: bytes | None,
    limit: int,
    *,
    reverse: bool,
) -> list[Item]:
    """Items of the range in order, at most `limit`, ending after the one past 1 MiB.

    Raises CellUnavailableError where the store is damaged.
    """
    try:
        return _read_range(store, partition, after, until, limit, reverse=reverse)
    except lmdb.Error as error:
        raise CellUnavailableError(f"a read failed: {error}") from error


def read_partitions(store: Store, after: str, limit: int) -> list[str]:
    """Names of partitions that have items, in order, those behind `after`, at most `limit`.

    Raises CellUnavailableError where the store is damaged.
    """
    found: list[str] = []
    # What is no item has a key that begins with a byte below these.
    low = after.encode() + b"\x01" if after else b"\x02"
    try:
        with store.snapshot.cursor() as cursor:
            while len(found) < limit and cursor.set_range(low):
                name, _, _ = bytes(cursor.key()).partition(b"\0")
                found.append(name.decode())
                low = name + b"\x01"
    except lmdb.Error as error:
        raise CellUnavailableError(f"a read failed: {error}") from error
    return found


def _read_range(  # noqa: PLR0913 - as above
    store: Store,
    partition: str,
    after: bytes,
    until: bytes | None,
    limit: int,
    *,
    reverse: bool,
) -> list[Item]:
    prefix = partition_prefix(partition)
    is_left_out = prefix.startswith(_LEFT_OUT)
    if store.damaged and not is_left_out and store.damaged.touch(prefix):
        raise DamagedItemError("an item that may have been in this range is damaged")
    low = prefix + after
    page: list[Item] = []
    size_bytes = 0
    with store.snapshot.cursor() as cursor:
        if reverse:
            found = _seek_last(cursor, prefix, until)
            step = cursor.prev
        else:
            found = cursor.set_range(low)
            if found and cursor.key() == low:
                found = cursor.next()
            step = cursor.next
        high = None if until is None else prefix + until
        while found:
            key = bytes(cursor.key())
            if not key.startswith(prefix) or key <= low or (high is not None and key > high):
                break
            try:
                attributes, value_bytes = _item(store, key, cursor.value())
            except DamagedItemError:
                if not is_left_out:
                    raise
            else:
                page.append(Item(Key(partition, key[len(prefix) :]), attributes))
                size_bytes += len(key) + value_bytes
            if len(page) == limit or size_bytes > PAGE_BYTES:
                break
            found = step()
    return page


def _seek_last(cursor: lmdb.Cursor, prefix: bytes, until: bytes | None) -> bool:
    """Go to the last item at or below `until`, or of the whole partition."""
    bound = prefix[:-1] + b"\x01" if until is None else prefix + until
    found: bool
    if not cursor.set_range(bound):
        found = cursor.last()
    elif until is not None and cursor.key() == bound:
        found = True
    else:
        found = cursor.prev()
    return found
