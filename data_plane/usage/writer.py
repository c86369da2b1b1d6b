"""A front end's records: numbered, and stored each minute beside requests, never for one."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from data_plane.frontend.served import Served
from data_plane.ports import CellUnavailableError, Clock, Entropy
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import MARK_SCHEMA, US_PER_MINUTE, WRITER_BYTES, Mark, Record
from data_plane.usage.totals import Counting

SUMS_MAX: Final = 10_000
"""Different sums that a minute may have before they are made records early."""

WRITTEN: Final = "records_written_total"
WAITING_MAX: Final = 100_000
"""Records that may wait for the place to take them; more are dropped."""


class UsageWriter:
    """Counts what a front end answers and stores it; one front end, from its start to its end.

    Sends to the cells with `ledgers` are left to those. `after` is the writer that was here before,
    where that is known; `off_from` the minute from which usage was off since, 0 where it was not.
    What fails stays for the next `write`.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and what was before it
        self,
        place: UsagePlace,
        clock: Clock,
        entropy: Entropy,
        ledgers: Collection[str] = (),
        after: str = "",
        *,
        off_from: int = 0,
    ) -> None:
        self.name = entropy.random_bytes(WRITER_BYTES).hex()
        self._place = place
        self._clock = clock
        self._after = after
        self._off_from = off_from
        self._counting = Counting(ledgers)
        self._desks = ""
        self._opened = self._complete_to = self._minute()
        self._records = self._access = 0
        self._waiting: deque[Sequence[Record]] = deque()
        self._written = self._dropped = self._failures = 0

    def leave_sends(self, desks: Iterable[bytes]) -> None:
        """Sends are counted by what these desks store, as far as they store something."""
        self._counting.leave_sends()
        self._desks = " ".join(desk.hex() for desk in desks)

    async def open(self) -> None:
        """Store the mark that this writer exists. Raises CellUnavailableError."""
        await self._place.put_mark(self.mark())

    def mark(self, *, closed: bool = False) -> Mark:
        """How far it is."""
        return Mark(
            *(MARK_SCHEMA, self.name, "server", self._opened, self._after),
            *(self._complete_to, self._records, self._access, closed, self._desks),
            off_from=self._off_from,
        )

    def served(self, served: Served) -> None:
        """Count a request that was answered."""
        self._counting.served(served)
        if len(self._counting) >= SUMS_MAX:
            self._set_aside()

    async def write(self) -> None:
        """Store what was counted so far. Raises CellUnavailableError; then all of it still waits.

        Not to be called while another call is under way.
        """
        await self._write(closed=False)

    async def close(self) -> None:
        """Store all that is left, and that it is all. Raises CellUnavailableError."""
        await self._write(closed=True)

    def gauges(self) -> Mapping[str, float]:
        """How much was stored, by names of metrics."""
        return {
            WRITTEN: self._written,
            "records_dropped_total": self._dropped,
            "write_failures_total": self._failures,
            "records_waiting": sum(map(len, self._waiting)),
        }

    def _minute(self) -> int:
        return self._clock.now_us() // US_PER_MINUTE

    def _set_aside(self) -> None:
        """Give what was counted its numbers. What there is no room for is a gap from then on."""
        totals = self._counting.take()
        usage = tuple(totals.records(self.name, self._records + 1))
        access = tuple(totals.access_records(self.name, self._access + 1))
        self._records += len(usage)
        self._access += len(access)
        room = WAITING_MAX - sum(map(len, self._waiting))
        batches: tuple[Sequence[Record], ...] = (usage, access)
        for batch in batches:
            if len(batch) > room:
                self._dropped += len(batch)
            elif batch:
                self._waiting.append(batch)
                room -= len(batch)

    async def _write(self, *, closed: bool) -> None:
        minute = self._minute()
        self._set_aside()
        try:
            while self._waiting:
                batch = self._waiting[0]
                await self._place.put(batch)
                self._waiting.popleft()
                self._written += len(batch)
            self._complete_to = minute
            await self._place.put_mark(self.mark(closed=closed))
        except CellUnavailableError:
            self._failures += 1
            raise
