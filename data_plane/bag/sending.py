"""Sending: messages that arrive while a write is under way share the next segment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from data_plane.bag import upkeep
from data_plane.bag.bounds import BLOCK_FULL_MESSAGES, CALL_LOOKBACK_SEGMENTS_MAX, CALL_LOOKBACK_US
from data_plane.bag.desk import Access, Attempt, Desk, channel, open_lane
from data_plane.core.message import Outgoing
from data_plane.core.queue import Queue
from data_plane.ports import (
    SETTLE_US,
    Append,
    Attributes,
    CellFullError,
    CellUnavailableError,
)
from data_plane.stored import counting, keys
from data_plane.stored.bodies import check_in_time
from data_plane.stored.bounds import (
    DATA_TTL_SLACK_S,
    QUERY_PAGE,
    SEGMENT_BYTES_MAX,
    SEGMENT_MESSAGES_MAX,
)
from data_plane.stored.segment import (
    FORMAT_VERSION,
    CallInSegment,
    PackedMessage,
    find_call,
    message_ids,
    pack_calls,
    pack_message,
    seal,
)

UNMARKED_CALL = b""
MESSAGE_ID_BYTES = 16
_UUID_VERSION, _UUID_VARIANT = 6, 8


@dataclass(frozen=True, slots=True)
class _Parcel:
    """Messages of one call with one delay; they stay together."""

    queue: Queue
    messages: list[PackedMessage]
    size_bytes: int
    call: bytes


@dataclass(frozen=True, slots=True)
class Submission:
    """What a send call brings: see `Bag.send`."""

    sender: str
    messages: Sequence[Outgoing]
    call: bytes
    repeated: bool


async def send(desk: Desk, queue: Queue, submission: Submission) -> list[bytes]:
    """Store the messages durably: their 16-byte ids, in order. See `Bag.send`."""
    at = open_lane(desk, queue)
    messages, call = submission.messages, submission.call
    delays = [queue.delay_s if m.delay_s is None else m.delay_s for m in messages]
    by_delay: dict[int, list[int]] = {}
    for position, delay_s in enumerate(delays):
        by_delay.setdefault(delay_s, []).append(position)
    if len(by_delay) == 1:
        return await _send_together(at, submission, delays[0])
    ids: list[bytes] = [b""] * len(messages)
    outcomes = await desk.waits.all_of(
        [
            _send_together(
                at,
                replace(
                    submission,
                    messages=[messages[p] for p in positions],
                    call=_part_of(call, delay_s),
                ),
                delay_s,
            )
            for delay_s, positions in by_delay.items()
        ]
    )
    for positions, outcome in zip(by_delay.values(), outcomes, strict=True):
        if isinstance(outcome, Exception):
            raise outcome
        for position, message_id in zip(positions, outcome, strict=True):
            ids[position] = message_id
    return ids


def _part_of(call: bytes, delay_s: int) -> bytes:
    """A name for the part of a call that has this delay."""
    if call == UNMARKED_CALL:
        return call
    return (int.from_bytes(call, "big") ^ (delay_s + 1)).to_bytes(16, "big")


async def _send_together(at: Access, submission: Submission, delay_s: int) -> list[bytes]:
    desk, call = at.desk, submission.call
    if call != UNMARKED_CALL:
        if submission.repeated or call in desk.calls_under_way:
            found = await _earlier_attempt(at, delay_s * 1_000_000, call)
            if found is not None:
                return found
        desk.calls_under_way.add(call)
    ids = [_message_id(desk) for _ in submission.messages]
    parcel = _Parcel(
        at.queue,
        [
            pack_message(message_id, message, submission.sender)
            for message_id, message in zip(ids, submission.messages, strict=True)
        ],
        sum(message.size for message in submission.messages),
        call,
    )
    try:
        await desk.waits.coalesce(
            (at.lane.uid, delay_s), parcel, partial(_flush, at, delay_s * 1_000_000)
        )
    finally:
        if call != UNMARKED_CALL:
            desk.calls_under_way.discard(call)
            if call in desk.calls_awaited:
                desk.waits.signal(("call", call), desk.calls_awaited.pop(call))
    return ids


def _message_id(desk: Desk) -> bytes:
    """Sixteen random bytes in the form of a version 4 UUID (RFC 9562)."""
    raw = bytearray(desk.entropy.random_bytes(MESSAGE_ID_BYTES))
    raw[_UUID_VERSION] = raw[_UUID_VERSION] & 0x0F | 0x40
    raw[_UUID_VARIANT] = raw[_UUID_VARIANT] & 0x3F | 0x80
    return bytes(raw)


async def _flush(at: Access, delay_us: int, entries: list[object]) -> list[Exception | None]:
    parcels = cast(list[_Parcel], entries)
    chunks = _chunks(parcels)
    written = await at.desk.waits.all_of([_append(at, delay_us, chunk) for chunk in chunks])
    outcomes: list[Exception | None] = []
    for chunk, outcome in zip(chunks, written, strict=True):
        failed = outcome if isinstance(outcome, Exception) else None
        outcomes += [failed] * len(chunk)
    return outcomes


def _chunks(parcels: list[_Parcel]) -> list[list[_Parcel]]:
    """Share the parcels out over segments."""
    chunks: list[list[_Parcel]] = []
    room = room_bytes = 0
    for parcel in parcels:
        if not chunks or len(parcel.messages) > room or parcel.size_bytes > room_bytes:
            chunks.append([])
            room, room_bytes = SEGMENT_MESSAGES_MAX, SEGMENT_BYTES_MAX
        chunks[-1].append(parcel)
        room -= len(parcel.messages)
        room_bytes -= parcel.size_bytes
    return chunks


async def _append(at: Access, delay_us: int, parcels: list[_Parcel]) -> None:
    messages = [message for parcel in parcels for message in parcel.messages]
    attributes, suffix = _segment(at, delay_us, parcels, messages)
    queue = parcels[-1].queue
    record = Append(
        at.lane.segments,
        suffix,
        attributes,
        at.proposed_us(),
        delay_us,
        lambda stamp_us: counting.sent(queue, stamp_us, delay_us, len(messages)),
    )
    if at.bodies is not None:
        record = await at.bodies.put_apart(record, (message[0] for message in messages))
    ids = {p.call: b"".join(m[0] for m in p.messages) for p in parcels if p.call != UNMARKED_CALL}
    await store(at, Attempt(record, ids))
    at.desk.waits.signal(channel(at.lane), len(messages))


async def store(at: Access, attempt: Attempt) -> None:
    """Append a segment, also one of which nobody knows whether it was stored before.

    Stamps that the writer proposes make that the same item under the same key; a request that the
    store gets after its sender has given up then changes nothing either.
    """
    desk, record = at.desk, attempt.record
    try:
        appended = await at.cell.append(record)
    except CellFullError:
        raise
    except CellUnavailableError:
        if not at.cell.chooses_stamps:
            desk.keep_unsure(attempt)
        raise
    desk.forget_unsure(attempt)
    check_in_time(record, appended)
    if upkeep.came_late(at, appended):
        await upkeep.announce(at, appended.key, record.attributes)
    for call, ids in attempt.ids.items():
        desk.remember_call(call, ids)


def _segment(
    at: Access, delay_us: int, parcels: list[_Parcel], messages: list[PackedMessage]
) -> tuple[Attributes, bytes]:
    """The item and its key's suffix; takes the messages' places in the open block."""
    lane = at.lane
    if lane.next_index >= BLOCK_FULL_MESSAGES:
        lane.open_block, lane.next_index = at.desk.new_block(), 0
    first = lane.next_index
    lane.next_index += len(messages)
    envelope, sealed = seal(messages)
    visible_s = (at.now_us() + delay_us) // 1_000_000
    attributes: dict[str, int | str | bytes | frozenset[int]] = {
        "v": FORMAT_VERSION,
        "k": "s",
        "b": lane.open_block,
        "i": first,
        "n": len(messages),
        "y": sum(parcel.size_bytes for parcel in parcels),
        "e": envelope,
        "z": sealed,
        "x": visible_s + parcels[-1].queue.retention_s + DATA_TTL_SLACK_S,
    }
    if lane.next_index >= BLOCK_FULL_MESSAGES:
        attributes["f"] = lane.next_index
    calls, offset = [], 0
    for parcel in parcels:
        if parcel.call != UNMARKED_CALL:
            calls.append(CallInSegment(parcel.call, offset, len(parcel.messages)))
        offset += len(parcel.messages)
    if calls:
        attributes["c"] = pack_calls(calls)
    return attributes, lane.open_block + bytes((first,))


async def _earlier_attempt(at: Access, delay_us: int, call: bytes) -> list[bytes] | None:
    """The ids that an earlier attempt of the call was given, if one was stored."""
    desk = at.desk
    while call in desk.calls_under_way:
        desk.calls_awaited[call] = desk.calls_awaited.get(call, 0) + 1
        seen = desk.waits.signals(("call", call))
        # The deadline is set anew each time: past one, this would spin and hold up everybody.
        await desk.waits.wait_for(("call", call), seen, at.now_us() + CALL_LOOKBACK_US)
    unsure = desk.unsure_attempt(call)
    if unsure is not None:
        await store(at, unsure)
    ids = desk.ids_of_call(call)
    if ids is not None:
        return [ids[i : i + MESSAGE_ID_BYTES] for i in range(0, len(ids), MESSAGE_ID_BYTES)]
    # By the cell's time, which stamped what is looked for: this front end's clock may be off, and
    # what it knows of the cell's time may be old until the cell answers.
    await at.cell.get(at.lane.low_water_key)
    visible_us = at.cell.now_us() + delay_us
    if not at.cell.chooses_stamps:
        visible_us += SETTLE_US  # the stamp may be ahead of what this front end takes for now
    after = keys.be64(max(0, visible_us - CALL_LOOKBACK_US))
    until = keys.be64(visible_us) + keys.AFTER_SLICE
    for _ in range(CALL_LOOKBACK_SEGMENTS_MAX // QUERY_PAGE):
        page = await at.cell.query(
            at.lane.segments, after=after, until=until, limit=QUERY_PAGE, reverse=True
        )
        for found in page:
            earlier = _ids_of(found.attributes, call)
            if earlier is not None:
                if not at.cell.chooses_stamps:
                    # Nobody knows when it arrived: an attempt that nobody answered stored it.
                    await upkeep.announce(at, found.key, found.attributes)
                return earlier
        if not page:
            return None
        until = keys.before(page[-1].key.sort)
    return None


def _ids_of(item: Attributes, call: bytes) -> list[bytes] | None:
    if item["k"] != "s":
        return None
    place = find_call(item, call)
    return None if place is None else message_ids(item, place.offset, place.count)
