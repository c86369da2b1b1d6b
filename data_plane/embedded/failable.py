"""An embedded cell that can be failed and brought back while the process runs.

For cells that others have copies of: what a lost disk does, without losing one.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from data_plane.core.cell_clock import eras_of
from data_plane.core.dropping import Dropped, Superfluous
from data_plane.core.eras import Eras
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.copying import CellCopy
from data_plane.embedded.counters import CellCounters
from data_plane.embedded.standing import OpenFile
from data_plane.embedded.store import StoreRoom
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    Attributes,
    CellUnavailableError,
    Clock,
    Condition,
    Item,
    Key,
    Tallies,
    Update,
    Written,
    no_tallies,
)

_NOBODYS: Final = CellCounters()


class FailableCell:
    """Implements `data_plane.ports.Cell`; `reopen` opens the directory.

    While it has failed, `reason` says why, every call raises CellUnavailableError, and the
    directory is closed. `cell` is the one that is open. Without one it begins as failed.
    """

    def __init__(
        self,
        reopen: Callable[[], EmbeddedCell],
        clock: Clock,
        cell: EmbeddedCell | None,
        reason: str = "",
    ) -> None:
        self._reopen = reopen
        self._clock = clock
        self.cell = cell
        self._reason = reason

    @property
    def reason(self) -> str:
        """Why it answers nothing; "" while it may answer."""
        return self._reason if self.cell is None else self.cell.failure

    async def fail(self, reason: str) -> None:
        """Answer nothing any more, from now on; what is under way ends first."""
        cell, self.cell, self._reason = self.cell, None, reason
        if cell is not None:
            await cell.close()

    def opened_anew(self) -> EmbeddedCell:
        """What is in the directory, for who looks before it answers. Raises CellOpenError, OSError.

        Only while it has failed.
        """
        return self._reopen()

    def restore(self, cell: EmbeddedCell | None = None) -> None:
        """Answer again: with what was opened anew, or is now. Raises CellOpenError, OSError."""
        if self.cell is None:
            self.cell = cell or self._reopen()

    async def close(self) -> None:
        """Finish what is queued, then let go of the directory."""
        await self.fail("the cell is closed")

    @property
    def chooses_stamps(self) -> bool:
        """As an embedded cell, also while it has failed."""
        return True

    @property
    def eras(self) -> Eras:
        """Those of the clock, also while the cell has failed."""
        return eras_of(self._clock)

    def settled_us(self) -> int:
        """As the cell; the clock's present while there is none."""
        return self.now_us()

    def now_us(self) -> int:
        """As the cell; the clock's present while there is none."""
        return self._clock.now_us() if self.cell is None else self.cell.now_us()

    async def append(self, record: Append) -> Appended:
        """As the cell."""
        return await self._open().append(record)

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """As the cell."""
        return await self._open().put(key, attributes, condition, tallies)

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """As the cell."""
        return await self._open().update(key, change, condition, tallies)

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """As the cell."""
        return await self._open().delete(key, condition, tallies)

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        """As the cell."""
        return await self._open().get(key, strong=strong)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """As the cell."""
        return await self._open().get_many(keys, strong=strong)

    async def query(  # noqa: PLR0913 - a range has that many sides
        self,
        partition: str,
        *,
        after: bytes = b"",
        until: bytes | None = None,
        limit: int,
        reverse: bool = False,
        strong: bool = True,
    ) -> list[Item]:
        """As the cell."""
        return await self._open().query(
            partition, after=after, until=until, limit=limit, reverse=reverse, strong=strong
        )

    def partitions(self, after: str, limit: int) -> list[str]:
        """As the cell. Raises CellUnavailableError."""
        return self._open().partitions(after, limit)

    def expire(self, keys: Sequence[Key]) -> None:
        """As the cell; while it has failed, its items are left to their time to live."""
        if self.cell is not None:
            self.cell.expire(keys)

    async def collect(self, now_s: int, budget: int) -> int:
        """As the cell; nothing while it has failed."""
        return 0 if self.cell is None else await self.cell.collect(now_s, budget)

    async def drop(self, partition: str, budget: int) -> int:
        """As the cell."""
        return await self._open().drop(partition, budget)

    async def read_disk(self) -> None:
        """As the cell."""
        await self._open().read_disk()

    async def look_at_file(self) -> None:
        """As the cell."""
        await self._open().look_at_file()

    @property
    def missing(self) -> str:
        """As the cell; "" while it has failed."""
        return "" if self.cell is None else self.cell.missing

    @property
    def file(self) -> OpenFile | None:
        """As the cell; None while it has failed."""
        return None if self.cell is None else self.cell.file

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """As the cell."""
        return await self._open().drop_superfluous(part, after)

    def room(self) -> StoreRoom:
        """As the cell. Raises CellUnavailableError."""
        return self._open().room()

    async def copy(self) -> AsyncIterator[bytes]:
        """As the cell. Raises CellUnavailableError, also where it fails while it is copied."""
        async for page in self._open().copy():
            yield page

    def copying(self) -> AbstractContextManager[CellCopy]:
        """As the cell. Raises CellUnavailableError."""
        return self._open().copying()

    @property
    def counters(self) -> CellCounters:
        """Those of the cell that is open, since it was opened."""
        return _NOBODYS if self.cell is None else self.cell.counters

    @property
    def used_bytes(self) -> int:
        """As the cell."""
        return self._open().used_bytes

    @property
    def disk_bytes(self) -> int:
        """As the cell; 0 while it has failed."""
        return 0 if self.cell is None else self.cell.disk_bytes

    def look_over(self, leaf_pages: int) -> None:
        """As the cell; nothing while it has failed."""
        if self.cell is not None:
            self.cell.look_over(leaf_pages)

    @property
    def damaged_items(self) -> int:
        """As the cell; 0 while it has failed."""
        return 0 if self.cell is None else self.cell.damaged_items

    @property
    def is_full(self) -> bool:
        """Whether messages are refused because neither the store nor its disk has room."""
        return not self.has_room(0)

    def has_room(self, size_bytes: int) -> bool:
        """As the cell; while it has failed, that is told by the write."""
        return self.cell is None or self.cell.has_room(size_bytes)

    def _open(self) -> EmbeddedCell:
        if self.cell is None:
            raise CellUnavailableError(self.reason)
        return self.cell
