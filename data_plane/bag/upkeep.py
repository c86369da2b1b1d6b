"""Upkeep: markers for what leaves the window, the durable low-water mark, collection.

Nothing here runs by itself: receives carry it along, and the server calls `sweep`.
"""

from collections.abc import Coroutine
from typing import Any

from data_plane.bag import counting, keys
from data_plane.bag.bounds import (
    COLLECT_BLOCKS_MAX,
    DATA_TTL_SLACK_S,
    LOW_WATER_MESSAGES,
    MARKERS_AT_ONCE_MAX,
    STATE_TTL_SLACK_S,
)
from data_plane.bag.desk import Desk
from data_plane.bag.lane import Lane
from data_plane.bag.segment import FORMAT_VERSION
from data_plane.core.message import Delivery
from data_plane.core.queue import Queue
from data_plane.ports import Absent, Append, LessThan, Update


def writes_due(desk: Desk, queue: Queue, lane: Lane) -> Coroutine[Any, Any, list[Delivery]] | None:
    """The upkeep that has become due, if any, as a call that delivers nothing."""
    if lane.passed_messages >= LOW_WATER_MESSAGES or lane.overflowing():
        return _upkeep(desk, queue, lane)
    return None


async def _upkeep(desk: Desk, queue: Queue, lane: Lane) -> list[Delivery]:
    if lane.overflowing():
        wanted = lane.unmarked(MARKERS_AT_ONCE_MAX)
        outcomes = await desk.waits.all_of(
            [mark(desk, queue, lane, block_id, due_ms) for block_id, due_ms in wanted.items()]
        )
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        lane.cover()
    await write_low_water(desk, lane)
    return []


async def mark(desk: Desk, queue: Queue, lane: Lane, block_id: bytes, due_ms: int) -> None:
    """Announce that a message of the block becomes visible at this time (0: now)."""
    cell = desk.cell(lane)
    delay_us = max(0, due_ms * 1000 - cell.now_us())
    ttl_s = desk.clock.now_us() // 1_000_000 + queue.retention_s
    await cell.append(
        Append(
            lane.segments,
            block_id + keys.MARKER_FIRST,
            {
                "v": FORMAT_VERSION,
                "k": "m",
                "b": block_id,
                "x": ttl_s + DATA_TTL_SLACK_S + STATE_TTL_SLACK_S,
            },
            desk.clock.now_us(),
            delay_us,
        )
    )
    block = lane.known(block_id)
    if block is not None:
        block.marked_ms = min(block.marked_ms, due_ms)


async def write_low_water(desk: Desk, lane: Lane) -> None:
    """Make the low-water mark durable where it has moved."""
    low = lane.low
    if low is None or low <= lane.low_written:
        return
    lane.passed_messages = 0
    await desk.cell(lane).update(
        lane.low_water_key,
        Update(assign={"v": FORMAT_VERSION, "w": low}),
        ((Absent("w"), LessThan("w", low)),),
    )
    lane.low_written = low


async def sweep(desk: Desk) -> None:
    """One bounded step of upkeep for every lane that this front end knows.

    Raises CellUnavailableError; what was not done stays due.
    """
    now_us = desk.clock.now_us()
    for lane in list(desk.lanes.values()):
        cell = desk.cell(lane)
        if lane.low is not None and not lane.dropped:
            await write_low_water(desk, lane)
        collected = 0
        while lane.finished and lane.finished[0][0] <= now_us and collected < COLLECT_BLOCKS_MAX:
            _, _, unneeded = lane.finished.popleft()
            cell.expire(unneeded)
            collected += 1


async def drop_past_counters(desk: Desk, queue: Queue) -> None:
    """Let go of the counters of seconds that have passed."""
    await counting.drop_past(desk, queue.uid, desk.cells[queue.cell], queue.purged_us)
