"""Receiving: leases are written before messages are handed out."""

from data_plane.bag import counting, keys, reading, upkeep
from data_plane.bag.bounds import (
    DATA_TTL_SLACK_S,
    FETCH_ROUNDS_MAX,
    FOREIGN_LEASE_GUARD_MS,
    LEASE_ATTEMPTS_MAX,
    POLL_US,
    STATE_TTL_SLACK_S,
)
from data_plane.bag.desk import Desk, channel
from data_plane.bag.lane import GONE, TAKEN, Block, Lane, is_over
from data_plane.bag.lease import Lease, from_bytes
from data_plane.bag.segment import FORMAT_VERSION
from data_plane.core import receipt_handle
from data_plane.core.message import Delivery
from data_plane.core.queue import Queue
from data_plane.ports import Absent, AnyOf, Equals, Key, Lacks, Update, Value


async def receive(
    desk: Desk, queue: Queue, *, count: int, visibility_s: int, until_us: int
) -> list[Delivery]:
    """Lease up to `count` messages, waiting for the first until `until_us`. See `Bag.receive`."""
    while True:
        lane = desk.lane(queue)
        seen = desk.waits.signals(channel(lane))
        deliveries = await _receive_now(desk, queue, lane, count, visibility_s)
        now_us = desk.clock.now_us()
        if deliveries or now_us >= until_us:
            return deliveries
        ahead_us = await reading.next_visible_us(desk, lane)
        wake_us = min(until_us, now_us + POLL_US, lane.next_due_ms() * 1000)
        if ahead_us is not None:
            wake_us = min(wake_us, max(ahead_us, now_us + 1000))
        await desk.waits.wait_for(channel(lane), seen, wake_us)


async def _receive_now(
    desk: Desk, queue: Queue, lane: Lane, count: int, visibility_s: int
) -> list[Delivery]:
    deliveries: list[Delivery] = []
    for _ in range(FETCH_ROUNDS_MAX):
        taken = lane.take(queue, count, desk.clock.now_us())
        short = count - sum(len(indexes) for _, indexes in taken)
        try:
            more = short > 0 and await reading.fetch(desk, queue, lane)
        except BaseException:
            _put_back(desk, lane, taken)
            raise
        if more:
            _merge(taken, lane.take(queue, short, desk.clock.now_us()))
        if taken:
            deliveries = await _lease_all(desk, queue, lane, taken, visibility_s)
        if deliveries or not more:
            return deliveries
    return deliveries


def _merge(taken: list[tuple[Block, list[int]]], further: list[tuple[Block, list[int]]]) -> None:
    by_block = {block.id: indexes for block, indexes in taken}
    for block, indexes in further:
        if block.id in by_block:
            by_block[block.id].extend(indexes)
        else:
            taken.append((block, indexes))


def _put_back(desk: Desk, lane: Lane, taken: list[tuple[Block, list[int]]]) -> None:
    for block, indexes in taken:
        lane.put_back(block, indexes, desk.clock.now_us() // 1000)


async def _lease_all(
    desk: Desk,
    queue: Queue,
    lane: Lane,
    taken: list[tuple[Block, list[int]]],
    visibility_s: int,
) -> list[Delivery]:
    calls = [_lease(desk, queue, lane, block, indexes, visibility_s) for block, indexes in taken]
    due = upkeep.writes_due(desk, queue, lane)
    if due is not None:
        outcomes = await desk.waits.all_of([*calls, due])
    elif len(calls) == 1:
        return await calls[0]
    else:
        outcomes = await desk.waits.all_of(calls)
    deliveries: list[Delivery] = []
    failures: list[Exception] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            failures.append(outcome)
        else:
            deliveries += outcome
    if failures and not deliveries:
        raise failures[0]
    return deliveries


async def _lease(  # noqa: PLR0913 - the facts of a lease
    desk: Desk, queue: Queue, lane: Lane, block: Block, indexes: list[int], visibility_s: int
) -> list[Delivery]:
    """Lease what can be had of these messages, which this call has taken."""
    try:
        for _ in range(LEASE_ATTEMPTS_MAX):
            await reading.load(desk, lane, block, indexes)
            indexes = _still_wanted(desk, queue, lane, block, indexes)
            if not indexes:
                break
            written = await _write_leases(desk, queue, lane, block, indexes, visibility_s)
            if written is not None:
                return written
    finally:
        lane.put_back(block, indexes, desk.clock.now_us() // 1000)
        lane.advance()
    return []


def _still_wanted(
    desk: Desk, queue: Queue, lane: Lane, block: Block, indexes: list[int]
) -> list[int]:
    """Those of the taken messages that may be leased by what is known now."""
    now_us = desk.clock.now_us()
    wanted = []
    for index in indexes:
        if block.status.get(index) != TAKEN:
            continue
        stored = block.leases.get(index)
        segment = block.segments[block.first_of[index]]
        if is_over(queue, segment.sent_us, now_us):
            lane.gone(block, (index,))
        elif stored is not None and (
            from_bytes(stored).free_ms(desk.writer, FOREIGN_LEASE_GUARD_MS) > now_us // 1000
        ):
            lane.put_back(block, (index,), now_us // 1000)
        else:
            wanted.append(index)
    return wanted


async def _write_leases(  # noqa: PLR0913 - the facts of a lease
    desk: Desk, queue: Queue, lane: Lane, block: Block, indexes: list[int], visibility_s: int
) -> list[Delivery] | None:
    """The deliveries, or None where the block was changed by others: then it was learnt anew."""
    now_us = desk.clock.now_us()
    now_ms = now_us // 1000
    visible_ms = now_ms + visibility_s * 1000 if visibility_s else 0
    token = desk.new_token()
    assign: dict[str, Value] = {
        "v": FORMAT_VERSION,
        "x": now_us // 1_000_000 + queue.retention_s + DATA_TTL_SLACK_S + STATE_TTL_SLACK_S,
    }
    if block.total is not None:
        assign["f"] = block.total
    condition: list[AnyOf] = []
    leases: dict[int, Lease] = {}
    for index in indexes:
        stored = block.leases.get(index)
        first = block.first_of[index]
        if stored is None:
            new = Lease(visible_ms, 1, now_ms, now_ms, first, token)
        else:
            prior = from_bytes(stored)
            new = Lease(
                visible_ms, prior.receive_count + 1, now_ms, prior.first_received_ms, first, token
            )
        leases[index] = new
        name = f"m{index}"
        assign[name] = as_bytes = new.to_bytes()
        assign[f"s{first}"] = keys.be64(block.slices[first])
        seen = Absent(name) if stored is None else Equals(name, stored)
        condition += [(seen, Equals(name, as_bytes)), (Lacks("d", index),)]
    segments = {index: block.segments[block.first_of[index]] for index in indexes}
    written = await desk.cell(lane).update(
        Key(lane.states, block.id),
        Update(assign=assign),
        tuple(condition),
        lambda before: counting.leased(queue, before, indexes, visible_ms, now_ms),
    )
    if not written.applied:
        block.learn(written.before, desk.clock.now_us())
        return None
    messages = {index: segments[index].message(index) for index in indexes}
    lane.leased(block, {i: new.to_bytes() for i, new in leases.items()}, desk.clock.now_us())
    return [
        Delivery(
            messages[index],
            receipt_handle.encode(
                queue.uid,
                lane.number,
                lane.epoch,
                block.id,
                index,
                messages[index].sent_ms,
                token,
            ),
            new.receive_count,
            new.first_received_ms,
        )
        for index, new in leases.items()
        if block.status.get(index) != GONE
    ]
