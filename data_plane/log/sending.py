"""Sending: what arrives while a write is under way shares the next slot, without duplicates."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from data_plane.core.identifiers import random_uuid
from data_plane.core.message import Outgoing, Sent
from data_plane.core.queue import Queue
from data_plane.log import tails
from data_plane.log.bounds import (
    APPEND_AGE_US_MAX,
    APPEND_ATTEMPTS_MAX,
    BLOCK_FULL_MESSAGES,
)
from data_plane.log.desk import Access, Desk, channel, has_group_scope, open_queue
from data_plane.log.partition import Tail
from data_plane.log.slots import (
    MESSAGES,
    PURGE,
    START,
    Hashes,
    PackedFifoMessage,
    Slot,
    common_attributes,
    dedup_hash,
    group_hash,
    pack,
    pack_slot,
    read_slot,
)
from data_plane.log.window import Original, sent
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    CellUnavailableError,
    Item,
    Key,
    Tallies,
    Value,
    Written,
    no_tallies,
)
from data_plane.stored import counting, keys
from data_plane.stored.bounds import SEGMENT_BYTES_MAX, SEGMENT_MESSAGES_MAX
from data_plane.stored.segment import FORMAT_VERSION

PAGE_TTL_SLACK_S = 300 + 3_600
_UUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Parcel:
    """Messages of one call for one partition; they stay together, in their order."""

    queue: Queue
    sender: str
    messages: Sequence[Outgoing]
    groups: Sequence[bytes]
    hashes: Sequence[bytes]
    size_bytes: int


async def send(desk: Desk, queue: Queue, sender: str, messages: Sequence[Outgoing]) -> list[Sent]:
    """Store the messages durably, each once: what became of them, in order. See `Log.send`."""
    partitions = open_queue(desk, queue)
    groups = [group_hash(queue.uid, message.group) for message in messages]
    shares: dict[int, list[int]] = {}
    for position, group in enumerate(groups):
        shares.setdefault(group[0] % len(partitions), []).append(position)
    calls = [
        _send_to(partitions[number], sender, [(messages[p], groups[p]) for p in positions])
        for number, positions in shares.items()
    ]
    if len(calls) == 1:
        return await calls[0]
    outcomes = await desk.waits.all_of(calls)
    answers: list[Sent] = [Sent(b"")] * len(messages)
    for positions, outcome in zip(shares.values(), outcomes, strict=True):
        if isinstance(outcome, Exception):
            raise outcome
        for position, answer in zip(positions, outcome, strict=True):
            answers[position] = answer
    return answers


async def _send_to(
    at: Access, sender: str, messages: Sequence[tuple[Outgoing, bytes]]
) -> list[Sent]:
    queue = at.queue
    group_scope = has_group_scope(queue)
    parcel = _Parcel(
        queue,
        sender,
        [message for message, _ in messages],
        [group for _, group in messages],
        [dedup_hash(queue.uid, message, group_scope=group_scope) for message, _ in messages],
        sum(message.size for message, _ in messages),
    )
    lane = ("log", at.partition.uid, at.partition.number)
    return cast(list[Sent], await at.desk.waits.coalesce(lane, parcel, partial(_flush, at)))


async def _flush(at: Access, entries: list[object]) -> list[object | Exception]:
    outcomes: list[object | Exception] = []
    for chunk in _chunks(cast(list[_Parcel], entries)):
        try:
            outcomes += await _append(at, chunk)
        except Exception as failure:  # noqa: BLE001 - raised to each sender by the caller
            outcomes += [failure] * len(chunk)
    return outcomes


def _chunks(parcels: list[_Parcel]) -> list[list[_Parcel]]:
    """Share the parcels out over slots, in their order."""
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


class _Draft:
    """What of some parcels is to be stored at this stamp, and what their senders are told."""

    def __init__(self, at: Access, tail: Tail, parcels: list[_Parcel], stamp_us: int) -> None:
        self.new: list[PackedFifoMessage] = []
        self.answers: list[list[Sent]] = []
        number = at.partition.number
        originals: dict[bytes, Original] = {}
        for parcel in parcels:
            answers: list[Sent] = []
            for message, group, hashed in zip(
                parcel.messages, parcel.groups, parcel.hashes, strict=True
            ):
                original = originals.get(hashed) or tail.window.find(
                    hashed, stamp_us, parcel.queue.purged_us
                )
                if original is None:
                    message_id = random_uuid(at.desk.entropy.random_bytes(_UUID_BYTES))
                    original = Original(message_id, stamp_us, len(self.new))
                    originals[hashed] = original
                    hashes = Hashes(hashed, message_id, group)
                    self.new.append(pack(message, hashes, parcel.sender))
                answers.append(sent(original, number))
            self.answers.append(answers)


async def _append(at: Access, parcels: list[_Parcel]) -> list[list[Sent]]:
    """Append what is new of the parcels at the next slot, wherever that is by then."""
    nonce = at.desk.new_token()
    for _ in range(APPEND_ATTEMPTS_MAX):
        tail = await tails.current(at)
        stamp_us = max(tail.last.stamp_us + 1, at.cell.now_us())
        draft = _Draft(at, tail, parcels, stamp_us)
        if not draft.new:
            return draft.answers
        count = len(draft.new)
        queue = parcels[-1].queue
        slot = _place(at, tail, MESSAGES, nonce, stamp_us) | pack_slot(draft.new)
        delay_us = queue.delay_s * 1_000_000
        if await put_next(
            at,
            tail,
            slot,
            lambda _before: counting.sent(queue, stamp_us, delay_us, count),  # noqa: B023
        ):
            at.desk.waits.signal(channel(at.queue), count)
            return draft.answers
    raise CellUnavailableError("others append to the log faster than this front end")


def _place(at: Access, tail: Tail, kind: str, nonce: bytes, stamp_us: int) -> dict[str, Value]:
    """The attributes that say where in the log the next slot is."""
    last = tail.last
    expires_s = max(last.expires_s, at.slot_ttl_s(stamp_us))
    full = last.next_index >= BLOCK_FULL_MESSAGES
    return {
        **common_attributes(kind, nonce, stamp_us, expires_s),
        "b": last.number + 1 if full else last.block,
        "i": 0 if full else last.next_index,
        "n": 0,
    }


async def put_next(
    at: Access, tail: Tail, attributes: Attributes, tallies: Tallies = no_tallies
) -> bool:
    """Store the slot behind the tail; False where another writer was faster.

    Raises CellUnavailableError; then the slot may have been stored, and whoever appends next reads
    on before.
    """
    key = at.partition.slot_key(tail.last.number + 1)
    if tail.unsure:
        return False
    tail.unsure = True
    asked_us = at.cell.now_us()
    stored = await _put_beside_page(at, tail, key, attributes, tallies)
    written, record = stored
    if not written.applied and (written.before or {}).get("w") != attributes["w"]:
        return False
    came_us = written.time_ms * 1000
    if came_us >= tail.last.expires_s * 1_000_000 or came_us - tail.seen_us > APPEND_AGE_US_MAX:
        # Others may hold the slot for one that was collected.
        at.partition.tail = None
        raise CellUnavailableError("the slot was stored too late to count")
    tail.take_over(read_slot(Item(key, record)))
    tail.seen_us, tail.unsure = max(tail.seen_us, asked_us), False
    return True


async def _put_beside_page(
    at: Access, tail: Tail, key: Key, attributes: Attributes, tallies: Tallies
) -> tuple[Written, Attributes]:
    """Store the slot and, where one is due, the deduplication page of what lies below it."""
    put = _put(at, key, attributes, tallies)
    if not tail.page_due:
        return await put
    last = tail.last
    stored, page = await at.desk.waits.all_of([put, _write_page(at, tail, last)])
    if isinstance(page, Exception) and not isinstance(page, CellUnavailableError):
        raise page  # One that the cell did not take stays due.
    if isinstance(stored, Exception):
        raise stored
    return cast(tuple[Written, Attributes], stored)


async def _put(
    at: Access, key: Key, attributes: Attributes, tallies: Tallies
) -> tuple[Written, Attributes]:
    written = await at.cell.put(key, attributes, ITEM_ABSENT, tallies)
    return written, attributes


async def _write_page(at: Access, tail: Tail, last: Slot) -> None:
    await at.cell.put(
        Key(at.partition.pages, keys.be64(last.number)),
        {
            "v": FORMAT_VERSION,
            "f": tail.covered + 1,
            "t": last.stamp_us,
            "p": tail.window.purged_us,
            "z": tail.window.pack_after(tail.covered_us),
            "x": last.stamp_us // 1_000_000 + PAGE_TTL_SLACK_S,
        },
    )
    tail.page_written(last)


async def purge(at: Access) -> int:
    """Append a purge: its stamp is above those of all messages sent before."""
    return await _append_record(at, PURGE)


async def append_start(at: Access) -> int:
    """Append a record that raises `x` of all that follow to what the retention asks for."""
    return await _append_record(at, START)


async def _append_record(at: Access, kind: str) -> int:
    nonce = at.desk.new_token()
    for _ in range(APPEND_ATTEMPTS_MAX):
        tail = await tails.current(at)
        stamp_us = max(tail.last.stamp_us + 1, at.cell.now_us())
        if await put_next(at, tail, _place(at, tail, kind, nonce, stamp_us)):
            return stamp_us
    raise CellUnavailableError("others append to the log faster than this front end")
