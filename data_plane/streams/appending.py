"""Appending records: what arrives while a write is under way shares the next slot."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import NamedTuple, cast

from data_plane.core.errors import RefusedError
from data_plane.core.record import STORED_BEFORE, Numbered, OutgoingRecord, Put, PutCall
from data_plane.log import ends
from data_plane.ports import CellFullError, CellUnavailableError
from data_plane.stored.coalescing import coalesce
from data_plane.streams import producers, repeats, tails
from data_plane.streams.bounds import APPEND_ATTEMPTS_MAX, SLOT_BYTES_MAX, SLOT_RECORDS_MAX
from data_plane.streams.desk import Access, Tail
from data_plane.streams.slots import (
    END,
    RECORDS,
    PartOfCall,
    Produced,
    pack_calls,
    pack_slot,
    slot_attributes,
)


class ShardClosedError(Exception):
    """The shard was split or merged: its records go to its children. Nothing was stored."""


@dataclass(eq=False, slots=True)
class _Parcel:
    """Records of one call for one shard, and what is stored so far, by position in the call.

    `numbered`: as their producer numbers them. A parcel that is `refused` goes no further. What of
    it another attempt has stored in slots below `known_to` is known (None: nobody has looked).
    """

    records: Mapping[int, OutgoingRecord]
    call: PutCall
    numbered: Numbered | None = None
    stored: dict[int, Put] = field(default_factory=dict)
    refused: RefusedError | None = None
    known_to: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is to be stored any more."""
        return self.refused is not None or len(self.stored) == len(self.records)

    @property
    def left(self) -> list[int]:
        """The positions of what is not known to be stored."""
        return [position for position in self.records if position not in self.stored]

    @property
    def name(self) -> bytes:
        """What others may have that are not to be stored beside it (b"": none are)."""
        return self.numbered.name if self.numbered is not None else self.call.name


@dataclass(slots=True)
class _Piece:
    """Records of a parcel, those at these positions, that go into one slot."""

    parcel: _Parcel
    positions: Sequence[int]
    size_bytes: int


class PutOutcome(NamedTuple):
    """Where the records are, by position in the call, and why not all of them are there, if so.

    After a ShardClosedError the others were not stored; after another failure some may be.
    """

    stored: Mapping[int, Put]
    failure: Exception | None


async def append(
    at: Access,
    records: Mapping[int, OutgoingRecord],
    call: PutCall,
    numbered: Numbered | None = None,
) -> PutOutcome:
    """Store the records behind all others of the shard, in their order; durable when it returns.

    Their positions in the call name and order them. Of those that are `numbered` what their
    producer has put before is not stored again.
    """
    parcel = _Parcel(records, call, numbered)
    lane = ("stream", at.log.slots)
    return cast(PutOutcome, await coalesce(at.desk, lane, parcel, partial(_flush, at)))


async def _flush(at: Access, entries: list[object]) -> list[object | Exception]:
    parcels = cast(list[_Parcel], entries)
    failure: Exception | None = None
    try:
        for parcel in parcels:
            if parcel.call.repeated and parcel.call.name:
                await _look_for(at, parcel, parcels)
        while (pieces := next(_slots(parcels), None)) is not None:
            await _append(at, parcels, pieces)
    except Exception as error:  # noqa: BLE001 - raised to those who have something left
        failure = error
    return [
        PutOutcome(
            parcel.stored,
            (parcel.refused or failure) if len(parcel.stored) < len(parcel.records) else None,
        )
        for parcel in parcels
    ]


async def _look_for(at: Access, parcel: _Parcel, parcels: Sequence[_Parcel]) -> None:
    """Learn what is stored of a call that is repeated.

    An attempt that came before, and has stood still, may be among the `parcels`: it knows it, too.
    """
    known_to = (await tails.current(at)).following
    found = await repeats.find(at, parcel.call.name, parcel.records.keys())
    for one in parcels:
        if one.call.name == parcel.call.name and one.records.keys() <= parcel.records.keys():
            one.known_to = known_to
            one.stored |= {n: put for n, put in found.items() if n in one.records}


def _slots(parcels: Sequence[_Parcel]) -> Iterator[list[_Piece]]:
    """What is not stored yet of the parcels, slot by slot, in order."""
    pieces: list[_Piece] = []
    room, room_bytes = SLOT_RECORDS_MAX, SLOT_BYTES_MAX
    for parcel in _unstored(parcels):
        left, at = parcel.left, 0
        sizes_bytes = (parcel.records[position].size_bytes for position in left)
        before_bytes = [0, *accumulate(sizes_bytes)]
        while at < len(left):
            fits = bisect_right(before_bytes, before_bytes[at] + room_bytes) - 1
            end = min(max(fits, at), at + room)
            if room == SLOT_RECORDS_MAX:
                end = max(end, at + 1)
            size_bytes = before_bytes[end] - before_bytes[at]
            if end > at:
                pieces.append(_Piece(parcel, left[at:end], size_bytes))
            room, room_bytes, at = room - (end - at), room_bytes - size_bytes, end
            if at < len(left):
                yield pieces
                pieces = []
                room, room_bytes = SLOT_RECORDS_MAX, SLOT_BYTES_MAX
    if pieces:
        yield pieces


def _unstored(parcels: Sequence[_Parcel]) -> Iterator[_Parcel]:
    """Parcels that are not stored yet; of several of a call, or a producer, the first.

    The others catch up with it.
    """
    names: set[bytes] = set()
    for parcel in parcels:
        name = parcel.name
        if not parcel.is_over and name not in names:
            names |= {name} if name else set()
            yield parcel


async def _append(at: Access, parcels: Sequence[_Parcel], pieces: Sequence[_Piece]) -> None:
    """Append the pieces, of these parcels, at the next offset, wherever that is by then.

    Not where it turns out that some of the parcels are stored already.
    """
    records = [piece.parcel.records[position] for piece in pieces for position in piece.positions]
    size_bytes = sum(piece.size_bytes for piece in pieces)
    parts = pack_calls(_parts(pieces))
    for _ in range(APPEND_ATTEMPTS_MAX):
        nonce = at.desk.new_token()
        sealing = await at.data_keys.sealing()
        tail = await tails.current(at)
        if any(parcel.numbered for parcel in parcels):
            await producers.known(at, tail)
        if await _look_again(at, parcels, tail) or _catch_up(at, parcels, tail):
            return
        _check_open(tail)
        if not at.cell.has_room(size_bytes):
            # As sends to FIFO queues: what would not get into all cells of a chain must not begin.
            raise CellFullError("the cell is full")
        stamp_us = next_stamp_us(at, tail)
        key = at.log.slot_key(tail.following)
        expires_s = max(tail.expires_s if tail.stamp_us else 0, at.slot_ttl_s(stamp_us))
        slot = {
            **slot_attributes(RECORDS, nonce, stamp_us, expires_s, len(records)),
            "y": size_bytes,
            "yt": tail.total_bytes + size_bytes,
            **({"cp": parts} if parts else {}),
            **producers.attributes(at, tail, _produced(pieces, stamp_us), stamp_us),
            **pack_slot(records, sealing, key, nonce),
        }
        first = tail.following
        if await ends.put_next(at, at.log, tail, slot):
            _note(pieces, first, stamp_us)
            at.signal()
            return
    raise CellUnavailableError("others append to the shard faster than this front end")


async def _look_again(at: Access, parcels: Sequence[_Parcel], tail: Tail) -> bool:
    """Whether others have appended more since a parcel was looked for than is remembered.

    Then it is looked for in the cell, and what was to be appended is to be chosen again.
    """
    following, since = tail.following, at.log.calls.since
    missed = [
        parcel
        for parcel in parcels
        if parcel.known_to is not None and parcel.known_to < since and not parcel.is_over
    ]
    for parcel in missed:
        parcel.stored |= await repeats.look_back(at, parcel.call.name, set(parcel.left))
        parcel.known_to = following
    return bool(missed)


def _catch_up(at: Access, parcels: Sequence[_Parcel], tail: Tail) -> bool:
    """Whether something is stored, or refused, that was not known to be.

    Another attempt of a call may have come first, and its slot be seen only now: it may have been
    under way when it was looked for, or half written in a chain of cells.
    """
    found = False
    for parcel in parcels:
        if parcel.is_over:
            continue
        more: dict[int, Put] = {}
        if parcel.call.name:
            if parts := at.log.calls.of(parcel.call.name):
                more = repeats.among(parts, set(parcel.left))
            # Who comes first, and finds a part, was overtaken: there may be others before.
            was_overtaken = bool(more) and parcel.known_to is None
            parcel.known_to = 0 if was_overtaken else tail.following
        if parcel.numbered is not None and tail.producers is not None:
            try:
                again = producers.put_already(at, tail.producers, parcel.numbered, parcel.left)
                more = dict.fromkeys(again, STORED_BEFORE)
            except RefusedError as refusal:
                parcel.refused = refusal
        parcel.stored |= more
        found = found or bool(more) or parcel.refused is not None
    return found


def _produced(pieces: Sequence[_Piece], stamp_us: int) -> Iterator[Produced]:
    for piece in pieces:
        numbered = piece.parcel.numbered
        if numbered is not None:
            last = numbered.sequences[piece.positions[-1]]
            yield Produced(numbered.name, numbered.epoch, last, stamp_us)


def _parts(pieces: Sequence[_Piece]) -> Iterator[PartOfCall]:
    first = 0
    for piece in pieces:
        if piece.parcel.call.name:
            yield PartOfCall(piece.parcel.call.name, first, _bits(piece.positions))
        first += len(piece.positions)


def _bits(positions: Sequence[int]) -> int:
    """A bit for each of these positions, which ascend."""
    first, last = positions[0], positions[-1]
    if last - first == len(positions) - 1:
        return (1 << last + 1) - (1 << first)
    return sum([1 << position for position in positions])


def _note(pieces: Sequence[_Piece], offset: int, stamp_us: int) -> None:
    for piece in pieces:
        puts = [Put(offset + n, stamp_us) for n in range(len(piece.positions))]
        piece.parcel.stored.update(zip(piece.positions, puts, strict=True))
        offset += len(piece.positions)


def next_stamp_us(at: Access, tail: Tail) -> int:
    """The stamp of the next slot: above all before it, and the present if that is later."""
    return max(tail.stamp_us + 1, at.cell.now_us())


def _check_open(tail: Tail) -> None:
    if tail.end is not None:
        raise ShardClosedError


async def close(at: Access) -> int:
    """Append the end of the shard's log, if it has none: its stamp.

    Nothing is appended behind it. Raises CellUnavailableError.
    """
    for _ in range(APPEND_ATTEMPTS_MAX):
        nonce = at.desk.new_token()
        tail = await tails.current(at)
        if tail.end is not None:
            return tail.stamp_us
        stamp_us = next_stamp_us(at, tail)
        expires_s = max(tail.expires_s, at.slot_ttl_s(stamp_us))
        slot = {
            **slot_attributes(END, nonce, stamp_us, expires_s, 0),
            "yt": tail.total_bytes,
            **producers.attributes(at, tail, (), stamp_us),
        }
        if await ends.put_next(at, at.log, tail, slot):
            at.signal()
            return stamp_us
    raise CellUnavailableError("others append to the shard faster than this front end")
