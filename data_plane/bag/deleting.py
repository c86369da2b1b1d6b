"""Deleting: one blind, idempotent write for each block touched."""

from collections.abc import Sequence

from data_plane.bag import counting, keys
from data_plane.bag.bounds import COLLECT_AFTER_US, DATA_TTL_SLACK_S, STATE_TTL_SLACK_S
from data_plane.bag.desk import Desk
from data_plane.bag.lane import Lane
from data_plane.bag.segment import FORMAT_VERSION
from data_plane.core.errors import RefusedError
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import Attributes, Key, Update


async def delete(
    desk: Desk, queue: Queue, handles: Sequence[ReceiptHandle]
) -> list[None | RefusedError]:
    """Delete the messages, whatever happened to their leases meanwhile. See `Bag.delete`."""
    lane = desk.lane(queue)
    blocks: dict[bytes, dict[int, int]] = {}
    for handle in handles:
        blocks.setdefault(handle.block, {})[handle.index] = handle.sent_ms
    calls = [_delete_in(desk, queue, lane, block, sent) for block, sent in blocks.items()]
    if len(calls) == 1:
        await calls[0]
    else:
        for outcome in await desk.waits.all_of(calls):
            if isinstance(outcome, Exception):
                raise outcome
    return [None] * len(handles)


async def _delete_in(
    desk: Desk, queue: Queue, lane: Lane, block_id: bytes, sent_ms: dict[int, int]
) -> None:
    now_us = desk.clock.now_us()
    ttl_s = now_us // 1_000_000 + queue.retention_s + DATA_TTL_SLACK_S + STATE_TTL_SLACK_S
    written = await desk.cell(lane).update(
        Key(lane.states, block_id),
        Update(
            assign={"v": FORMAT_VERSION, "x": ttl_s},
            add={"d": frozenset(sent_ms)},
            remove=frozenset(f"m{index}" for index in sent_ms),
        ),
        tallies=lambda before: counting.deleted(queue, before, sent_ms, now_us // 1000),
    )
    block = lane.known(block_id)
    if block is not None:
        lane.gone(block, sent_ms)
        lane.advance()
    if written.before is not None:
        _collect_if_finished(lane, block_id, written.before, sent_ms, now_us)


def _collect_if_finished(
    lane: Lane, block_id: bytes, before: Attributes, sent_ms: dict[int, int], now_us: int
) -> None:
    """Where no message of the block is left, let its items be collected after a while.

    Not at once: other front ends may hold prefetched messages of it, and would take an absent
    state for that of a block nobody has touched.
    """
    done = before.get("d", frozenset())
    if not isinstance(done, frozenset) or len(done | sent_ms.keys()) != before.get("f"):
        return
    segments = tuple(
        Key(lane.segments, value + block_id + bytes((int(name[1:]),)))
        for name, value in before.items()
        if name[0] == "s" and isinstance(value, bytes)
    )
    lane.finished.append(
        (now_us + COLLECT_AFTER_US, block_id, (*segments, Key(lane.states, block_id)))
    )
