"""Upkeep: markers for what leaves the window, the durable low-water mark, collection.

Nothing here runs by itself: receives carry it along, and the server calls `sweep`.
"""

from collections.abc import Coroutine, Sequence
from itertools import islice, takewhile
from typing import Any

from data_plane.bag.block import Finished
from data_plane.bag.bounds import (
    BLOCK_FULL_MESSAGES,
    COLLECT_BLOCKS_MAX,
    LATE_APPENDS_MAX,
    LOW_WATER_MESSAGES,
    MARKERS_AT_ONCE_MAX,
)
from data_plane.bag.desk import Access, Desk
from data_plane.bag.lane import Lane
from data_plane.core.message import Delivery
from data_plane.ports import (
    LATE_US_MAX,
    Append,
    Appended,
    Attributes,
    Cell,
    CellUnavailableError,
    Equals,
    Item,
    Key,
    Replicated,
    Update,
    is_replicated,
)
from data_plane.stored import keys
from data_plane.stored.bounds import DATA_TTL_SLACK_S, QUERY_PAGE
from data_plane.stored.low_water import may_follow, new_mark
from data_plane.stored.segment import FORMAT_VERSION, number, octets


def writes_due(at: Access) -> Coroutine[Any, Any, list[Delivery]] | None:
    """The upkeep that has become due, if any, as a call that delivers nothing."""
    overflowing = at.lane.overflowing()
    if at.lane.upkeep_under_way or not (
        overflowing or at.lane.passed_messages >= LOW_WATER_MESSAGES
    ):
        return None
    return _upkeep(at, LOW_WATER_MESSAGES, settle=overflowing)


async def _upkeep(at: Access, passed_min: int, *, settle: bool) -> list[Delivery]:
    """Move the durable low-water mark where so many messages were passed since it was written.

    `settle`: past what is in flight, too, with markers.
    One at a time: others would write the same markers again.
    """
    if at.lane.upkeep_under_way:
        return []
    at.lane.upkeep_under_way = True
    try:
        return await _keep_up(at, passed_min, settle=settle)
    finally:
        at.lane.upkeep_under_way = False


async def _keep_up(at: Access, passed_min: int, *, settle: bool) -> list[Delivery]:
    cell = at.cell
    if settle:
        wanted = at.lane.unmarked(MARKERS_AT_ONCE_MAX)
        outcomes = await at.desk.waits.all_of(
            [mark(at, block_id, due_ms) for block_id, due_ms in wanted.items()]
        )
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        at.lane.cover(await _share_covered(at, cell) if is_replicated(cell) else None)
    if at.lane.passed_messages >= passed_min:
        await write_low_water(at.cell, at.lane)
    return []


async def _share_covered(at: Access, cell: Replicated) -> dict[bytes, Attributes]:
    """The states of blocks that markers cover, once all members know them.

    A member that heard of the low-water mark and not of a lease below it would find the message no
    more: the front end that took the lease may have stopped before it told anybody.
    """
    blocks = at.lane.covered(MARKERS_AT_ONCE_MAX)
    found: dict[bytes, Attributes] = {}
    states = await at.desk.waits.all_of(
        [cell.share(Key(at.lane.states, block)) for block in blocks]
    )
    for block, state in zip(blocks, states, strict=True):
        if isinstance(state, Exception):
            raise state
        if state is not None:
            found[block] = state
    return found


async def mark(at: Access, block_id: bytes, due_ms: int) -> None:
    """Announce that a message of the block becomes visible at this time (0: now)."""
    appended = await append_in_time(
        at,
        block_id + keys.MARKER_FIRST,
        {"v": FORMAT_VERSION, "k": "m", "b": block_id, "x": at.state_ttl_s()},
        due_ms * 1000,
    )
    block = at.lane.known(block_id)
    if block is not None:
        at.lane.marked(block, due_ms, keys.slice_of(appended.key.sort))


async def announce(at: Access, late: Key, segment: Attributes) -> None:
    """Append a late marker, which leads readers to a segment that they may have passed."""
    block_id = octets(segment, "b")
    await append_in_time(
        at,
        late.sort[keys.SLICE_BYTES :] + keys.LATE_LAST,
        {"v": FORMAT_VERSION, "k": "l", "b": block_id, "s": late.sort, "x": segment["x"]},
    )


def came_late(at: Access, appended: Appended) -> bool:
    """Whether readers may have passed an item before it was stored."""
    late_us = appended.time_ms * 1000 - keys.slice_of(appended.key.sort)
    return late_us > LATE_US_MAX and not at.cell.chooses_stamps


async def append_in_time(
    at: Access, suffix: bytes, attributes: Attributes, visible_us: int = 0
) -> Appended:
    """Append an item that readers must find, under new keys until it does not come late."""
    for _ in range(LATE_APPENDS_MAX):
        delay_us = max(0, visible_us - at.cell.now_us())
        appended = await at.cell.append(
            Append(at.lane.segments, suffix, attributes, at.proposed_us(), delay_us)
        )
        if not came_late(at, appended):
            return appended
    raise CellUnavailableError("the cell takes writes too late for readers to find them")


async def mark_purge(at: Access) -> int:
    """Append a purge mark: its stamp is above those of all sends acknowledged before.

    What is sent afterwards goes into blocks of its own, so that those of before go as a whole.
    """
    for lane in at.lanes:
        lane.next_index = BLOCK_FULL_MESSAGES
    appended = await at.cell.append(
        Append(
            at.lane.segments,
            bytes(keys.BLOCK_BYTES) + keys.PURGE_FIRST,
            {"v": FORMAT_VERSION, "k": "p", "x": at.state_ttl_s()},
            at.proposed_us(),
        )
    )
    return appended.stamp_us


async def restamp(at: Access) -> None:
    """Let everything stored live as long as the queue's retention, which was raised, asks for.

    To be called with the raised retention before it is in force: what is stored must not be
    collected by the old one. Of block states only those are concerned that were written when their
    time to live still went by the retention.
    """
    for partition in (at.lane.segments, at.lane.states):
        after = b""
        while page := await at.cell.query(partition, after=after, limit=QUERY_PAGE):
            after = page[-1].key.sort
            outcomes = await at.desk.waits.all_of(
                [
                    at.cell.update(
                        item.key,
                        Update(assign={"x": _ttl_s(at, item)}),
                        # Not into being again where it was collected meanwhile.
                        ((Equals("v", item.attributes["v"]),),),
                    )
                    for item in page
                    if number(item.attributes, "x") < _ttl_s(at, item)
                ]
            )
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
            if is_replicated(cell := at.cell):
                await cell.tell()  # a copy must not collect what this one keeps


def _ttl_s(at: Access, item: Item) -> int:
    """The least that an item stored before may live: a segment from when it is visible on."""
    is_segment = item.key.partition == at.lane.segments
    from_us = keys.slice_of(item.key.sort) if is_segment else at.now_us()
    return from_us // 1_000_000 + at.queue.retention_s + DATA_TTL_SLACK_S


async def write_low_water(cell: Cell, lane: Lane) -> None:
    """Make the low-water mark durable where it has moved."""
    low = lane.low
    if low <= lane.low_written:
        return
    lane.passed_messages = lane.passed_items = 0
    await cell.update(
        lane.low_water_key,
        new_mark({"v": FORMAT_VERSION, "w": low}, lane.eras),
        may_follow(low, lane.low_doubted),
    )
    lane.low_written, lane.low_doubted = low, None


def is_due(desk: Desk) -> bool:
    """Whether low-water marks lag so far that who starts afresh reads much in vain.

    Receives see to that where messages are handed out. What was deleted by others counts here, too.
    """
    return any(
        lane.passed_items >= LOW_WATER_MESSAGES and lane.low > lane.low_written
        for lanes in desk.lanes.values()
        for lane in lanes
    )


async def sweep(desk: Desk) -> None:
    """One bounded step of upkeep for every lane that this front end knows.

    Raises CellUnavailableError, when it has looked after lanes of other cells; what was not done
    stays due.
    """
    failed: dict[str, CellUnavailableError] = {}
    for lanes, lane in [(known, lane) for known in desk.lanes.values() for lane in known]:
        if lanes.dropped or lane.cell in failed:
            continue
        try:
            await _sweep(Access(desk, lanes.queue, lanes, lane))
        except CellUnavailableError as error:
            failed[lane.cell] = error
    for failure in failed.values():
        raise failure


async def _sweep(at: Access) -> None:
    lane = at.lane
    if lane.window_gone or lane.low != lane.low_written:
        await _upkeep(at, 0, settle=lane.window_gone > 0)
    # What says what was sent stays until that is recorded.
    until_us = min(at.now_us(), at.desk.sent.recorded_us())
    first = islice(lane.finished, COLLECT_BLOCKS_MAX)
    due = list(takewhile(lambda finished: finished.due_us <= until_us, first))
    if due and is_replicated(cell := at.cell) and cell.collects():
        await _share_finished(at, cell, due)
    for finished in due:
        if not (lane.finished and lane.finished[0] is finished):
            break  # Another sweep has collected it meanwhile.
        lane.finished.popleft()
        at.cell.expire(finished.unneeded)
        if finished.apart and lane.cell in at.desk.bodies:
            at.desk.bodies[lane.cell].unneeded(finished.apart)


async def _share_finished(at: Access, cell: Replicated, due: Sequence[Finished]) -> None:
    """See that all members know that what is to be collected is deleted.

    Who deleted it may have stopped before it told them. Once the first has forgotten it, nobody
    could tell them any more; and one that does not hear now that it is not needed would deliver it
    again when it serves.
    """
    states = [
        key for finished in due for key in finished.unneeded if key.partition == at.lane.states
    ]
    for outcome in await at.desk.waits.all_of([cell.share(key) for key in states]):
        if isinstance(outcome, Exception):
            raise outcome


async def sweep_bodies(desk: Desk) -> None:
    """One bounded step of letting go of bodies apart that nobody needs, in every cell.

    Raises CellUnavailableError; what was not done stays due.
    """
    for name, bodies in desk.bodies.items():
        await bodies.sweep(desk.cells[name], desk.waits, desk.clock.now_us())
