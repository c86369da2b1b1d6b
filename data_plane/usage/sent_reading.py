"""What desks have sent, read from the segments and slots that they stored.

docs/storage.md, "Sends of cells without a ledger".
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from data_plane.ports import Attributes, Cell, CellUnavailableError
from data_plane.stored import keys
from data_plane.stored.bounds import FAIR_LANES
from data_plane.stored.lease import WRITER_BYTES
from data_plane.stored.ledger import NOTHING_SENT, CallSums
from data_plane.stored.segment import number, octets
from data_plane.stored.sent_minutes import ALWAYS_US, US_PER_MINUTE, SentKey, SentTo, add_calls

PAGE: Final = 256
MESSAGES: Final = "s"
"""The kind (`k`) of segments, and of slots with messages."""


class DeskMinute(NamedTuple):
    """A minute of the stamps of a desk."""

    minute: int
    desk: bytes


Found = dict[DeskMinute, dict[SentKey, CallSums]]


class Noted(NamedTuple):
    """What was sent to a queue with stamps up to `until_us`, in minutes of its desks.

    It was noted, so that it may be dropped: of what still lies there it says all.
    """

    until_us: int = 0
    found: Mapping[DeskMinute, Mapping[SentKey, CallSums]] = MappingProxyType({})


NOTHING_NOTED: Final = Noted()


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is looked for in a queue, and found: of stamps above `above_us`, up to `until_us`."""

    found: Found
    to: SentTo
    desks: Collection[bytes]
    from_minute: int
    above_us: int
    until_us: int

    def add(self, stored: Attributes, desk: bytes) -> None:
        """Count a segment or slot, where it is looked for."""
        stamp_us = number(stored, "t")
        at = DeskMinute(stamp_us // US_PER_MINUTE, desk)
        if self._is_of(at) and self.above_us < stamp_us <= self.until_us:
            add_calls(self.found.setdefault(at, {}), self.to, stored)

    def add_noted(self, noted: Noted) -> None:
        """Count what was noted of the queue."""
        for at, sums in noted.found.items():
            if self._is_of(at):
                kept = self.found.setdefault(at, {})
                for key, one in sums.items():
                    kept[key] = kept.get(key, NOTHING_SENT).plus(one)

    def _is_of(self, at: DeskMinute) -> bool:
        return at.desk in self.desks and at.minute >= self.from_minute


class SentReader:
    """Reads queues in their cells, standard ones and FIFO ones; others have a `pause` each page."""

    def __init__(
        self,
        cells: Mapping[str, Cell],
        fifo_cells: Mapping[str, Cell],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._cells = cells
        self._fifo_cells = fifo_cells
        self._pause = pause

    async def read(
        self,
        queues: Iterable[SentTo],
        desks: Collection[bytes],
        from_minute: int,
        noted: Mapping[str, Noted],
        *,
        until_us: int = ALWAYS_US,
    ) -> Found:
        """What the desks have sent to the queues from this minute on, with stamps up to `until_us`.

        Reads all that is stored there since, but what is `noted` of a queue, by its uid. Raises
        CellUnavailableError.
        """
        found: Found = {}
        for queue in queues:
            cells = self._fifo_cells if queue.generations else self._cells
            if queue.cell not in cells:
                raise CellUnavailableError(f"{queue.queue} lies in {queue.cell}, unknown here")
            known = noted.get(queue.uid, NOTHING_NOTED)
            reading = _Reading(found, queue, desks, from_minute, known.until_us, until_us)
            reading.add_noted(known)
            read = self._read_log if queue.generations else self._read_bag
            await read(cells[queue.cell], reading)
        return found

    async def _read_bag(self, cell: Cell, reading: _Reading) -> None:
        for lane in range(FAIR_LANES):
            partition = keys.segments(reading.to.uid, lane, 0)
            # What is visible from then on has every segment stamped from then on.
            after = keys.be64(reading.from_minute * US_PER_MINUTE)
            while page := await cell.query(partition, after=after, limit=PAGE):
                after = page[-1].key.sort
                for item in page:
                    if item.attributes["k"] == MESSAGES:
                        desk = octets(item.attributes, "b")[:WRITER_BYTES]
                        reading.add(item.attributes, desk)
                await self._pause()

    async def _read_log(self, cell: Cell, reading: _Reading) -> None:
        for generation in reading.to.generations:
            for partition in range(generation.partitions):
                slots = keys.slots(reading.to.uid, partition, generation.number)
                until: bytes | None = None
                while page := await cell.query(slots, until=until, limit=PAGE, reverse=True):
                    until = keys.before(page[-1].key.sort)
                    for item in page:
                        if item.attributes["k"] == MESSAGES:
                            desk = octets(item.attributes, "w")[:WRITER_BYTES]
                            reading.add(item.attributes, desk)
                    await self._pause()
                    if number(page[-1].attributes, "t") < reading.from_minute * US_PER_MINUTE:
                        break  # Stamps of a log only grow.
