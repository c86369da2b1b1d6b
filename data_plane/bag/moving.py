"""Moving messages to other queues: dead letters, and what message move tasks take.

A move is three writes (docs/storage.md, "Moved messages"): the lease that decides it, which
receiving writes; the copy; the end. Each may be repeated, by whoever meets the message next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from data_plane.bag import deleting, fair, sending
from data_plane.bag.block import Block
from data_plane.bag.bounds import COPY_LOOKBACK_SEGMENTS_MAX, COPY_LOOKBACK_US, REDRIVEN_LANE
from data_plane.bag.desk import Access, Attempt, Desk, channel, open_lane
from data_plane.bag.tenants import tag_of
from data_plane.core.errors import RefusedError
from data_plane.core.message import Message
from data_plane.core.message_rules import size_bytes
from data_plane.core.queue import Queue
from data_plane.ports import Append, Attributes, CellUnavailableError, Item, Value
from data_plane.stored import counting, keys
from data_plane.stored.bounds import DATA_TTL_SLACK_S, QUERY_PAGE
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.lease import Lease
from data_plane.stored.ledger import calls_attributes
from data_plane.stored.moves import (
    REDRIVE,
    DeadLetters,
    Move,
    Mover,
    copy_for,
    decide_one,
    marks_of,
)
from data_plane.stored.segment import (
    DEAD_LETTER_VERSION,
    FORMAT_VERSION,
    Sealing,
    pack_tags,
    repack_message,
    seal,
    segment_name,
)


@dataclass(frozen=True, slots=True)
class Moving:
    """A message on its way, and the lease that says so."""

    index: int
    message: Message
    move: Move
    held: Lease


async def decide(
    at: Access, block: Block, messages: dict[int, Message], mover: Mover
) -> dict[int, Move | None]:
    """The moves that were begun, and new ones; None for a message that is to be delivered.

    What was leased anew meanwhile, or is refused, is left out. Raises CellUnavailableError.
    """
    decided: dict[int, Move | None] = dict.fromkeys(messages)
    if not block.moves and at.queue.redrive is None and isinstance(mover, DeadLetters):
        return decided
    seen = {index: block.leases.get(index) for index in messages}
    for index, message in messages.items():
        begun = block.moves.get(index, "")
        try:
            move = await decide_one(at.queue, message, seen[index], begun, mover, at.desk.queues)
        except RefusedError as refusal:
            mover.refusal = refusal
            del decided[index]
            continue
        if move is not None and not move.begun:
            move = move._replace(since=_present_us(at, move.target))
        decided[index] = move
    return {
        index: move for index, move in decided.items() if block.leases.get(index) == seen[index]
    }


def _present_us(at: Access, target: Queue) -> int:
    return cell_of(at.desk.cells, target).now_us()


async def finish(at: Access, block_id: bytes, moving: Sequence[Moving], mover: Mover) -> None:
    """Store the copies, then mark the messages as gone from here.

    Raises CellUnavailableError; what was not done is done when the leases have ended.
    """
    outcomes = await at.desk.waits.all_of([_store(at, block_id, one) for one in moving])
    done: dict[int, counting.Gone] = {}
    moved: list[tuple[int, Move]] = []
    failure: Exception | None = None
    for one, outcome in zip(moving, outcomes, strict=True):
        if isinstance(outcome, Exception):
            failure = outcome
        else:
            done[one.index] = counting.gone(at.queue, one.message)
            moved.append((one.index, one.move))
    if done:
        await deleting.delete_in(at, block_id, done, marks_of(moved))
        mover.moved += len(done)
    if isinstance(failure, RefusedError):
        raise CellUnavailableError("the queue that messages move to was just deleted")
    if failure is not None:
        raise failure


async def _store(at: Access, block_id: bytes, moving: Moving) -> None:
    """Append the copy to the target, under the block and index that all copies have."""
    copy = _copied(at, block_id, moving)
    block = keys.moved_block(at.queue.uid, at.lane.number, at.lane.epoch, block_id)
    await store_copy(at.desk, moving.move, copy, block, moving.index)


async def store_copy(desk: Desk, move: Move, copy: Message, block: bytes, index: int) -> None:
    """Append a copy to the target of the move, if it is not there. See `StandardCopies`."""
    to = open_lane(desk, move.target)
    if copy.group and move.kind == REDRIVE:
        # Many may come at once, and those of a group must not keep others waiting.
        to = to.in_lane(REDRIVEN_LANE)
        await fair.announce(to)
    suffix = block + bytes((index,))
    stored = await _find_copy(to, suffix, move.since) if move.begun else None
    # The front end that stored it may have stopped before it could tell that it was late.
    if stored is not None and await sending.make_known(to, stored):
        return
    try:
        sealing = await to.data_keys.sealing()
    except RefusedError as refusal:
        raise CellUnavailableError(f"queue {to.queue.name}: {refusal}") from refusal
    record = Append(
        to.lane.segments,
        suffix,
        _segment(to, copy, block, index, sealing),
        to.proposed_us(),
        tallies=lambda stamp_us: counting.sent(
            to.queue, _counted_us(to, copy, stamp_us), 0, 1, size_bytes(copy.body, copy.attributes)
        ),
    )
    if to.bodies is not None:
        record = await to.bodies.put_apart(record, (copy.id,), to.now_us())
    await sending.store(to, Attempt(record, lane=to.lane.number))
    desk.waits.signal(channel(to.lane))


async def _find_copy(to: Access, suffix: bytes, since_us: int) -> Item | None:
    """The copy that is there already; not seeing it does no harm but to the counts."""
    after = keys.be64(max(0, since_us - COPY_LOOKBACK_US))
    for _ in range(COPY_LOOKBACK_SEGMENTS_MAX // QUERY_PAGE):
        page = await to.cell.query(to.lane.segments, after=after, limit=QUERY_PAGE)
        for item in page:
            if item.key.sort[keys.SLICE_BYTES :] == suffix:
                return item
        if not page:
            break
        after = page[-1].key.sort
    return None


def _copied(at: Access, block_id: bytes, moving: Moving) -> Message:
    place = block_id + bytes((moving.index,))
    return copy_for(moving.move, at.queue, place, moving.message, moving.held)


def _segment(
    to: Access, copy: Message, block: bytes, index: int, sealing: Sealing | None
) -> Attributes:
    """A segment of this one message; that of a dead letter has the time of sending, too."""
    size = size_bytes(copy.body, copy.attributes)
    name = segment_name(block, index)
    attributes: dict[str, Value] = {
        "v": FORMAT_VERSION,
        "k": "s",
        "b": block,
        "i": index,
        "n": 1,
        "y": size,
        **calls_attributes((), 1),
        **seal([repack_message(copy, size)], sealing, to.lane.segments, *name),
    }
    if copy.group:
        attributes["u"] = pack_tags([tag_of(to.queue, copy.group)])
    sent_us = to.now_us()
    if copy.dead_letter_source:
        sent_us = copy.sent_ms * 1000
        attributes |= {"v": DEAD_LETTER_VERSION, "l": sent_us}
    attributes["x"] = sent_us // 1_000_000 + to.queue.retention_s + DATA_TTL_SLACK_S
    return attributes


def _counted_us(to: Access, copy: Message, stamp_us: int) -> int:
    return counting.counted_ms(to.queue, copy) * 1000 if copy.dead_letter_source else stamp_us
