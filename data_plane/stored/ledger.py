"""The ledger of sends: what was stored, for bills, in the transaction that stores it.

docs/storage.md, "Ledger of sends".
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from data_plane.core.answer_record import answer_record
from data_plane.core.message import Stored
from data_plane.core.queue import Queue
from data_plane.ports import Attributes, Cell, Item, Key, Tally, Value
from data_plane.stored.keys import be64
from data_plane.stored.segment import number, octets

PARTITION: Final = "L|"
SINGLE: Final = b"s"
BATCH: Final = b"b"

UNIT_BYTES: Final = 64 * 1024
_SUMS: Final = struct.Struct(">BHBI")
"""Calls, units, messages and bytes of what one operation brought into a segment or slot."""

_US_PER_MINUTE: Final = 60_000_000
_MINUTE: Final = slice(0, 8)
_KIND: Final = slice(16, 17)
_QUEUE: Final = slice(17, None)


class SentCall(NamedTuple):
    """Some messages of a send. `units` are those of the whole call, 0 where others count it."""

    batch: bool
    units: int
    messages: int
    size_bytes: int


@dataclass(eq=False, slots=True)
class CallToSend:
    """A call on its way into the queue, in one write or in several.

    One of the writes that store its messages counts it: their `counter`.
    """

    batch: bool
    units: int
    stored: Stored
    counter: object = None

    def share(self, writer: object, messages: int, size_bytes: int) -> SentCall:
        """What a write says of the call: the first that has anything to store counts it."""
        if self.counter is None or self.counter is writer:
            self.counter = writer if messages else None
        units = self.units if self.counter is writer and messages else 0
        return SentCall(self.batch, units, messages, size_bytes)

    def note(self, share: SentCall) -> None:
        """The write of this share took effect."""
        self.stored.messages += share.messages
        self.stored.size_bytes += share.size_bytes
        self.stored.counted = self.stored.counted or share.units > 0


class LedgerRow(NamedTuple):
    """What was sent to one queue by one operation in a minute."""

    minute: int
    batch: bool
    account: str
    region: str
    queue: str
    calls: int
    units: int
    messages: int
    size_bytes: int


def call_units(sizes_bytes: Iterable[int]) -> int:
    """What a call with messages of these sizes is billed as: chunks of 64 KiB, at least one."""
    return max(1, -(-sum(sizes_bytes) // UNIT_BYTES))


class CallSums(NamedTuple):
    """What one operation has sent: calls, their units, messages and bytes."""

    calls: int
    units: int
    messages: int
    size_bytes: int

    def plus(self, other: "CallSums") -> "CallSums":
        """Both together."""
        return CallSums(
            self.calls + other.calls,
            self.units + other.units,
            self.messages + other.messages,
            self.size_bytes + other.size_bytes,
        )


NOTHING_SENT: Final = CallSums(0, 0, 0, 0)


def sums_of(calls: Iterable[SentCall]) -> dict[bool, CallSums]:
    """The sums of some calls, batches (True) and others by themselves."""
    sums: dict[bool, list[int]] = {}
    for batch, units, messages, size_bytes in calls:
        total = sums.get(batch)
        if total is None:
            total = sums[batch] = [0, 0, 0, 0]
        total[0] += units > 0
        total[1] += units
        total[2] += messages
        total[3] += size_bytes
    return {batch: CallSums(*total) for batch, total in sums.items()}


def calls_attributes(calls: Sequence[SentCall], messages: int) -> dict[str, Value]:
    """What a segment or slot with so many messages says of the calls in it.

    As little as possible where it is one call of SendMessage, of one unit. In a function they are
    of one call, whose record is named.
    """
    sums = sums_of(calls)
    single, batch = sums.get(False, NOTHING_SENT), sums.get(True, NOTHING_SENT)
    counted, units, sent, _ = single.plus(batch)
    attributes: dict[str, Value] = {}
    if counted != 1:
        attributes["r"] = counted
    if units != 1:
        attributes["p"] = units
    if batch.messages or 0 < sent < messages:
        attributes["rb"] = _SUMS.pack(*batch) + (_SUMS.pack(*single) if single.messages else b"")
    if calls and (record := answer_record()):
        attributes["ra"] = record
    return attributes


def read_calls(attributes: Attributes) -> dict[bool, CallSums]:
    """What a stored segment or slot says that calls have sent; nothing where all was moved here."""
    if "rb" in attributes:
        packed = octets(attributes, "rb")
        sums = (
            CallSums(*_SUMS.unpack_from(packed, at)) for at in range(0, len(packed), _SUMS.size)
        )
        return dict(zip((True, False), sums, strict=False))
    whole = {"r": 1, "p": 1, **attributes}
    if not number(whole, "r"):
        return {}
    return {False: CallSums(*(number(whole, name) for name in "rpny"))}


class Ledgers:
    """A front end's part of the ledgers of its cells. Cells that take proposed stamps have none."""

    def __init__(self, cells: Mapping[str, Cell]) -> None:
        self._cells = cells
        self._since: dict[str, bytes] = {}

    def tallies(self, queue: Queue, stamp_us: int, calls: Iterable[SentCall]) -> Iterator[Tally]:
        """What a send to the queue adds. A cell asks for it within its write."""
        if not self._cells[queue.cell].chooses_stamps:
            return
        # Later than all that others wrote before, and never later than what this one writes.
        since = self._since.setdefault(queue.cell, be64(stamp_us))
        minute = be64(stamp_us // _US_PER_MINUTE)
        name = f"{queue.account}|{queue.region}|{queue.name}|{queue.uid}".encode()
        for batch, amounts in sums_of(calls).items():
            key = Key(PARTITION, minute + since + (BATCH if batch else SINGLE) + name)
            for attribute, amount in zip("rumy", amounts, strict=True):
                yield Tally(key, amount, attribute)


def read_row(item: Item) -> LedgerRow:
    """A row as it is stored."""
    sort = item.key.sort
    account, region, queue, _uid = sort[_QUEUE].decode().split("|")
    return LedgerRow(
        int.from_bytes(sort[_MINUTE], "big"),
        sort[_KIND] == BATCH,
        *(account, region, queue),
        # Where a row has no more than the rest of calls, there may be no sum of calls.
        *(number({attribute: 0, **item.attributes}, attribute) for attribute in "rumy"),
    )


def until_minute(minute: int) -> bytes:
    """A sort key above all rows of minutes before this one, and below those of it."""
    return be64(minute)
