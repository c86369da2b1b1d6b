"""Streams as queues read them: what `data_plane.log.sources` asks for (docs/storage.md)."""

import base64
from collections import OrderedDict
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Protocol

from data_plane.core.errors import RefusedError
from data_plane.core.identifiers import random_uuid
from data_plane.core.long_answers import room_for
from data_plane.core.message import Message, MessageAttribute
from data_plane.core.message_rules import first_invalid_character
from data_plane.core.queue import Queue
from data_plane.core.sequence_number import sequence_values
from data_plane.core.stream import Shard, Stream, read_stream_arn
from data_plane.log.layers import order_hash
from data_plane.log.slots import END as END_OF_LOG
from data_plane.log.slots import MESSAGES, UNREADABLE, Hashes, Slot
from data_plane.log.sources import Piece, Source, place_of, positions_in_block
from data_plane.ports import CellUnavailableError, Item, Key
from data_plane.stored import keys
from data_plane.stored.segment import DamagedSegmentError
from data_plane.streams import reading, searching, tails
from data_plane.streams.desk import Access, Desk, access_of
from data_plane.streams.slots import END, PackedRecord, RecordSlot, read_slot

ENCODING: Final = "TidegateEncoding"
"""The message attribute of a record that is no text: its body is base64 of the data."""

_BASE64: Final = ((ENCODING, MessageAttribute("String", b"base64")),)
_NEWER_MAX: Final = 1_000
_PAGE_BYTES: Final = 1024 * 1024
"""Slots of a page are taken up to so much, one at least."""


class StreamDefinitions(Protocol):
    """Where streams are looked up, by account, region and name; from a cache."""

    async def find(self, account: str, region: str, name: str) -> Stream | None:
        """The stream, or None where there is none."""
        ...

    async def renewed(self, stream: Stream) -> Stream:
        """The definition as it is now. Raises RefusedError where the stream is no more."""
        ...


class StreamSources:
    """The streams of a service, for its queues. Methods raise CellUnavailableError."""

    def __init__(self, desk: Desk, known: StreamDefinitions) -> None:
        self._desk = desk
        self._known = known
        self._newer: OrderedDict[str, Stream] = OrderedDict()

    async def stream_of(self, queue: Queue) -> Stream | None:
        """The stream that the queue reads; None where it was deleted, also if it was made anew."""
        name = read_stream_arn(queue.stream_arn)
        stream = await self._known.find(*name) if name is not None else None
        if stream is None or stream.uid != queue.stream_uid:
            return None
        newer = self._newer.get(stream.uid, stream)
        return newer if newer.version > stream.version else stream

    async def renewed(self, stream: Stream) -> Stream | None:
        """The stream as it is now, which is remembered until lookups say as much."""
        try:
            newer = await self._known.renewed(stream)
        except RefusedError:
            return None
        if newer.uid != stream.uid:
            return None
        self._newer[stream.uid] = newer
        if len(self._newer) > _NEWER_MAX:
            self._newer.popitem(last=False)
        return newer

    def source(
        self, queue: Queue, stream: Stream, shard: Shard, known: Source | None = None
    ) -> Source:
        """A shard as the queue reads it: the `known` source, by this definition from now on."""
        at = access_of(self._desk, stream, shard)
        if isinstance(known, ShardSource):
            known.at, known.queue = at, queue
            return known
        return ShardSource(at, queue)

    async def records_above(self, stream: Stream, stamp_us: int) -> int:
        """How many records the stream has above this stamp."""
        logs = [access_of(self._desk, stream, shard) for shard in _with_logs(stream)]
        return sum(await self._of_each([_records_above(at, stamp_us) for at in logs]))

    async def last_stamp_us(self, stream: Stream) -> int:
        """The highest stamp of a record in an open shard; 0 where there is none."""
        logs = [access_of(self._desk, stream, shard) for shard in stream.open_shards]
        found = await self._desk.waits.all_of([tails.newest(at) for at in logs])
        for one in found:
            if isinstance(one, Exception):
                raise one
        return max((one.stamp_us for one in found if isinstance(one, RecordSlot)), default=0)

    async def _of_each(self, calls: Sequence[Awaitable[int]]) -> list[int]:
        outcomes = await self._desk.waits.all_of(calls)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, int)]


def _with_logs(stream: Stream) -> list[Shard]:
    return [shard for shard in stream.shards if not shard.was_never_open]


async def _records_above(at: Access, stamp_us: int) -> int:
    last = await tails.newest(at)
    if last is None or last.stamp_us <= stamp_us:
        return 0
    return last.following - await searching.first_since(at, stamp_us + 1)


class ShardSource:
    """See `data_plane.log.sources.Source`."""

    def __init__(self, at: Access, queue: Queue) -> None:
        self.at = at
        self.queue = queue
        self._read_to = -1
        """The piece that was read last, or what lay behind nothing: what follows is a new slot."""

    async def read(self, after: int, limit: int, over_us: int) -> list[Slot]:
        """Pieces behind this offset, of `limit` slots at most; none where there are no more."""
        first = after + 1
        if after != self._read_to:
            found = await searching.slot_with(self.at, first)
            if found is not None and found.following > first:
                first = found.number
        slots = await self._slots(first, limit)
        if slots and slots[0].kind != END and slots[0].stamp_us <= over_us:
            first = max(first, await searching.first_since(self.at, over_us + 1))
            slots = await self._slots(first, limit)
        pieces: list[Slot] = []
        for slot, messages in zip(slots, await self._opened(slots), strict=False):
            pieces += [piece for piece in self._pieces(slot, messages) if piece.number > after]
        # Where there is nothing, whatever comes begins behind it.
        self._read_to = pieces[-1].number if pieces else after
        if slots and not pieces:
            return await self.read(after, limit, over_us)  # All of it lay before.
        return pieces

    async def _slots(self, first: int, limit: int) -> list[RecordSlot]:
        items = await self.at.cell.query(self.at.log.slots, after=keys.be64(first - 1), limit=limit)
        slots: list[RecordSlot] = []
        size_bytes = 0
        for item in items:
            slot = read_slot(item)
            size_bytes += slot.size_bytes if slot.kind != END else 0
            if slots and size_bytes > _PAGE_BYTES:
                break
            slots.append(slot)
        return slots

    async def _opened(
        self, slots: Sequence[RecordSlot]
    ) -> list[list[Message] | DamagedSegmentError]:
        """The messages of the slots, up to the first that is not to be had at present.

        By them it is known which records wait for others; an end has none.
        """
        outcomes = await self._unpack([slot for slot in slots if slot.kind != END])
        opened: list[list[Message] | DamagedSegmentError] = []
        for slot in slots:
            outcome = [] if slot.kind == END else outcomes[slot.key]
            if isinstance(outcome, Exception) and not isinstance(outcome, DamagedSegmentError):
                if opened:
                    break
                raise outcome
            opened.append(outcome)
        return opened

    async def _unpack(self, slots: Sequence[RecordSlot]) -> dict[Key, list[Message] | Exception]:
        """The messages of each slot by its key, or why they are not to be had."""
        await room_for(sum(slot.size_bytes for slot in slots))
        opener = await self.at.data_keys.opener(slots)
        outcomes = await self.at.desk.waits.all_of(
            [reading.open_slot(self.at, slot, opener) for slot in slots]
        )
        messages: dict[Key, list[Message] | Exception] = {}
        for slot, outcome in zip(slots, outcomes, strict=True):
            if isinstance(outcome, Exception):
                messages[slot.key] = outcome
            else:
                messages[slot.key] = list(self._messages(slot, outcome))
        return messages

    def _messages(self, slot: RecordSlot, records: Sequence[PackedRecord]) -> Iterator[Message]:
        shard, account = self.at.shard, self.at.stream.account
        offsets = range(slot.number, slot.number + len(records))
        sent_ms = slot.stamp_us // 1000
        numbers = sequence_values(shard, ((offset, slot.stamp_us) for offset in offsets))
        of_shard = blake2b(f"{self.queue.uid}|{shard.number}|".encode(), digest_size=16)
        for offset, sequence, (key, data) in zip(offsets, numbers, records, strict=True):
            digest = of_shard.copy()
            digest.update(b"%d" % offset)
            number = str(sequence)
            body = _text(data)
            yield Message(
                random_uuid(digest.digest()),
                base64.b64encode(data).decode() if body is None else body,
                _BASE64 if body is None else (),
                "",
                number if key is None else key,
                account,
                sent_ms,
                sequence,
                number,
            )

    def _pieces(
        self, slot: RecordSlot, messages: list[Message] | DamagedSegmentError
    ) -> list[Slot]:
        """The slot as the reader of a log knows slots: one for each block with records of it."""
        if slot.kind == END or isinstance(messages, DamagedSegmentError):
            kind = END_OF_LOG if slot.kind == END else UNREADABLE
            return [self._slot(slot, kind, slot.number)]
        pieces: list[Slot] = []
        first = slot.number
        while first < slot.following:
            own = positions_in_block(first, slot.number, slot.records)
            pieces.append(self._slot(slot, MESSAGES, first, messages[own.start : own.stop]))
            first += len(own)
        return pieces

    def _slot(
        self, slot: RecordSlot, kind: str, first: int, opened: Sequence[Message] = ()
    ) -> Slot:
        place = place_of(first)
        return Slot(
            first,
            kind,
            slot.stamp_us,
            slot.expires_s,
            place.block,
            place.position,
            tuple(Hashes(b"", b"", order_hash(self.queue, message)) for message in opened),
            slot.key,
            slot.item,
            opened,
        )

    async def open(self, pieces: Mapping[int, Piece]) -> dict[int, Sequence[Message] | None]:
        """The messages of each piece that can be had; None where they are damaged."""
        closed = {one.key: one.item for one in pieces.values() if one.opened is None}
        outcomes: dict[Key, list[Message] | Exception] = {}
        if closed:
            slots = [read_slot(Item(key, item)) for key, item in closed.items()]
            outcomes = await self._unpack(slots)
        opened: dict[int, Sequence[Message] | None] = {}
        failure: Exception | None = None
        for number, piece in pieces.items():
            if piece.opened is not None:
                opened[number] = piece.opened
                continue
            outcome = outcomes[piece.key]
            if isinstance(outcome, list):
                opened[number] = piece.open(outcome)
            elif isinstance(outcome, DamagedSegmentError):
                opened[number] = None
            elif isinstance(outcome, (RefusedError, CellUnavailableError)):
                failure = outcome
            else:
                raise outcome
        if failure is not None and not opened:
            raise failure
        return opened


def _text(data: bytes) -> str | None:
    """The data as the body of a message; None where no message can have it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if first_invalid_character(text) else text
