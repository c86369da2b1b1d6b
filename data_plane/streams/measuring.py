"""How much lies in a shard, by the running totals of two slots (docs/storage.md)."""

from dataclasses import dataclass
from typing import Final

from data_plane.stored import keys
from data_plane.streams import reading, searching
from data_plane.streams.desk import Access
from data_plane.streams.slots import RecordSlot, read_slot

EXPIRED_EVERY_US: Final = 600_000_000
"""So much later is what has expired looked for again: of a day's records 0.7 %."""


@dataclass(slots=True)
class Measured:
    """What is known of a shard: bytes of all that came, and of what had `gone` by its time.

    By the stamp `horizon_us` that is. `looked_us` is for who looks.
    """

    looked_us: int = 0
    came_bytes: int = 0
    gone_bytes: int = 0
    horizon_us: int = 0

    @property
    def stored_bytes(self) -> int:
        """What has not expired."""
        # Totals may have begun anew meanwhile.
        gone_bytes = self.gone_bytes if self.gone_bytes <= self.came_bytes else 0
        return self.came_bytes - gone_bytes


async def look(at: Access, known: Measured) -> None:
    """Read the last slot, and where that is due look for the first one that has not expired.

    One query, and two more or a search. Raises CellUnavailableError; then all is as it was.
    """
    items = await at.cell.query(at.log.slots, limit=1, reverse=True, strong=False)
    last = read_slot(items[0]) if items else None
    horizon_us = reading.horizon_us(at)
    came_bytes = (last.total_bytes if last is not None else None) or 0
    if last is None or last.stamp_us <= horizon_us:
        known.gone_bytes, known.horizon_us = came_bytes, horizon_us
    elif not 0 <= horizon_us - known.horizon_us < EXPIRED_EVERY_US:
        known.gone_bytes = await _below(at, horizon_us)
        known.horizon_us = horizon_us
    known.came_bytes = came_bytes


async def _below(at: Access, horizon_us: int) -> int:
    """The bytes of all records below the first one that has not expired."""
    first = await _slot_behind(at, 0)
    if first is not None and first.stamp_us <= horizon_us:
        first = await _slot_behind(at, await searching.first_since(at, horizon_us + 1) - 1)
    return first.bytes_below if first is not None else 0


async def _slot_behind(at: Access, offset: int) -> RecordSlot | None:
    """The first slot that begins behind an offset."""
    items = await at.cell.query(at.log.slots, after=keys.be64(offset), limit=1, strong=False)
    return read_slot(items[0]) if items else None
