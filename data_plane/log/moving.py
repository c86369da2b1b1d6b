"""Moving messages to other FIFO queues: dead letters, and what message move tasks take.

The steps are those of the bag (docs/storage.md, "Moved messages of FIFO queues"): the claim that
decides it, which receiving writes; the copy, an append like every other; the end.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from msgspec.structs import replace

from data_plane.core.digests import deduplication_hash, group_hash
from data_plane.core.errors import RefusedError
from data_plane.core.identifiers import uuid_text
from data_plane.core.message import Message, Outgoing
from data_plane.core.message_rules import size_bytes
from data_plane.core.queue import Queue
from data_plane.log import deleting, generations, sending, tails
from data_plane.log.block import Block, Pending
from data_plane.log.bounds import WINDOW_US
from data_plane.log.desk import Access, Desk, open_generations
from data_plane.log.partition import Tail
from data_plane.log.slots import END, Slot, generation_after, read_slot
from data_plane.ports import (
    CellUnavailableError,
    Condition,
    Equals,
    Item,
    Lacks,
    Update,
    is_replicated,
)
from data_plane.stored import counting, keys
from data_plane.stored.bounds import QUERY_PAGE, SEGMENT_BYTES_MAX
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.lease import Lease
from data_plane.stored.moves import (
    DeadLetters,
    Move,
    Mover,
    copy_for,
    decide_one,
    id_of_place,
    marks_of,
)
from data_plane.stored.segment import FORMAT_VERSION

_SLOT_BITS = 64
_NEVER: Final[Condition] = ((Equals("w", b""),),)
"""No slot has an empty nonce."""

_SEARCHES_MAX = 3


@dataclass(frozen=True, slots=True)
class Moving:
    """A message on its way, and the lease that says so."""

    index: int
    message: Message
    move: Move
    held: Lease


class _UnsearchedError(CellUnavailableError):
    """A copy may lie behind what was searched, and be too old to be known for a duplicate."""


class _Searched:
    """Up to where a target was searched for copies that are not there, by partition.

    Of several searches the first one counts: what was appended since may be any of the copies.
    """

    def __init__(self, until_us: int) -> None:
        self._until_us = until_us
        self._ends: dict[tuple[int, int], tuple[int, int]] = {}

    def up_to(self, to: Access, slot: int, stamp_us: int) -> None:
        """No copy lies at or below this slot."""
        at = (to.partition.generation, to.partition.number)
        self._ends.setdefault(at, (slot, stamp_us))

    def may(self, to: Access, tail: Tail, stamp_us: int) -> CellUnavailableError | None:
        """Only where no copy can lie in between, or each would be known for what it is.

        A copy that was under way when it was searched for is in none of the slots that were read,
        and its stamp may be much older than the moment it came.
        """
        if stamp_us >= self._until_us:
            return CellUnavailableError("the log's time is past what was asked")
        partition = to.partition
        end = self._ends.get((partition.generation, partition.number))
        if end is None:  # What goes there is new, or the log has gone on in another generation.
            is_known = all(partition.generation <= searched for searched, _ in self._ends)
        else:
            slot, seen_us = end
            is_known = tail.last.number == slot
            is_known |= partition.eras.between_us(seen_us, stamp_us) < WINDOW_US
        return None if is_known else _UnsearchedError("the log has gone on since it was searched")


def may_move(at: Access, block: Block, mover: Mover) -> bool:
    """Whether there is something to decide about at all."""
    return bool(block.moves) or at.queue.redrive is not None or not isinstance(mover, DeadLetters)


async def decide(
    at: Access,
    block: Block,
    messages: Sequence[Pending],
    loaded: dict[int, Message],
    mover: Mover,
) -> dict[int, Move | None]:
    """By index the moves that were begun, and new ones; None for what is to be delivered.

    What is refused is left out. Raises CellUnavailableError.
    """
    decided: dict[int, Move | None] = {message.index: None for message in messages}
    seen = {index: block.leases.get(index) for index in decided}
    for index, stored in seen.items():
        begun = block.moves.get(index, "")
        try:
            move = await decide_one(at.queue, loaded[index], stored, begun, mover, at.desk.queues)
            if move is not None:
                move = await _placed(at.desk, move, loaded[index])
        except RefusedError as refusal:
            mover.refusal = refusal
            del decided[index]
        else:
            decided[index] = move
    return {
        index: move for index, move in decided.items() if block.leases.get(index) == seen[index]
    }


async def _placed(desk: Desk, move: Move, message: Message) -> Move:
    """Where the log that the message goes to ends, as far as is known: a copy lies behind it.

    And until when it is of use to store one: what others store meanwhile is still a duplicate then.
    """
    if not move.target.is_log:
        return move if move.begun else move._replace(since=_present_us(desk, move.target))
    to = _partition(open_generations(desk, move.target)[-1], move.target, message)
    tail = await tails.current(to)
    until_us = max(tail.last.stamp_us, to.cell.now_us()) + WINDOW_US // 2
    if move.begun:
        return move._replace(until_us=until_us)
    since = to.partition.generation << _SLOT_BITS | tail.last.number
    return move._replace(since=since, until_us=until_us)


def _present_us(desk: Desk, target: Queue) -> int:
    return cell_of(desk.cells, target).now_us()


def _partition(partitions: list[Access], target: Queue, message: Message) -> Access:
    return partitions[group_hash(target, message.group)[0] % len(partitions)]


def of_one_kind(
    messages: Sequence[Pending], decided: dict[int, Move | None], delivering: Collection[bytes]
) -> list[Pending]:
    """Of each group either what moves or what is delivered, up to the first of the other kind.

    Of the groups in `delivering` something before these is delivered.
    """
    chosen: list[Pending] = []
    moves: dict[bytes, bool] = dict.fromkeys(delivering, False)
    lost: set[bytes] = set()
    for message in messages:
        group = message.group
        if group in lost:
            continue
        is_moving = decided.get(message.index) is not None
        if message.index in decided and moves.setdefault(group, is_moving) == is_moving:
            chosen.append(message)
        else:
            lost.add(group)
    return chosen


async def finish(at: Access, block: Block, begun: Sequence[Moving], mover: Mover) -> None:
    """Store the copies in their order, then mark the messages as gone from here.

    Raises CellUnavailableError; what was not done is done when the leases have ended.
    """
    by_target: dict[str, list[Moving]] = {}
    for one in begun:
        by_target.setdefault(one.move.target.uid, []).append(one)
    stored: list[Moving] = []
    failure: Exception | None = None
    outcomes = await at.desk.waits.all_of([_store(at, block, some) for some in by_target.values()])
    for some, outcome in zip(by_target.values(), outcomes, strict=True):
        if isinstance(outcome, Exception):
            failure = outcome
        else:
            stored += some
    if stored:
        await _end_moves(at, block, stored, mover)
    if isinstance(failure, RefusedError):
        raise CellUnavailableError("the queue that messages move to was just deleted")
    if failure is not None:
        raise failure


async def _store(at: Access, block: Block, begun: Sequence[Moving]) -> None:
    """Store the copies that go to one queue, each once."""
    if not begun[0].move.target.is_log:
        await _store_in_standard(at, block, begun)
        return
    for _ in range(_SEARCHES_MAX):
        try:
            await _append(at, block, begun)
        except _UnsearchedError:
            continue
        return
    raise CellUnavailableError("others append to the log faster than it is searched")


async def _append(at: Access, block: Block, begun: Sequence[Moving]) -> None:
    """Append the copies that are not there, in as few slots as hold them."""
    target = begun[0].move.target
    batch: list[Outgoing] = []
    size = 0
    searched = _Searched(min(one.move.until_us for one in begun))
    for one in begun:
        copy = _copied(at, block, one)
        if one.move.begun and await _is_stored(at, block, one, copy, searched):
            continue
        outgoing = _outgoing(copy, id_of_place(at.queue, _place(at, block, one)))
        if batch and size + outgoing.size > SEGMENT_BYTES_MAX:
            await sending.send(at.desk, target, "", batch, searched.may)
            batch, size = [], 0
        batch.append(outgoing)
        size += outgoing.size
    if batch:
        await sending.send(at.desk, target, "", batch, searched.may)


async def _store_in_standard(at: Access, block: Block, begun: Sequence[Moving]) -> None:
    """Have the copies stored in a standard queue, under the places that all copies have."""
    copies, partition = at.desk.copies, at.partition
    if copies is None:
        raise CellUnavailableError("this front end stores nothing in standard queues")
    place = keys.be64(block.first)
    moved = keys.moved_block(at.queue.uid, partition.number, partition.generation, place)
    for outcome in await at.desk.waits.all_of(
        [copies(one.move, _copied(at, block, one), moved, one.index) for one in begun]
    ):
        if isinstance(outcome, Exception):
            raise outcome


def _copied(at: Access, block: Block, one: Moving) -> Message:
    """The message as the target is to have it."""
    copy = copy_for(one.move, at.queue, _place(at, block, one), one.message, one.held)
    # The sequence number is that of a stream's record, and that of a queue is given anew.
    return replace(copy, deduplication_id=uuid_text(copy.id), sequence=0)


def _place(at: Access, block: Block, one: Moving) -> bytes:
    lane = keys.lane_name(at.partition.number, at.partition.generation)
    return lane.encode() + keys.be64(block.first) + bytes((one.index,))


def _outgoing(copy: Message, name: bytes) -> Outgoing:
    """An append of a copy. Those of one `name`, the move's, are duplicates of each other.

    The message's own id would not do: a dead letter keeps it, and may come to a queue again.
    """
    return Outgoing(
        body=copy.body,
        attributes=copy.attributes,
        trace_header=copy.trace_header,
        group=copy.group,
        size=size_bytes(copy.body, copy.attributes),
        deduplication_id=uuid_text(name),
        moved=copy,
    )


async def _is_stored(
    at: Access, block: Block, one: Moving, copy: Message, searched: _Searched
) -> bool:
    """Whether there is a copy already. Where it has gone with its time to live, there is none.

    How long ago the move was begun says nothing of a copy: it may never have been stored. A copy
    may lie in a generation that the target's definition, as this front end has it, does not know
    yet: the end of the one before tells of it. Raises CellUnavailableError.
    """
    target, desk = one.move.target, at.desk
    generation, slot = one.move.since >> _SLOT_BITS, one.move.since & ((1 << _SLOT_BITS) - 1)
    if desk.generations(target)[-1].number < generation:
        raise CellUnavailableError("whoever began the move knew a newer definition of its target")
    names = _names_of(target, copy, id_of_place(at.queue, _place(at, block, one)))
    # Nothing can be appended any more to the earlier ones when they are searched.
    await generations.inherited(_partition(open_generations(desk, target)[-1], target, copy))
    number = generation
    while partitions := _partitions_from(desk, target, number):
        to = _partition(partitions, target, copy)
        number = to.partition.generation
        if await _is_in(to, copy, names, slot if number == generation else 0, searched):
            return True
        number += 1
    return False


def _partitions_from(desk: Desk, queue: Queue, number: int) -> list[Access]:
    """The partitions of the first generation from this one on, as far as is known; else none."""
    found = (
        partitions
        for partitions in open_generations(desk, queue)
        if partitions[0].partition.generation >= number
    )
    return next(found, [])


def _names_of(target: Queue, copy: Message, name: bytes) -> frozenset[bytes]:
    """The deduplication hashes that the copy of a move of this name may have.

    Versions before 0.2 took the message's id for the name.
    """
    return frozenset(
        deduplication_hash(target, scope, uuid_text(one))
        for scope in ("", copy.group)
        for one in (name, copy.id)
    )


async def _is_in(
    to: Access, copy: Message, names: frozenset[bytes], first: int, searched: _Searched
) -> bool:
    """Whether the copy lies in this log, behind the slot `first`.

    Not one of an earlier move, which whoever began this one may not have seen: it is named so.
    """
    after, stamp_us = max(0, first - 1), 0
    while slots := await _slots_behind(to, after, first):
        behind = chain.from_iterable(slot.messages for slot in slots if slot.number > first)
        if any(message.id == copy.id and message.dedup in names for message in behind):
            return True
        if slots[-1].kind == END:
            to.desk.learn(to.queue, generation_after(slots[-1]))
            break
        after, stamp_us = slots[-1].number, slots[-1].stamp_us
    searched.up_to(to, after, stamp_us)
    return False


async def _slots_behind(to: Access, after: int, first: int) -> list[Slot]:
    """A page of the log's slots behind this one; none where nobody has stored any.

    The last one may be half way down a chain, where no query sees it: whoever stored the copy may
    have stopped there, and an append would complete that slot. So it is completed first: a chain
    hands down what a condition fails on. Costs a read of the head where there is none.
    """
    is_chain = is_replicated(to.cell)
    page = await to.cell.query(to.partition.slots, after=keys.be64(after), limit=QUERY_PAGE)
    if is_chain and not page:
        key = to.partition.slot_key(max(after, first) + 1)
        found = (await to.cell.delete(key, _NEVER)).before
        page = [] if found is None else [Item(key, found)]
    return [read_slot(item) for item in page]


async def _end_moves(at: Access, block: Block, stored: Sequence[Moving], mover: Mover) -> None:
    """Mark messages as moved, those of which this front end still has the lease."""
    asked_us = at.now_us()
    gone = {one.index: counting.gone(at.queue, one.message) for one in stored}
    written = await at.cell.update(
        at.partition.state_key(block.first),
        Update(
            assign={"v": FORMAT_VERSION, "x": at.state_ttl_s()},
            add={"d": frozenset(gone)} | marks_of((one.index, one.move) for one in stored),
            remove=frozenset(f"{name}{index}" for name in "mq" for index in gone),
        ),
        tuple(
            clause
            for one in stored
            for clause in (
                (Equals(f"m{one.index}", one.held.to_bytes()),),
                (Lacks("d", one.index),),
            )
        ),
        partial(counting.deleted, at.queue, gone=gone, now_ms=at.now_ms()),
    )
    done = (written.before or {}).get("d", frozenset())
    if written.applied:
        moved = set(gone)
    else:  # Others went on with some of them, or the reply to this very write was lost.
        moved = {index for index in gone if isinstance(done, frozenset) and index in done}
    deleting.done(at, block.first, written.before, sorted(moved), asked_us)
    mover.moved += len(moved)
