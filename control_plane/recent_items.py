"""Items of the registry as they were a moment ago: what caches of front ends are filled from.

Whoever decides by what is stored, or writes, asks the cell itself.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from control_plane.last_known import REFRESH_AFTER_US
from data_plane.ports import Attributes, Cell, Clock, Key


class Recent(NamedTuple):
    """Items by their keys, absent ones missing, as the cell had them at `asked_us` or later."""

    items: Mapping[Key, Attributes]
    asked_us: int


class RecentItems(Protocol):
    """Where recent items are read. Raises CellUnavailableError.

    What was read is read anew after `refresh_after_us`.
    """

    @property
    def refresh_after_us(self) -> int:
        """Of this front end; less than FRESH_US_MAX."""
        ...

    async def recent(self, keys: Sequence[Key]) -> Recent:
        """Up to 100 items."""
        ...


class FromCell:
    """Recent items straight from the cell: as they are now."""

    refresh_after_us = REFRESH_AFTER_US

    def __init__(self, cell: Cell, clock: Clock) -> None:
        self._cell = cell
        self._clock = clock

    async def recent(self, keys: Sequence[Key]) -> Recent:
        """Up to 100 items."""
        asked_us = self._clock.now_us()
        return Recent(await read_items(self._cell, keys), asked_us)


async def read_items(cell: Cell, keys: Sequence[Key]) -> dict[Key, Attributes]:
    """Up to 100 items as they are stored now; absent ones are missing."""
    if len(keys) != 1:
        return await cell.get_many(keys)
    item = await cell.get(keys[0])
    return {} if item is None else {keys[0]: item}
