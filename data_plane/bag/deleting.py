"""Deleting: one blind, idempotent write for each block touched."""

from collections.abc import Sequence

from data_plane.bag.bounds import COLLECT_AFTER_US
from data_plane.bag.desk import Access, Desk, open_lane
from data_plane.bag.lane import Finished
from data_plane.core.errors import RefusedError
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import Attributes, Key, Update
from data_plane.stored import counting, keys
from data_plane.stored.segment import FORMAT_VERSION


async def delete(
    desk: Desk, queue: Queue, handles: Sequence[ReceiptHandle]
) -> list[RefusedError | None]:
    """Delete the messages, whatever happened to their leases meanwhile. See `Bag.delete`."""
    at = open_lane(desk, queue)
    sent_ms: dict[bytes, dict[int, int]] = {}
    for handle in handles:
        sent_ms.setdefault(handle.block, {})[handle.index] = handle.sent_ms
    calls = [delete_in(at, block_id, sent) for block_id, sent in sent_ms.items()]
    for outcome in await desk.waits.all_of(calls):
        if isinstance(outcome, Exception):
            raise outcome
    return [None] * len(handles)


async def delete_in(
    at: Access, block_id: bytes, sent_ms: dict[int, int], *, moved: bool = False
) -> None:
    """Delete messages of one block; `moved`: because they are in another queue now."""
    queue, now_ms = at.queue, at.now_ms()
    written = await at.cell.update(
        Key(at.lane.states, block_id),
        Update(
            assign={"v": FORMAT_VERSION, "x": at.block_ttl_s(block_id)},
            add={"d": frozenset(sent_ms)},
            remove=frozenset(f"{a}{index}" for a in ("mq" if moved else "m") for index in sent_ms),
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
    state for that of a block nobody has touched. Where messages move to, the state stays: it says
    of copies that come later that they are deleted.
    """
    moved = keys.is_moved_block(block_id)
    done = before.get("d", frozenset())
    if not isinstance(done, frozenset):
        return
    if not moved and len(done | sent_ms.keys()) != before.get("f"):
        return
    segments = tuple(
        Key(at.lane.segments, value + block_id + bytes((first,)))
        for name, value in before.items()
        if name[0] == "s"
        and isinstance(value, bytes)
        and ((first := int(name[1:])) in sent_ms or not moved)
    )
    at.lane.finished.append(
        Finished(
            at.now_us() + COLLECT_AFTER_US,
            segments if moved else (*segments, Key(at.lane.states, block_id)),
            segments if "o" in before else (),
        )
    )
