"""What desks have sent, read from the segments and slots that they stored.

docs/storage.md, "Sends of cells without a ledger".
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from data_plane.ports import Attributes, Cell, CellUnavailableError
from data_plane.stored import keys
from data_plane.stored.bounds import FAIR_LANES
from data_plane.stored.lease import WRITER_BYTES
from data_plane.stored.ledger import CallSums
from data_plane.stored.segment import number, octets
from data_plane.stored.sent_minutes import US_PER_MINUTE, SentKey, SentTo, add_calls

PAGE: Final = 256
MESSAGES: Final = "s"
"""The kind (`k`) of segments, and of slots with messages."""


class DeskMinute(NamedTuple):
    """A minute of the stamps of a desk."""

    minute: int
    desk: bytes


Found = dict[DeskMinute, dict[SentKey, CallSums]]


class SentReader:
    """Reads queues in their cells, standard ones and FIFO ones."""

    def __init__(self, cells: Mapping[str, Cell], fifo_cells: Mapping[str, Cell]) -> None:
        self._cells = cells
        self._fifo_cells = fifo_cells

    async def read(
        self, queues: Iterable[SentTo], desks: Collection[bytes], from_minute: int
    ) -> Found:
        """What the desks have sent to the queues from this minute on.

        Reads all that is stored there since. Raises CellUnavailableError.
        """
        found: Found = {}
        for queue in queues:
            cells = self._fifo_cells if queue.generations else self._cells
            if queue.cell not in cells:
                raise CellUnavailableError(f"{queue.queue} lies in {queue.cell}, unknown here")
            read = _read_log if queue.generations else _read_bag
            await read(cells[queue.cell], found, queue, desks, from_minute)
        return found


async def _read_bag(
    cell: Cell, found: Found, to: SentTo, desks: Collection[bytes], from_minute: int
) -> None:
    for lane in range(FAIR_LANES):
        partition = keys.segments(to.uid, lane, 0)
        # What is visible from then on has every segment stamped from then on.
        after = keys.be64(from_minute * US_PER_MINUTE)
        while page := await cell.query(partition, after=after, limit=PAGE):
            after = page[-1].key.sort
            for item in page:
                segment = item.attributes
                if segment["k"] == MESSAGES:
                    desk = octets(segment, "b")[:WRITER_BYTES]
                    _add(found, to, segment, desk, desks, from_minute)


async def _read_log(
    cell: Cell, found: Found, to: SentTo, desks: Collection[bytes], from_minute: int
) -> None:
    for generation in to.generations:
        for partition in range(generation.partitions):
            slots = keys.slots(to.uid, partition, generation.number)
            until: bytes | None = None
            while page := await cell.query(slots, until=until, limit=PAGE, reverse=True):
                until = keys.before(page[-1].key.sort)
                for item in page:
                    if item.attributes["k"] == MESSAGES:
                        desk = octets(item.attributes, "w")[:WRITER_BYTES]
                        _add(found, to, item.attributes, desk, desks, from_minute)
                if number(page[-1].attributes, "t") < from_minute * US_PER_MINUTE:
                    break  # Stamps of a log only grow.


def _add(  # noqa: PLR0913, PLR0917 - what is added, and whether
    found: Found,
    to: SentTo,
    stored: Attributes,
    desk: bytes,
    desks: Collection[bytes],
    from_minute: int,
) -> None:
    minute = number(stored, "t") // US_PER_MINUTE
    if desk in desks and minute >= from_minute:
        add_calls(found.setdefault(DeskMinute(minute, desk), {}), to, stored)
