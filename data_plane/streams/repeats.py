"""Calls that an SDK repeats: what is stored of one in a shard already.

Which records of a call a shard has depends on what was open when they were put: so each is known by
its position in the call.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from data_plane.core.record import Put
from data_plane.stored import keys
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.streams import tails
from data_plane.streams.bounds import REPEATS_BYTES_MAX, REPEATS_SLOTS_MAX, REPEATS_US
from data_plane.streams.desk import Access
from data_plane.streams.held_calls import StoredPart
from data_plane.streams.slots import read_slot


async def find(at: Access, call: bytes, wanted: AbstractSet[int]) -> dict[int, Put]:
    """Where the records at these positions of the call are, of those that the shard has.

    Looks among what this front end knows, then in the cell (docs/storage.md). Raises
    CellUnavailableError.
    """
    await tails.current(at)
    found = among(at.log.calls.of(call), wanted)
    return found if len(found) == len(wanted) else await look_back(at, call, wanted)


def among(parts: Iterable[StoredPart], wanted: AbstractSet[int]) -> dict[int, Put]:
    """Where these parts have the records at these positions."""
    return {position: put for part in parts for position, put in part.puts() if position in wanted}


async def look_back(at: Access, call: bytes, wanted: AbstractSet[int]) -> dict[int, Put]:
    """What the cell has of a call among its last slots. Raises CellUnavailableError."""
    found: dict[int, Put] = {}
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
            found |= among((StoredPart(slot.number, slot.stamp_us, part) for part in parts), wanted)
            if len(found) == len(wanted):
                return found
            slots += 1
            size_bytes += len(body) if isinstance(body := slot.item.get("z"), bytes) else 0
        if not items:
            return found
        until = keys.before(items[-1].key.sort)
    return found
