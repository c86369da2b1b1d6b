"""A new store, filled with items from elsewhere."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import lmdb

from data_plane.embedded.encoding import ERAS_KEY, PRESENT_KEY, time_to_live_s
from data_plane.embedded.store import CellOpenError, Store, StoreSizes

_COMMIT_BYTES: Final = 4 * 1024 * 1024
_ITEM_BYTES: Final = 16 * 1024
"""What an item costs besides its value, generously: copies of tree pages."""


def fill(
    directory: Path,
    items: Iterable[tuple[bytes, bytes | None]],
    present_us: int,
    eras: bytes | None = None,
) -> int:
    """Store items (stored key, MessagePack map) in a new directory; answers how many it was given.

    An item takes the place of one before under its key, None removes that. Later stamps are above
    `present_us`; `eras` say what the world's time was by then.
    Raises CellOpenError, also where there is no room.
    """
    records = {PRESENT_KEY: present_us.to_bytes(8, "big")}
    if eras is not None:
        records[ERAS_KEY] = eras
    store = Store(directory, StoreSizes())
    stored, waiting, size_bytes = 0, list[tuple[bytes, bytes | None]](), 0
    try:
        for item in items:
            waiting.append(item)
            size_bytes += len(item[1] or b"") + _ITEM_BYTES
            if size_bytes > _COMMIT_BYTES:
                stored += _commit(store, directory, waiting, records, size_bytes)
                waiting, size_bytes = [], 0
        return stored + _commit(store, directory, waiting, records, size_bytes)
    except (lmdb.Error, OSError) as error:
        raise CellOpenError(f"cannot write to {directory}: {error}") from error
    finally:
        store.close()


def _commit(
    store: Store,
    directory: Path,
    items: list[tuple[bytes, bytes | None]],
    records: dict[bytes, bytes],
    size_bytes: int,
) -> int:
    txn, room_bytes = store.begin()
    if room_bytes < 2 * max(size_bytes, _COMMIT_BYTES):
        txn.abort()
        raise CellOpenError(f"the disk of {directory} is full")
    for key, value in items:
        if value is None:
            before = txn.pop(key)
        else:
            stored = store.bodies.split(txn, key, value, time_to_live_s)
            before = txn.replace(key, stored)
        store.bodies.drop(txn, key, before)
    for key, value in records.items():
        txn.put(key, value)
    txn.commit()
    store.renew()
    return len(items)
