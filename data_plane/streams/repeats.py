"""Calls that an SDK repeats: what is stored of one for a shard already."""

from collections.abc import Iterable, Sequence

from data_plane.core.record import Put
from data_plane.stored import keys
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.streams import tails
from data_plane.streams.bounds import REPEATS_BYTES_MAX, REPEATS_SLOTS_MAX, REPEATS_US
from data_plane.streams.desk import Access
from data_plane.streams.held_calls import StoredPart
from data_plane.streams.slots import read_slot


async def find(at: Access, call: bytes, records: int) -> list[Put]:
    """Where the first of the call's records for this shard are: as many of them as are stored.

    Looks among what this front end knows, then in the cell (docs/storage.md). Raises
    CellUnavailableError.
    """
    await tails.current(at)
    found = following((), at.log.calls.of(call))
    return found if len(found) >= records else following((), await look_back(at, call))


def following(stored: Sequence[Put], parts: Iterable[StoredPart]) -> list[Put]:
    """The records of these parts behind those that are known, without what follows a gap."""
    found: list[Put] = []
    for slot, stamp_us, part in sorted(parts, key=lambda stored: stored.part.before):
        if part.before == len(stored) + len(found):
            first = slot + part.first
            found += [Put(first + n, stamp_us) for n in range(part.records)]
    return found


async def look_back(at: Access, call: bytes) -> list[StoredPart]:
    """What the cell has of a call among its last slots. Raises CellUnavailableError."""
    found: list[StoredPart] = []
    since_us = at.cell.now_us() - REPEATS_US
    slots = size_bytes = 0
    until: bytes | None = None
    while slots < REPEATS_SLOTS_MAX and size_bytes < REPEATS_BYTES_MAX:
        items = await at.cell.query(at.log.slots, until=until, limit=QUERY_PAGE, reverse=True)
        for item in items:
            slot = read_slot(item)
            if slot.stamp_us < since_us or slot.number == 0:
                return found
            parts = [part for part in slot.calls if part.call == call]
            found += [StoredPart(slot.number, slot.stamp_us, part) for part in parts]
            if any(part.before == 0 for part in parts):
                return found
            slots += 1
            size_bytes += len(body) if isinstance(body := slot.item.get("z"), bytes) else 0
        if not items:
            return found
        until = keys.before(items[-1].key.sort)
    return found
