"""Deleting: one blind, idempotent write for each block touched."""

from collections.abc import Sequence

from data_plane.bag.bounds import COLLECT_AFTER_US
from data_plane.bag.desk import Access, Desk, open_lane
from data_plane.bag.lane import Finished
from data_plane.core.errors import RefusedError
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import Attributes, Key, Update
from data_plane.stored import counting
from data_plane.stored.segment import FORMAT_VERSION


async def delete(
    desk: Desk, queue: Queue, handles: Sequence[ReceiptHandle]
) -> list[RefusedError | None]:
    """Delete the messages, whatever happened to their leases meanwhile. See `Bag.delete`."""
    at = open_lane(desk, queue)
    sent_ms: dict[bytes, dict[int, int]] = {}
    for handle in handles:
        sent_ms.setdefault(handle.block, {})[handle.index] = handle.sent_ms
    calls = [_delete_in(at, block_id, sent) for block_id, sent in sent_ms.items()]
    for outcome in await desk.waits.all_of(calls):
        if isinstance(outcome, Exception):
            raise outcome
    return [None] * len(handles)


async def _delete_in(at: Access, block_id: bytes, sent_ms: dict[int, int]) -> None:
    queue, now_ms = at.queue, at.now_ms()
    written = await at.cell.update(
        Key(at.lane.states, block_id),
        Update(
            assign={"v": FORMAT_VERSION, "x": at.state_ttl_s()},
            add={"d": frozenset(sent_ms)},
            remove=frozenset(f"m{index}" for index in sent_ms),
        ),
        tallies=lambda before: counting.deleted(queue, before, sent_ms, now_ms),
    )
    block = at.lane.known(block_id)
    if block is not None:
        at.lane.gone(block, sent_ms)
        at.lane.advance()
    if written.before is not None:
        _collect_if_finished(at, block_id, written.before, sent_ms)


def _collect_if_finished(
    at: Access, block_id: bytes, before: Attributes, sent_ms: dict[int, int]
) -> None:
    """Where no message of the block is left, let its items be collected after a while.

    Not at once: other front ends may hold prefetched messages of it, and would take an absent
    state for that of a block nobody has touched.
    """
    done = before.get("d", frozenset())
    if not isinstance(done, frozenset) or len(done | sent_ms.keys()) != before.get("f"):
        return
    segments = tuple(
        Key(at.lane.segments, value + block_id + bytes((int(name[1:]),)))
        for name, value in before.items()
        if name[0] == "s" and isinstance(value, bytes)
    )
    at.lane.finished.append(
        Finished(
            at.now_us() + COLLECT_AFTER_US,
            (*segments, Key(at.lane.states, block_id)),
            segments if "o" in before else (),
        )
    )
