"""Sending: what arrives while a write is under way shares the next slot, without duplicates."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from data_plane.core.digests import deduplication_hash, group_hash
from data_plane.core.errors import RefusedError
from data_plane.core.identifiers import random_uuid
from data_plane.core.message import Outgoing, Sent, Stored
from data_plane.core.queue import Queue
from data_plane.log import generations, tails
from data_plane.log.appending import (
    EndedError,
    check_open,
    next_stamp_us,
    place,
    put_next,
)
from data_plane.log.bounds import APPEND_ATTEMPTS_MAX, MOVED_ON_MAX
from data_plane.log.desk import Access, Desk, access_of, channel, has_group_scope
from data_plane.log.generations import Inherited
from data_plane.log.partition import Tail
from data_plane.log.slots import (
    MESSAGES,
    Hashes,
    PackedFifoMessage,
    pack,
    pack_slot,
)
from data_plane.log.window import sent, sequence_number
from data_plane.ports import Attributes, CellFullError, CellUnavailableError, Tally
from data_plane.stored import counting
from data_plane.stored.coalescing import coalesce
from data_plane.stored.ledger import CallToSend, SentCall, call_units, calls_attributes
from data_plane.stored.parcels import chunks_of
from data_plane.stored.partly import failure_of

_UUID_BYTES = 16

MayAppend = Callable[[Access, Tail, int], CellUnavailableError | None]
"""Why something is not to be stored behind this tail with this stamp, if there is a reason."""


def at_any_time(_at: Access, _tail: Tail, _stamp_us: int) -> None:
    """What is sent may be stored wherever the log ends by then."""


@dataclass(frozen=True, slots=True)
class _Parcel:
    """Messages of one call for one partition; they stay together, in their order.

    Of each message's `hashes` the first is kept with it. The second is what it has in common with
    messages that were sent while the queue had the other scope of deduplication. They are stored
    only where they `may` be.
    """

    queue: Queue
    sender: str
    messages: Sequence[Outgoing]
    groups: Sequence[bytes]
    hashes: Sequence[tuple[bytes, bytes]]
    size_bytes: int
    may: MayAppend
    call: CallToSend | None


async def send(  # noqa: PLR0913 - what is sent, and how
    desk: Desk,
    queue: Queue,
    sender: str,
    messages: Sequence[Outgoing],
    may: MayAppend = at_any_time,
    *,
    batch: bool | None = None,
    stored: Stored | None = None,
) -> list[Sent]:
    """Store the messages durably, each once: what became of them, in order. See `Log.send`.

    They are a call of SendMessage, or of its `batch`; None: nobody sends them, they are moved.
    What is no duplicate is added to `stored`.
    Raises what `may` says, too.
    """
    call = None
    if batch is not None:
        units = call_units(message.size for message in messages)
        call = CallToSend(batch, units, stored or Stored())
    for moved_on in range(MOVED_ON_MAX):
        try:
            return await _send(desk, queue, sender, messages, may, call)
        except EndedError:
            continue  # What was stored of them is a duplicate now.
        except RefusedError as refusal:
            if not moved_on:
                raise
            raise CellUnavailableError(f"a part of the call may be stored: {refusal}") from refusal
    raise CellUnavailableError("the queue's throughput limit changes faster than it is written to")


async def _send(  # noqa: PLR0913, PLR0917 - as above
    desk: Desk,
    queue: Queue,
    sender: str,
    messages: Sequence[Outgoing],
    may: MayAppend,
    call: CallToSend | None,
) -> list[Sent]:
    generation = desk.generations(queue)[-1]
    groups = [group_hash(queue, message.group) for message in messages]
    shares: dict[int, list[int]] = {}
    for position, group in enumerate(groups):
        shares.setdefault(group[0] % generation.partitions, []).append(position)
    if len(shares) == 1:
        at = access_of(desk, queue, next(iter(shares)), generation.number)
        return await _send_to(at, sender, messages, groups, may, call)
    outcomes = await desk.waits.all_of(
        [
            _send_to(
                access_of(desk, queue, number, generation.number),
                sender,
                [messages[position] for position in positions],
                [groups[position] for position in positions],
                may,
                call,
            )
            for number, positions in shares.items()
        ]
    )
    answers = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    failure = failure_of(outcomes, is_stored=bool(answers))
    if failure is not None:
        raise failure
    by_position: list[Sent] = [Sent(b"")] * len(messages)
    for positions, share in zip(shares.values(), answers, strict=True):
        for position, answer in zip(positions, share, strict=True):
            by_position[position] = answer
    return by_position


async def _send_to(  # noqa: PLR0913, PLR0917 - as above
    at: Access,
    sender: str,
    messages: Sequence[Outgoing],
    groups: Sequence[bytes],
    may: MayAppend,
    call: CallToSend | None,
) -> list[Sent]:
    queue = at.queue
    parcel = _Parcel(
        queue,
        sender,
        messages,
        groups,
        [_deduplication_hashes(queue, message) for message in messages],
        sum(message.size for message in messages),
        may,
        call,
    )
    lane = ("log", at.partition.slots)
    try:
        return cast(list[Sent], await coalesce(at.desk, lane, parcel, partial(_flush, at)))
    except EndedError:
        if call is not None:
            call.share(parcel.hashes, 0, 0)
        raise


def _deduplication_hashes(queue: Queue, message: Outgoing) -> tuple[bytes, bytes]:
    by_group = deduplication_hash(queue, message.group, message.deduplication_id)
    by_queue = deduplication_hash(queue, "", message.deduplication_id)
    return (by_group, by_queue) if has_group_scope(queue) else (by_queue, by_group)


async def _flush(at: Access, entries: list[object]) -> list[object | Exception]:
    outcomes: list[object | Exception] = []
    for chunk in chunks_of(cast(list[_Parcel], entries)):
        try:
            outcomes += await _append(at, chunk)
        except Exception as failure:  # noqa: BLE001 - raised to each sender by the caller
            outcomes += [failure] * len(chunk)
    return outcomes


class _Draft:
    """What of some parcels is to be stored at this stamp, and what their senders are told."""

    def __init__(
        self,
        at: Access,
        tail: Tail,
        earlier: Inherited,
        parcels: list[_Parcel],
        stamp_us: int,
    ) -> None:
        self.new: list[PackedFifoMessage] = []
        self.shares: list[tuple[CallToSend, SentCall]] = []
        self.answers: list[list[Sent] | CellUnavailableError] = []
        number = at.partition.number
        first = sequence_number(stamp_us, number, 0)
        windows = [(tail.window, number), *earlier]
        known: dict[bytes, Sent] = {}
        for parcel in parcels:
            refusal = parcel.may(at, tail, stamp_us)
            if refusal is not None:
                self.answers.append(refusal)
                continue
            answers: list[Sent] = []
            before = len(self.new)
            # Logs that have an end get no purges any more.
            purged_us = max(tail.window.purged_us, parcel.queue.purged_us)
            for message, group, (hashed, hashed_before) in zip(
                parcel.messages, parcel.groups, parcel.hashes, strict=True
            ):
                answer = (
                    known.get(hashed)
                    or _find(windows, hashed, stamp_us, purged_us)
                    or known.get(hashed_before)
                    or _find(windows, hashed_before, stamp_us, purged_us)
                )
                if answer is None:
                    message_id = (
                        message.moved.id
                        if message.moved is not None
                        else random_uuid(at.desk.entropy.random_bytes(_UUID_BYTES))
                    )
                    answer = Sent(message_id, first + len(self.new))
                    hashes = Hashes(hashed, message_id, group)
                    self.new.append(pack(message, hashes, parcel.sender))
                    known[hashed] = answer
                answers.append(answer)
            self.answers.append(answers)
            new = self.new[before:]
            if parcel.call is not None:
                size_bytes = sum(message.size_bytes for message in new)
                # Not by the parcel, which leads to the call: both, and all messages with them,
                # would stay in memory until somebody looks for cycles.
                share = parcel.call.share(parcel.hashes, len(new), size_bytes)
                self.shares += [(parcel.call, share)] if new else []

    @property
    def calls(self) -> list[SentCall]:
        """What is stored says so much of calls."""
        return [share for _, share in self.shares]


def _find(windows: Inherited, hashed: bytes, stamp_us: int, purged_us: int) -> Sent | None:
    for window, number in windows:
        original = window.find(hashed, stamp_us, purged_us)
        if original is not None:
            return sent(original, number)
    return None


async def _append(at: Access, parcels: list[_Parcel]) -> list[list[Sent] | CellUnavailableError]:
    """Append what is new of the parcels at the next slot, wherever that is by then."""
    for _ in range(APPEND_ATTEMPTS_MAX):
        nonce = at.desk.new_token()
        sealing = await at.desk.data_keys.of(parcels[-1].queue).sealing()
        earlier = await generations.inherited(at)
        tail = await tails.current(at)
        check_open(at, tail)
        stamp_us = next_stamp_us(at, tail)
        draft = _Draft(at, tail, earlier, parcels, stamp_us)
        if not draft.new:
            return draft.answers
        count = len(draft.new)
        queue = parcels[-1].queue
        key = at.partition.slot_key(tail.last.number + 1)
        calls = calls_attributes(draft.calls, count)
        if calls.get("r") != 0 and not at.cell.has_room(
            sum(message.size_bytes for message in draft.new)
        ):
            # A chain's first member may have room where others have none. They have some left for
            # what is decided, and what would not get into them all must not be.
            raise CellFullError("the cell is full")
        slot = {
            **place(at, tail, MESSAGES, nonce, stamp_us),
            **calls,
            **pack_slot(draft.new, sealing, key, nonce),
        }
        tallies = partial(_tallies, at, queue, stamp_us, draft)
        with at.desk.sent.sending(queue, stamp_us) as sending:
            is_stored = await put_next(at, tail, slot, tallies)
            if is_stored:
                sending.stored(slot)
        if is_stored:
            for call, share in draft.shares:
                call.note(share)
            at.desk.waits.signal(channel(at.queue), count)
            return draft.answers
    raise CellUnavailableError("others append to the log faster than this front end")


def _tallies(
    at: Access, queue: Queue, stamp_us: int, draft: _Draft, _before: Attributes | None
) -> Iterator[Tally]:
    size_bytes = sum(message.size_bytes for message in draft.new)
    yield from counting.sent(queue, stamp_us, queue.delay_s * 1_000_000, len(draft.new), size_bytes)
    yield from at.desk.ledgers.tallies(queue, stamp_us, draft.calls)
