"""A front end's records: numbered, and stored each minute beside requests, never for one.

Between, what was counted is stored as the writer's *tail*, so that a crash loses what was answered
after the last one (docs/usage.md, "What a crash can lose"). A record is stored only when the tail
has it, or has no number as high: so a tail never says of a number what a record does not.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from data_plane.frontend.served import Served
from data_plane.ports import CellUnavailableError, Clock, Entropy
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import (
    MARK_SCHEMA,
    TAIL_SCHEMA,
    US_PER_MINUTE,
    WRITER_BYTES,
    AccessRecord,
    Mark,
    Record,
    Tail,
    UsageRecord,
)
from data_plane.usage.totals import Counting, Totals

SUMS_MAX: Final = 10_000
"""Different sums that a minute may have before they are made records early."""

WRITTEN: Final = "records_written_total"
WAITING_MAX: Final = 100_000
"""Records that may wait for the place to take them; more are dropped."""

TAIL_EVERY_US: Final = 3_000_000
"""So old what was answered may be when it is to go into the tail; with the time that a look every
second and a store take, that is less than 5 s."""

TAIL_WAITING_MAX: Final = 20_000
"""Records that wait and are in the tail; of more, none is."""

UNSAVED_MIN: Final = 2_000
"""A tail says that at least so many requests may be answered before the next one is stored."""

HURRY_EVERY_US: Final = 100_000
"""Sooner no tail is stored after another, however many requests were answered."""

_HEADROOM: Final = 4
"""How many times as many as since the last one."""


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
        self._entropy = entropy
        self._after = after
        self._off_from = off_from
        self._counting = Counting(ledgers)
        self._desks = ""
        self._opened = self._complete_to = self._minute()
        self._records = self._access = 0
        self._waiting: deque[Sequence[Record]] = deque()
        self._written = self._dropped = self._failures = 0
        self.hurry: Callable[[], None] = lambda: None
        self._counted_to = self._saved_us = clock.now_us()
        self._tried_us = 0
        self._unsaved, self._unsaved_max = 0, UNSAVED_MIN

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
            counted_to=self._counted_to,
            unsaved_max=self._unsaved_max,
        )

    def served(self, served: Served) -> None:
        """Count a request that was answered. Calls `hurry` where `keep` is due at once."""
        self._counting.served(served)
        self._unsaved += 1
        if self._unsaved >= self._unsaved_max // 2:
            self.hurry()
        if len(self._counting) >= SUMS_MAX:
            self._set_aside()

    async def keep(self) -> None:
        """Store the tail if it is time. Raises CellUnavailableError; then it still is.

        Not to be called while another call is under way.
        """
        now_us = self._clock.now_us()
        waits_us, tried_us = now_us - self._saved_us, now_us - self._tried_us
        is_due = waits_us >= TAIL_EVERY_US or self._unsaved >= self._unsaved_max // 2
        # A clock may go back.
        if self._unsaved and (is_due or waits_us < 0) and not 0 <= tried_us < HURRY_EVERY_US:
            try:
                await self._save()
            except CellUnavailableError:
                self._failures += 1
                raise

    async def begin_anew(self) -> None:
        """Go on as another writer, after this one: somebody else has ended it.

        What is in no record that was stored is the gap between the two. Raises
        CellUnavailableError.
        """
        ended = self.name
        self.name = self._entropy.random_bytes(WRITER_BYTES).hex()
        self._after, self._off_from = ended, 0
        self._counting.forget()
        self._waiting.clear()
        self._records = self._access = self._unsaved = 0
        self._unsaved_max = UNSAVED_MIN
        self._counted_to = self._saved_us = self._clock.now_us()
        self._opened = self._complete_to = self._minute()
        await self._place.remove_tail(ended)

    async def write(self) -> None:
        """Store what was counted so far. Raises CellUnavailableError; then all of it still waits.

        Not to be called while another call is under way.
        """
        await self._write(closed=False)

    async def close(self) -> None:
        """Store all that is left, and that it is all. Raises CellUnavailableError."""
        await self._write(closed=True)

    def pending(self) -> list[UsageRecord]:
        """What is counted and not stored: some have no number yet, and are given the next ones."""
        waiting = [its for batch in self._waiting for its in batch if isinstance(its, UsageRecord)]
        return [*waiting, *self._counting.look()().records(self.name, self._records + 1)]

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
        now_us = self._clock.now_us()
        self._set_aside()
        try:
            if self._waiting:
                await self._save()
            else:
                self._counted_to = self._saved_us = now_us
            for _ in range(len(self._waiting)):
                batch = self._waiting[0]
                await self._place.put(batch)
                self._waiting.popleft()
                self._written += len(batch)
            self._complete_to = max(self._complete_to, now_us // US_PER_MINUTE)
            await self._place.put_mark(self.mark(closed=closed))
            if closed:
                await self._place.remove_tail(self.name)
        except CellUnavailableError:
            self._failures += 1
            raise

    async def _save(self) -> None:
        """Store what is in no record, as the records that it is once this writer is cut off."""
        now_us, unsaved = self._clock.now_us(), self._unsaved
        self._tried_us = now_us
        unsaved_max = max(UNSAVED_MIN, _HEADROOM * unsaved)
        waiting = tuple(self._waiting)
        if sum(map(len, waiting)) > TAIL_WAITING_MAX:
            waiting = ()
        mark = msgspec.structs.replace(
            self.mark(),
            complete_to=max(self._complete_to, now_us // US_PER_MINUTE),
            counted_to=now_us,
            unsaved_max=unsaved_max,
        )
        totals = self._counting.look()
        await self._place.put_tail(self.name, lambda: tail_of(mark, waiting, totals()))
        self._counted_to = self._saved_us = now_us
        self._unsaved -= unsaved
        self._unsaved_max = unsaved_max


def tail_of(mark: Mark, waiting: Iterable[Sequence[Record]], totals: Totals) -> Tail:
    """The tail of a writer whose mark says what is numbered: what waits, and what is counted."""
    usage = tuple(totals.records(mark.writer, mark.records + 1))
    access = tuple(totals.access_records(mark.writer, mark.access + 1))
    mark = msgspec.structs.replace(
        mark, records=mark.records + len(usage), access=mark.access + len(access)
    )
    numbered = [one for batch in waiting for one in batch]
    return Tail(
        TAIL_SCHEMA,
        mark,
        (*(one for one in numbered if isinstance(one, UsageRecord)), *usage),
        (*(one for one in numbered if isinstance(one, AccessRecord)), *access),
    )
