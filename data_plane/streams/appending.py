"""Appending records: what arrives while a write is under way shares the next slot."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import NamedTuple, cast

from data_plane.core.errors import RefusedError
from data_plane.core.record import STORED_BEFORE, Numbered, OutgoingRecord, Put, PutCall
from data_plane.log import ends
from data_plane.ports import CellUnavailableError
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
    """Records of one call for one shard, and what of them is stored so far.

    `numbered`: as their producer numbers them. A parcel that is `refused` goes no further. What of
    it another attempt has stored in slots below `known_to` is known (None: nobody has looked).
    """

    records: Sequence[OutgoingRecord]
    call: PutCall
    numbered: Numbered | None = None
    stored: list[Put] = field(default_factory=list)
    refused: RefusedError | None = None
    known_to: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is to be stored any more."""
        return self.refused is not None or len(self.stored) == len(self.records)

    @property
    def name(self) -> bytes:
        """What others may have that are not to be stored beside it (b"": none are)."""
        return self.numbered.name if self.numbered is not None else self.call.name


@dataclass(slots=True)
class _Piece:
    """Records of a parcel, from `first` on, that go into one slot."""

    parcel: _Parcel
    first: int
    records: Sequence[OutgoingRecord]
    size_bytes: int


class PutOutcome(NamedTuple):
    """Where the first of the records are, and why not all of them are there, if so.

    After a ShardClosedError the others were not stored; after a CellUnavailableError some may be.
    """

    stored: list[Put]
    failure: Exception | None


async def append(
    at: Access,
    records: Sequence[OutgoingRecord],
    call: PutCall,
    numbered: Numbered | None = None,
) -> PutOutcome:
    """Store the records behind all others of the shard, in their order; durable when it returns.

    Of those that are `numbered` what their producer has put before is not stored again.
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
                parcel.known_to = (await tails.current(at)).following
                parcel.stored += await repeats.find(at, parcel.call.name, len(parcel.records))
        while (pieces := next(_slots(parcels), None)) is not None:
            await _append(at, parcels, pieces)
    except (CellUnavailableError, RefusedError, ShardClosedError) as error:
        failure = error
    return [
        PutOutcome(
            parcel.stored,
            (parcel.refused or failure) if len(parcel.stored) < len(parcel.records) else None,
        )
        for parcel in parcels
    ]


def _slots(parcels: Sequence[_Parcel]) -> Iterator[list[_Piece]]:
    """What is not stored yet of the parcels, slot by slot, in order."""
    pieces: list[_Piece] = []
    room, room_bytes = SLOT_RECORDS_MAX, SLOT_BYTES_MAX
    for parcel in _unstored(parcels):
        records, at = parcel.records, len(parcel.stored)
        before_bytes = [0, *accumulate(record.size_bytes for record in records)]
        while at < len(records):
            fits = bisect_right(before_bytes, before_bytes[at] + room_bytes) - 1
            end = min(max(fits, at), at + room)
            if room == SLOT_RECORDS_MAX:
                end = max(end, at + 1)
            size_bytes = before_bytes[end] - before_bytes[at]
            if end > at:
                pieces.append(_Piece(parcel, at, records[at:end], size_bytes))
            room, room_bytes, at = room - (end - at), room_bytes - size_bytes, end
            if at < len(records):
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
    records = [record for piece in pieces for record in piece.records]
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
        stamp_us = next_stamp_us(at, tail)
        key = at.log.slot_key(tail.following)
        expires_s = max(tail.expires_s if tail.stamp_us else 0, at.slot_ttl_s(stamp_us))
        slot = {
            **slot_attributes(RECORDS, nonce, stamp_us, expires_s, len(records)),
            "y": size_bytes,
            **({"c": parts} if parts else {}),
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
        parts = await repeats.look_back(at, parcel.call.name)
        parcel.stored += repeats.following(parcel.stored, parts)
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
        more: list[Put] = []
        if parcel.call.name:
            more = repeats.following(parcel.stored, at.log.calls.of(parcel.call.name))
            parcel.known_to = tail.following
        if parcel.numbered is not None and tail.producers is not None:
            try:
                before = len(parcel.stored)
                again = producers.put_already(at, tail.producers, parcel.numbered, before)
                more = [STORED_BEFORE] * again
            except RefusedError as refusal:
                parcel.refused = refusal
        parcel.stored += more
        found = found or bool(more) or parcel.refused is not None
    return found


def _produced(pieces: Sequence[_Piece], stamp_us: int) -> Iterator[Produced]:
    for piece in pieces:
        numbered = piece.parcel.numbered
        if numbered is not None:
            last = piece.first + len(piece.records) - 1
            yield Produced(numbered.name, numbered.epoch, numbered.sequences[last], stamp_us)


def _parts(pieces: Sequence[_Piece]) -> Iterator[PartOfCall]:
    first = 0
    for piece in pieces:
        if piece.parcel.call.name:
            yield PartOfCall(piece.parcel.call.name, first, len(piece.records), piece.first)
        first += len(piece.records)


def _note(pieces: Sequence[_Piece], offset: int, stamp_us: int) -> None:
    for piece in pieces:
        piece.parcel.stored += [Put(offset + n, stamp_us) for n in range(len(piece.records))]
        offset += len(piece.records)


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
            **producers.attributes(at, tail, (), stamp_us),
        }
        if await ends.put_next(at, at.log, tail, slot):
            at.signal()
            return stamp_us
    raise CellUnavailableError("others append to the shard faster than this front end")
