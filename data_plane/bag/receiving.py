"""Receiving: leases are written before messages are handed out."""

from functools import partial

from data_plane.bag import fair, moving, reading, upkeep
from data_plane.bag.block import GONE, TAKEN, Block
from data_plane.bag.bounds import (
    COLLECT_AFTER_US,
    FETCH_ROUNDS_MAX,
    FOREIGN_LEASE_GUARD_MS,
    LEASE_ATTEMPTS_MAX,
)
from data_plane.bag.desk import Access, Desk, channel, open_lane
from data_plane.bag.lane import is_over
from data_plane.bag.moving import Moving
from data_plane.core import receipt_handle
from data_plane.core.errors import OVER_LIMIT, RefusedError, is_of_kms
from data_plane.core.long_answers import leave_room, room_for, room_now
from data_plane.core.message import Delivery, Message, Redriven
from data_plane.core.message_rules import size_bytes
from data_plane.core.queue import Queue
from data_plane.ports import (
    CellUnavailableError,
    Key,
    NoThreadError,
    Update,
    Value,
    is_replicated,
)
from data_plane.stored import counting, keys
from data_plane.stored.bounds import MOVE_LEASE_MS
from data_plane.stored.lease import Lease, from_bytes, unchanged
from data_plane.stored.moves import DeadLetters, Move, Mover, Redrive, Target, waits_for_room
from data_plane.stored.polling import look_again, next_look_us
from data_plane.stored.segment import FORMAT_VERSION

WHENEVER_US = 1 << 62

Taken = list[tuple[Block, list[int]]]
"""Messages that a receive has taken for itself within this front end, by block."""


async def receive(
    desk: Desk, queue: Queue, *, count: int, visibility_s: int, until_us: int
) -> list[Delivery]:
    """Lease up to `count` messages, waiting for the first until `until_us`. See `Bag.receive`."""
    while True:
        at = open_lane(desk, queue)
        began_us = at.now_us()
        seen = desk.waits.signals(channel(at.lane))
        ahead_us: int | None = None
        try:
            await _check_in_flight(at)
            deliveries = await _receive_now(at, count, visibility_s)
            now_us = at.now_us()
            if deliveries or now_us >= until_us:
                return deliveries
            ahead_us = await reading.next_visible_us(at)
        except NoThreadError:
            if at.now_us() >= until_us:
                raise
        now_us = at.now_us()
        due_ms = min(lane.next_due_ms() for lane in at.lanes)
        wake_us = min(until_us, next_look_us(began_us, now_us), due_ms * 1000)
        if ahead_us is not None:
            wake_us = min(wake_us, max(ahead_us, now_us + 1000))
        leave_room()
        if not await desk.waits.wait_for(channel(at.lane), seen, wake_us):
            return []
        look_again()


async def redrive(desk: Desk, queue: Queue, *, count: int, target: Target) -> Redriven:
    """Move up to `count` visible messages to other queues. See `Bag.redrive`."""
    at = open_lane(desk, queue)
    mover = Redrive(target, count, desk.is_dropped)
    more = True
    try:
        number = 0
        for _ in range(FETCH_ROUNDS_MAX):
            _, more = await _round(at.in_lane(number), mover.left, 0, mover, first=False)
            if not more and number < at.lanes.deepest:
                number, more = number + 1, True
            if not mover.left or not more:
                break
    except CellUnavailableError as failure:
        return Redriven(mover.moved, more, failure)
    except RefusedError as refusal:
        if not is_of_kms(refusal):
            raise
        return Redriven(mover.moved, more, refusal)
    return Redriven(mover.moved, more, mover.refusal)


async def _check_in_flight(at: Access) -> None:
    """Raises RefusedError(OverLimit) where too many messages are in flight."""
    in_flight, now_us = at.lanes.in_flight, at.now_us()
    if in_flight.must_look(now_us):
        in_flight.looked(await counting.in_flight(at.cell, at.queue, now_us), now_us)
    if in_flight.is_full:
        raise RefusedError(
            OVER_LIMIT,
            "Too many messages have been received without being deleted.\n"
            "Please delete your received messages or let them timeout before receiving more.",
        )


async def _receive_now(at: Access, count: int, visibility_s: int) -> list[Delivery]:
    """Messages of the first lane that has any for now."""
    number = 0
    refusal: RefusedError | None = None
    while number <= at.lanes.deepest:  # The quiet lane tells of others while it is read.
        deliveries: list[Delivery] = []
        try:
            deliveries = await _receive_in(at.in_lane(number), count, visibility_s)
        except RefusedError as failure:
            if not is_of_kms(failure):
                raise
            refusal = failure  # What lies in the next lane may have other keys.
        if deliveries:
            at.lanes.in_flight.granted(len(deliveries))
            return deliveries
        number += 1
    news = fair.news(at)
    if news is not None:
        await news
    if refusal is not None:
        raise refusal
    return []


async def _receive_in(at: Access, count: int, visibility_s: int) -> list[Delivery]:
    mover = DeadLetters(at.desk.queues, at.desk.is_dropped, at.desk.answer_bytes_max)
    deliveries: list[Delivery] = []
    refusal: RefusedError | None = None
    for pages in range(FETCH_ROUNDS_MAX):
        refused = refusal is not None
        reads_on = pages == 0 or refused
        try:
            deliveries, go_on = await _round(
                at, count, visibility_s, mover, first=reads_on, refused=refused
            )
        except RefusedError as failure:
            if not is_of_kms(failure):
                raise
            refusal, go_on = failure, True  # Others may lie behind, with other keys.
        if deliveries or not go_on:
            break
    if refusal is not None and not deliveries:
        raise refusal
    return deliveries


async def _round(  # noqa: PLR0913 - a round, and what was before it
    at: Access, count: int, visibility_s: int, mover: Mover, *, first: bool, refused: bool = False
) -> tuple[list[Delivery], bool]:
    """Deliver or move up to `count` messages; the flag says whether there may be more.

    The `first` of a receive's rounds rather reads on than takes messages that others should pass,
    and alone carries upkeep along: many that find nothing but expired messages write no more.
    Once keys were `refused` it does not try again what they keep aside.
    """
    moved_before = mover.moved
    if fair.should_learn(at):
        await fair.learn(at)
    fair.look_at_time(at)
    # What came back often is behind what was visible before, also if that is still to be read.
    taken = at.lane.take(at.lanes.queue, count, at.now_us(), at.lane.read_until_us)
    short = count - sum(len(indexes) for _, indexes in taken)
    try:
        more = short > 0 and await reading.fetch(at)
        if more and fair.should_learn(at):
            await fair.learn(at)
    except BaseException:
        _put_back(at, taken)
        raise
    if short:
        _merge(taken, at.lane.take(at.lanes.queue, short, at.now_us(), WHENEVER_US))
    if not taken and not (first and more and at.lane.has_room()):
        taken = at.lane.take_aside(at.lanes.queue, count, at.now_us(), shut=not refused)
    deliveries: list[Delivery] = []
    # What was taken and is not delivered went to another front end: there may be more behind it.
    more = more or bool(taken)
    if taken:
        taken = await _once_there_is_room(at, taken, count, mover)
    if taken:
        deliveries = await _lease_all(at, taken, visibility_s, mover, keeps_up=first)
    return deliveries, more or mover.moved > moved_before


def _merge(taken: Taken, further: Taken) -> None:
    # By the object: a block that was forgotten meanwhile and met again is another one.
    by_block = dict(taken)
    for block, indexes in further:
        if block in by_block:
            by_block[block].extend(indexes)
        else:
            taken.append((block, indexes))


async def _once_there_is_room(at: Access, taken: Taken, count: int, mover: Mover) -> Taken:
    """What was taken, as far as the answer has room for it; or what there is later, if it waits.

    Whoever waits for room holds no messages meanwhile: the segments of those stay in memory, and
    with many receives that would be most of the queue.
    """
    taken = _fitting(at, taken, mover)
    size = _size_bytes(taken)
    if room_now(size):
        return taken
    _put_back(at, taken)
    await room_for(size)
    taken = at.lane.take(at.lanes.queue, count, at.now_us(), at.lane.read_until_us)
    taken = taken or at.lane.take_aside(at.lanes.queue, count, at.now_us(), shut=False)
    taken = _fitting(at, taken, mover)
    room_now(_size_bytes(taken) - size)  # Others may be there now, and bigger.
    return taken


def _put_back(at: Access, taken: Taken) -> None:
    for block, indexes in taken:
        at.lane.put_back(block, indexes, at.now_ms())


def _size_bytes(taken: Taken) -> int:
    return sum(block.size_bytes(index) for block, indexes in taken for index in indexes)


async def _lease_all(
    at: Access, taken: Taken, visibility_s: int, mover: Mover, *, keeps_up: bool
) -> list[Delivery]:
    """Lease in all blocks at once, and do the upkeep that is due in the same breath.

    What one block fails is not lost with it: it is raised only if no other delivered.
    """
    calls = [_lease(at, block, indexes, visibility_s, mover) for block, indexes in taken]
    kept_up = upkeep.writes_due(at) if keeps_up else None
    calls += [due for due in (kept_up, fair.news(at)) if due is not None]
    if len(calls) == 1:
        return await calls[0]
    try:
        outcomes = await at.desk.waits.all_of(calls)
    except BaseException:
        _put_back(at, taken)  # Calls that were cancelled before they began have not.
        raise
    deliveries: list[Delivery] = []
    failure: Exception | None = None
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            failure = outcome
        else:
            deliveries += outcome
    if failure is not None and not deliveries:
        raise failure
    return deliveries


def _fitting(at: Access, taken: Taken, mover: Mover) -> Taken:
    """What of it may fit into the answer; the rest is put back, and not even read for it."""
    order = [(block, index) for block, indexes in taken for index in indexes]
    fitting = mover.room.fitting([block.size_bytes(index) for block, index in order])
    if fitting == len(order):
        return taken
    kept: dict[Block, list[int]] = {}
    for block, index in order[:fitting]:
        kept.setdefault(block, []).append(index)
    for block, index in order[fitting:]:
        at.lane.put_back(block, (index,), at.now_ms())
    return list(kept.items())


async def _lease(
    at: Access, block: Block, indexes: list[int], visibility_s: int, mover: Mover
) -> list[Delivery]:
    """Lease what can be had of these messages, which this call has taken, and move the others."""
    try:
        for _ in range(LEASE_ATTEMPTS_MAX):
            seen_us = at.now_us()
            loaded = await reading.load(at, block, indexes)
            messages = _wanted(at, block, loaded)
            moves = await moving.decide(at, block, messages, mover)
            messages = _wanted(at, block, {index: messages[index] for index in moves})
            messages = {
                i: m for i, m in messages.items() if moves[i] is not None or mover.room.take(m)
            }
            if not messages:
                break
            written = await _write_leases(at, block, messages, visibility_s, moves, seen_us)
            if written is None:
                mover.room.give_back(m for i, m in messages.items() if moves[i] is None)
            else:
                deliveries, begun = written
                await _move(at, block, begun, mover, deliveries)
                return deliveries
    finally:
        at.lane.put_back(block, indexes, at.now_ms())
        at.lane.advance()
    return []


async def _move(
    at: Access, block: Block, begun: list[Moving], mover: Mover, deliveries: list[Delivery]
) -> None:
    """Go on with moves; where one fails, what is delivered beside it is not lost with it."""
    if begun:
        try:
            await moving.finish(at, block.id, begun, mover)
        except CellUnavailableError as failure:
            # Whoever meets these messages next, in MOVE_LEASE_MS, goes on with their moves.
            if not deliveries and not waits_for_room(failure, mover):
                raise


def _wanted(at: Access, block: Block, loaded: dict[int, Message]) -> dict[int, Message]:
    """Those of the taken messages that may be leased by what is known now."""
    now_us = at.now_us()
    wanted: dict[int, Message] = {}
    for index, message in loaded.items():
        if block.status.get(index) != TAKEN:
            continue
        segment = block.segments.get(block.first_of[index])
        if segment is None:
            continue  # Given up and let go of while its body was under way.
        stored = block.leases.get(index)
        if is_over(at.lanes.queue, segment, now_us, at.lane.eras):
            at.lane.gone(block, (index,))
        elif stored is not None and (
            from_bytes(stored).free_ms(at.desk.writer, FOREIGN_LEASE_GUARD_MS) > now_us // 1000
        ):
            at.lane.put_back(block, (index,), now_us // 1000)
        else:
            wanted[index] = message
    return wanted


async def _write_leases(  # noqa: PLR0913, PLR0917 - a lease, and what it goes by
    at: Access,
    block: Block,
    messages: dict[int, Message],
    visibility_s: int,
    decided: dict[int, Move | None],
    seen_us: int,
) -> tuple[list[Delivery], list[Moving]] | None:
    """The deliveries, and the moves that have begun.

    None where the block was changed by others: then it was learnt anew. What came long after the
    block was seen may have found it collected, and be the lease of a message that was deleted.
    """
    asked_us = at.now_us()
    now_ms = asked_us // 1000
    visible_ms = now_ms + visibility_s * 1000 if visibility_s else 0
    token = at.desk.new_token()
    leases: dict[int, Lease] = {}
    moves = {i: move for i in messages if (move := decided[i]) is not None}
    for index, message in messages.items():
        stored = block.leases.get(index)
        if stored is None:
            count, first_ms = message.received, message.first_received_ms
        else:
            prior = from_bytes(stored)
            count, first_ms = prior.receive_count, prior.first_received_ms
        first = block.first_of[index]
        if index in moves:
            leases[index] = Lease(now_ms + MOVE_LEASE_MS, count, now_ms, first_ms, first, token)
        else:
            leases[index] = Lease(visible_ms, count + 1, now_ms, first_ms or now_ms, first, token)
    stored_leases = {index: new.to_bytes() for index, new in leases.items()}
    written = await at.cell.update(
        Key(at.lane.states, block.id),
        Update(
            assign=_assignments(at, block, stored_leases, moves),
            remove=frozenset(f"q{i}" for i in leases if i in block.moves and i not in moves),
        ),
        unchanged(block.leases, stored_leases),
        partial(counting.leased, at.queue, leases=leases, now_ms=now_ms),
    )
    if not written.applied:
        block.learn(written.before, asked_us)
        return None
    for index in leases:
        block.note_move(index, moves[index].to_text() if index in moves else "")
    at.lane.leased(block, stored_leases, asked_us)
    alive = {i: new for i, new in leases.items() if block.status.get(i) != GONE}
    if written.time_ms * 1000 - seen_us > COLLECT_AFTER_US // 2:
        # At least once, a receive may deliver what is deleted meanwhile: it alone.
        block.segments = {}
        alive = {} if at.queue.is_fenced else {i: alive[i] for i in alive if i not in moves}
    fair.handed_out(at, block, messages, {i: new for i, new in alive.items() if i not in moves})
    return (
        [_delivery(at, block, i, messages[i], new) for i, new in alive.items() if i not in moves],
        [Moving(i, messages[i], moves[i], new) for i, new in alive.items() if i in moves],
    )


def _assignments(
    at: Access, block: Block, leases: dict[int, bytes], moves: dict[int, Move]
) -> dict[str, Value]:
    assign: dict[str, Value] = {"v": FORMAT_VERSION, "x": at.block_ttl_s(block.id)}
    if block.total is not None:
        assign["f"] = block.total
    for index, stored in leases.items():
        first = block.first_of[index]
        assign[f"m{index}"] = stored
        assign[f"s{first}"] = keys.be64(block.slices[first])
        if is_replicated(at.cell):
            assign[f"n{first}"] = block.segments[first].count
        if block.segments[first].blob:
            assign["o"] = 1
    for index, move in moves.items():
        assign[f"q{index}"] = move.to_text()
    return assign


def _delivery(at: Access, block: Block, index: int, message: Message, held: Lease) -> Delivery:
    handle = receipt_handle.encode(
        at.queue,
        at.lane.number,
        at.lane.epoch,
        block.id,
        index,
        counting.counted_ms(at.queue, message),
        held.token,
        size_bytes(message.body, message.attributes),
    )
    return Delivery(message, handle, held.receive_count, held.first_received_ms)
