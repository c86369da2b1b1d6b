"""What one desk has sent to cells without a ledger, by minute, until it is recorded.

docs/storage.md, "Sends of cells without a ledger".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from data_plane.core.queue import Generation, Queue
from data_plane.ports import Attributes, Cell
from data_plane.stored.ledger import NOTHING_SENT, CallSums, read_calls

US_PER_MINUTE: Final = 60_000_000
ALWAYS_US: Final = 1 << 62


class SentKey(NamedTuple):
    """To which queue, and whether by SendMessageBatch. Records are in this order."""

    account: str
    region: str
    queue: str
    uid: str
    batch: bool


class SentTo(NamedTuple):
    """A queue that was sent to: what records say of it, and where its messages lie.

    A standard queue has no `generations` of logs.
    """

    account: str
    region: str
    queue: str
    uid: str
    cell: str
    generations: tuple[Generation, ...] = ()


def sent_to(queue: Queue) -> SentTo:
    """This queue."""
    where = (queue.account, queue.region, queue.name, queue.uid, queue.cell)
    return SentTo(*where, queue.generations if queue.fifo else ())


def add_calls(sums: dict[SentKey, CallSums], to: SentTo, attributes: Attributes) -> None:
    """Add what a segment or slot of the queue says that calls have sent."""
    for batch, one in read_calls(attributes).items():
        if one.messages:
            key = SentKey(to.account, to.region, to.queue, to.uid, batch)
            sums[key] = sums.get(key, NOTHING_SENT).plus(one)


@dataclass(slots=True)
class Minute:
    """What was sent with stamps of a minute, to these queues.

    `unsure`: nobody knows of a write whether it took effect, so the sums may fall short.
    """

    sums: dict[SentKey, CallSums] = field(default_factory=dict)
    queues: dict[str, SentTo] = field(default_factory=dict)
    under_way: int = 0
    unsure: bool = False


class Sending:
    """A context: a write of a segment or slot is under way. Its outcome is unsure where it raises.

    It counts in its minute, if what is sent is kept at all.
    """

    __slots__ = ("_attributes", "_minute", "_queue")

    def __init__(self, queue: Queue, minute: Minute | None) -> None:
        self._queue = queue
        self._minute = minute
        self._attributes: Attributes | None = None

    def stored(self, attributes: Attributes) -> None:
        """It took effect, with these attributes."""
        self._attributes = attributes

    def __enter__(self) -> Self:
        if (minute := self._minute) is not None:
            minute.queues[self._queue.uid] = sent_to(self._queue)
            minute.under_way += 1
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        if (minute := self._minute) is None:
            return
        minute.under_way -= 1
        if raised is not None:
            minute.unsure = True
        elif self._attributes is not None:
            add_calls(minute.sums, sent_to(self._queue), self._attributes)


class SentMinutes:
    """The minutes of a desk. Nothing is kept before somebody wants to record it (`keep`)."""

    def __init__(self, desk: bytes, cells: Mapping[str, Cell]) -> None:
        self.desk = desk
        self._cells = cells
        self.minutes: dict[int, Minute] = {}
        self._recorded_us = ALWAYS_US

    def keep(self) -> None:
        """Keep what is sent from now on until it is recorded."""
        self._recorded_us = 0

    def recorded(self, minute: int) -> None:
        """What was sent before this minute is recorded, by whatever server."""
        self._recorded_us = minute * US_PER_MINUTE

    def recorded_us(self) -> int:
        """What was stored before this time is not needed any more to know what was sent."""
        return self._recorded_us

    def sending(self, queue: Queue, stamp_us: int) -> Sending:
        """A write to the queue, with this stamp, for as long as its context lasts."""
        if self._recorded_us == ALWAYS_US or self._cells[queue.cell].chooses_stamps:
            return Sending(queue, None)
        return Sending(queue, self.minutes.setdefault(stamp_us // US_PER_MINUTE, Minute()))

    def queues(self) -> list[SentTo]:
        """To which queues it has sent what is not recorded."""
        return [to for kept in self.minutes.values() for to in kept.queues.values()]

    def over(self, minute: int) -> Mapping[int, Minute]:
        """The minutes before this one of which nothing is under way."""
        return {
            at: kept
            for at, kept in sorted(self.minutes.items())
            if at < minute and not kept.under_way
        }
