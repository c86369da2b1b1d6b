"""Sending: messages that arrive while a write is under way share the next segment."""

from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from data_plane.bag import fair, upkeep
from data_plane.bag.bounds import (
    BLOCK_FULL_MESSAGES,
    CALL_LOOKBACK_SEGMENTS_MAX,
    CALL_LOOKBACK_US,
    SAME_KEY_US_MAX,
)
from data_plane.bag.calls import (
    UNMARKED_CALL,
    CallPart,
    find_parts,
    ids_of_parts,
    known_ids,
)
from data_plane.bag.desk import Access, Attempt, Desk, channel, open_lane
from data_plane.bag.tenants import NO_TAG, tag_of
from data_plane.core.deadline import left_us
from data_plane.core.errors import RefusedError
from data_plane.core.message import Outgoing, SendCall, Stored
from data_plane.core.queue import Queue
from data_plane.ports import (
    SETTLE_US,
    Append,
    CellFullError,
    CellUnavailableError,
    DeadlinePassedError,
    Item,
    Key,
    Tally,
    Value,
    is_replicated,
)
from data_plane.stored import counting, keys
from data_plane.stored.bodies import check_in_time
from data_plane.stored.bounds import (
    DATA_TTL_SLACK_S,
    LONG_WORK_BYTES,
    QUERY_PAGE,
)
from data_plane.stored.coalescing import coalesce
from data_plane.stored.ledger import CallToSend, SentCall, call_units, calls_attributes
from data_plane.stored.merging import is_needed
from data_plane.stored.parcels import chunks_of
from data_plane.stored.partly import failure_of
from data_plane.stored.segment import (
    FORMAT_VERSION,
    CallInSegment,
    LoadedSegment,
    PackedMessage,
    number,
    octets,
    pack_calls,
    pack_message,
    pack_tags,
    seal,
    seal_in_slices,
    segment_name,
)

MESSAGE_ID_BYTES = 16
_UUID_VERSION, _UUID_VARIANT = 6, 8


class _Parcel(msgspec.Struct, frozen=True):
    """Messages of one call for one lane with one delay; they stay together.

    `tags` name their groups; empty where none has one.
    """

    queue: Queue
    messages: list[PackedMessage]
    tags: Sequence[bytes]
    size_bytes: int
    part: CallPart
    counted: SentCall


async def send(desk: Desk, queue: Queue, call: SendCall, stored: Stored) -> list[bytes]:
    """Store the messages durably: their 16-byte ids, in order. See `Bag.send`."""
    at = open_lane(desk, queue)
    name, found = call.name, dict[int, bytes]()
    if name == UNMARKED_CALL:
        return await _send_others(at, call, stored, found)
    if call.repeated or name in desk.calls_under_way:
        found = await _earlier_attempt(at, call)
        if len(found) == len(call.messages):
            return [found[position] for position in range(len(found))]
    desk.begin_call(name)
    try:
        return await _send_others(at, call, stored, found)
    finally:
        desk.end_call(name)


async def _send_others(
    at: Access, call: SendCall, stored: Stored, found: dict[int, bytes]
) -> list[bytes]:
    """Send what was not found: the ids of all messages."""
    messages = call.messages
    units = call_units(message.size for message in messages)
    counted = CallToSend(call.batch, units, stored)
    if len(messages) == 1 and not messages[0].group:
        await _send_part(at, call, counted, (0,), _delay_s(at, messages[0]), found)
        return [found[0]]
    positions = [p for p in range(len(messages)) if p not in found]
    delays_s = [_delay_s(at, messages[p]) for p in positions]
    lanes = [0] * len(positions)
    if any(messages[p].group for p in positions):
        lanes = await fair.place(at, [messages[p].group for p in positions], delays_s)
    parts: dict[tuple[int, int], list[int]] = {}
    for position, lane, delay_s in zip(positions, lanes, delays_s, strict=True):
        parts.setdefault((lane, delay_s), []).append(position)
    calls: list[Coroutine[Any, Any, object]] = [
        _send_part(at.in_lane(lane), call, counted, chosen, delay_s, found)
        for (lane, delay_s), chosen in parts.items()
    ]
    news = fair.news(at)
    if news is not None:
        calls.append(news)
    outcomes: list[object]
    try:
        outcomes = [await calls[0]] if len(calls) == 1 else [*await at.desk.waits.all_of(calls)]
    except RefusedError as refusal:
        outcomes = [refusal]
    failure = failure_of(outcomes, is_stored=bool(found))
    if failure is not None:
        raise failure
    return [found[position] for position in range(len(messages))]


def _delay_s(at: Access, message: Outgoing) -> int:
    return at.queue.delay_s if message.delay_s is None else message.delay_s


async def _send_part(  # noqa: PLR0913, PLR0917 - what is sent, and where
    at: Access,
    call: SendCall,
    counted: CallToSend,
    positions: Sequence[int],
    delay_s: int,
    ids: dict[int, bytes],
) -> None:
    """Store these messages, and note their ids by position."""
    desk, messages = at.desk, [call.messages[position] for position in positions]
    new_ids = [_message_id(desk) for _ in messages]
    has_groups = any(message.group for message in messages)
    size_bytes = sum(message.size for message in messages)
    share = counted.share(positions, len(messages), size_bytes)
    parcel = _Parcel(
        at.queue,
        [
            pack_message(message_id, message, call.sender)
            for message_id, message in zip(new_ids, messages, strict=True)
        ],
        [tag_of(at.queue, message.group) for message in messages] if has_groups else (),
        size_bytes,
        CallPart(call.name, positions, len(call.messages), new_ids),
        share,
    )
    lane, flush = (at.lane.uid, at.lane.number, delay_s), partial(_flush, at, delay_s * 1_000_000)
    if call.name == UNMARKED_CALL:
        await coalesce(desk, lane, parcel, flush)
    else:
        # Who sends may be let go before it is known what was stored; its repetition then waits.
        desk.begin_call(call.name)
        await coalesce(desk, lane, parcel, flush, partial(desk.end_call, call.name))
    counted.note(share)
    ids.update(zip(positions, new_ids, strict=True))


def _message_id(desk: Desk) -> bytes:
    """Sixteen random bytes in the form of a version 4 UUID (RFC 9562)."""
    raw = bytearray(desk.entropy.random_bytes(MESSAGE_ID_BYTES))
    raw[_UUID_VERSION] = raw[_UUID_VERSION] & 0x0F | 0x40
    raw[_UUID_VARIANT] = raw[_UUID_VARIANT] & 0x3F | 0x80
    return bytes(raw)


async def _flush(at: Access, delay_us: int, entries: list[object]) -> list[Exception | None]:
    parcels = cast(list[_Parcel], entries)
    chunks = chunks_of(parcels)
    written = await at.desk.waits.all_of([_append(at, delay_us, chunk) for chunk in chunks])
    outcomes: list[Exception | None] = []
    for chunk, outcome in zip(chunks, written, strict=True):
        failed = outcome if isinstance(outcome, Exception) else None
        outcomes += [failed] * len(chunk)
    return outcomes


async def _append(at: Access, delay_us: int, parcels: list[_Parcel]) -> None:
    messages = [message for parcel in parcels for message in parcel.messages]
    queue = at.lanes.newest(parcels[-1].queue)
    attributes, suffix = await _sealed_segment(at, parcels, messages)
    size_bytes = number(attributes, "y")
    if attributes.get("r") != 0 and not at.cell.has_room(size_bytes):
        # Others of a group may have room. Nobody would know what became of what they took.
        raise CellFullError("the cell is full")

    def tallies(stamp_us: int) -> Iterator[Tally]:
        yield from counting.sent(queue, stamp_us, delay_us, len(messages), size_bytes)
        yield from at.desk.ledgers.tallies(queue, stamp_us, (one.counted for one in parcels))

    proposed_us = at.proposed_us()
    attributes["x"] = _expires_s(queue, proposed_us + delay_us)
    record = Append(at.lane.segments, suffix, attributes, proposed_us, delay_us, tallies)
    if at.bodies is not None:
        record = await at.bodies.put_apart(
            record, (message[0] for message in messages), at.now_us()
        )
    parts = [parcel.part for parcel in parcels if parcel.part.call != UNMARKED_CALL]
    await store(at, Attempt(record, parts, at.lane.number))
    at.desk.waits.signal(channel(at.lane), len(messages))


async def store(at: Access, attempt: Attempt) -> None:
    """Append a segment, also one of which nobody knows whether it was stored before.

    Stamps that the writer proposes make that the same item under the same key; a request that the
    store gets after its sender has given up then changes nothing either.
    """
    desk, record = at.desk, attempt.record
    try:
        with desk.sent.sending(at.queue, record.proposed_us) as sending:
            appended = await at.cell.append(record)
            sending.stored(record.attributes)
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
    for part in attempt.parts:
        desk.remember_call(part, appended.stamp_us, at.purged_us)


async def _sealed_segment(
    at: Access, parcels: list[_Parcel], messages: list[PackedMessage]
) -> tuple[dict[str, Value], bytes]:
    """The item without its time to live, and its key's suffix."""
    sealing = await at.desk.data_keys.of(parcels[-1].queue).sealing()
    attributes, suffix = _segment(at, parcels, len(messages))
    partition, name = at.lane.segments, segment_name(at.lane.open_block, suffix[-1])
    if number(attributes, "y") > LONG_WORK_BYTES:
        slices = seal_in_slices(messages, sealing, partition, *name)
        return attributes | await at.desk.waits.in_turns(slices), suffix
    return attributes | seal(messages, sealing, partition, *name), suffix


def _segment(at: Access, parcels: list[_Parcel], count: int) -> tuple[dict[str, Value], bytes]:
    """The item without its messages and its time to live, and its key's suffix.

    Takes places in the open block.
    """
    lane = at.lane
    if lane.next_index >= BLOCK_FULL_MESSAGES:
        lane.open_block, lane.next_index = at.desk.new_block(), 0
    first = lane.next_index
    lane.next_index += count
    attributes: dict[str, Value] = {
        "v": FORMAT_VERSION,
        "k": "s",
        "b": lane.open_block,
        "i": first,
        "n": count,
        "y": sum([parcel.size_bytes for parcel in parcels]),
        **calls_attributes([parcel.counted for parcel in parcels], count),
    }
    if lane.next_index >= BLOCK_FULL_MESSAGES:
        attributes["f"] = lane.next_index
    calls, offset = [], 0
    for parcel in parcels:
        if parcel.part.call != UNMARKED_CALL:
            calls.append(CallInSegment(parcel.part.name, offset, len(parcel.messages)))
        offset += len(parcel.messages)
    if calls:
        attributes["c"] = pack_calls(calls)
    if any(parcel.tags for parcel in parcels):
        tags = [tag for parcel in parcels for tag in parcel.tags or [NO_TAG] * len(parcel.messages)]
        attributes["u"] = pack_tags(tags)
    return attributes, lane.open_block + bytes((first,))


async def _earlier_attempt(at: Access, call: SendCall) -> dict[int, bytes]:
    """The ids that earlier attempts of the call were given, by position: what was stored."""
    desk, name, messages = at.desk, call.name, call.messages
    while name in desk.calls_under_way:
        desk.calls_awaited[name] = desk.calls_awaited.get(name, 0) + 1
        seen = desk.waits.signals(("call", name))
        left = left_us(at.now_us())
        if left is not None and left <= 0:
            raise DeadlinePassedError("an earlier attempt of the call is still under way")
        # Set anew each time: past its end, this would spin and hold up everybody.
        wait_us = CALL_LOOKBACK_US if left is None else min(left, CALL_LOOKBACK_US)
        await desk.waits.wait_for(("call", name), seen, at.now_us() + wait_us)
    for unsure in desk.unsure_attempts(name):
        # Stored again as it is, it would be purged: what is sent after a purge goes above it.
        if _is_purged(at, unsure.record.proposed_us) or _may_be_collected(at, unsure.record):
            desk.forget_unsure(unsure)
        else:
            await store(at.in_lane(unsure.lane), _living_longer(at, unsure))
    found = known_ids(desk.ids_of_call(name, at.purged_us))
    if len(found) == len(messages):
        return found
    # By the cell's time, which stamped what is looked for: this front end's clock may be off, and
    # what it knows of the cell's time may be old until the cell answers.
    await fair.learn(at)
    by_delay: dict[int, set[int]] = {}
    for position, message in enumerate(messages):
        by_delay.setdefault(_delay_s(at, message), set()).add(position)
    deepest = at.lanes.deepest if any(message.group for message in messages) else 0
    for delay_s, positions in by_delay.items():
        for lane in range(deepest + 1):
            if not positions <= found.keys():
                at_lane = at.in_lane(lane)
                found |= await _look_back(at_lane, call, delay_s * 1_000_000, positions)
    return found


def _is_purged(at: Access, stamp_us: int) -> bool:
    return stamp_us <= at.purged_us


def _living_longer(at: Access, unsure: Attempt) -> Attempt:
    """The attempt with the time to live of the present retention, where that was raised meanwhile.

    Who raised it has raised that of what was stored, which must not fall.
    """
    desk, record = at.desk, unsure.record
    expires_s = _expires_s(at.queue, record.proposed_us + record.delay_us)
    if expires_s <= number(record.attributes, "x"):
        return unsure
    attributes = {**record.attributes, "x": expires_s}
    longer = unsure._replace(record=msgspec.structs.replace(record, attributes=attributes))
    desk.keep_unsure(longer)
    desk.forget_unsure(unsure)
    return longer


def _expires_s(queue: Queue, visible_us: int) -> int:
    return visible_us // 1_000_000 + queue.retention_s + DATA_TTL_SLACK_S


def _may_be_collected(at: Access, record: Append) -> bool:
    """Whether a segment, if it was stored, may have been received, deleted and collected since.

    Under its key it would be new then, with ids that consumers have deleted.
    """
    cell = at.cell
    if not (is_replicated(cell) and cell.collects()):
        return False
    visible_us = record.proposed_us + record.delay_us
    return at.cell.now_us() - visible_us > SAME_KEY_US_MAX


async def _look_back(
    at: Access, call: SendCall, delay_us: int, wanted: set[int]
) -> dict[int, bytes]:
    """Ids of messages of the call that were sent to this lane with this delay, by position."""
    found: dict[int, bytes] = {}
    visible_us = at.cell.now_us() + delay_us
    if not at.cell.chooses_stamps:
        visible_us += SETTLE_US  # the stamp may be ahead of what this front end takes for now
    after = keys.be64(max(0, visible_us - CALL_LOOKBACK_US))
    until = keys.be64(visible_us) + keys.AFTER_SLICE
    for _ in range(CALL_LOOKBACK_SEGMENTS_MAX // QUERY_PAGE):
        page = await at.cell.query(
            at.lane.segments, after=after, until=until, limit=QUERY_PAGE, reverse=True
        )
        for item in page:
            if _is_purged(at, number(item.attributes, "t")):
                continue
            earlier = await _ids_in(at, item, call)
            if earlier and await make_known(at, item):
                found |= earlier
        if not page or wanted <= found.keys():
            break
        until = keys.before(page[-1].key.sort)
    return found


async def _ids_in(at: Access, item: Item, call: SendCall) -> dict[int, bytes]:
    if item.attributes["k"] != "s":
        return {}
    parts = find_parts(item.attributes, call.name, len(call.messages))
    if not parts:
        return {}
    segment = LoadedSegment(item.key, item.attributes)
    opener = await at.data_keys.opener((segment,))
    failure = opener.failure(segment)
    if failure is not None:
        raise failure
    return ids_of_parts(segment, parts, opener.unseal)


async def make_known(at: Access, segment: Item) -> bool:
    """See that readers find a segment of which nobody knows what was done to that end.

    False where it is not stored: it was collected, or seen in a copy that was lost since.
    """
    if is_replicated(at.cell):
        state = Key(at.lane.states, octets(segment.attributes, "b"))
        if not await at.cell.complete(segment.key, state, is_needed):
            return False
    await fair.announce(at)
    if not at.cell.chooses_stamps:
        # Nobody knows when it arrived: an attempt that nobody answered stored it.
        await upkeep.announce(at, segment.key, segment.attributes)
    return True
