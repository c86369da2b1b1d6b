"""Deleting: one write for each block touched, blind and idempotent, or fenced by the leases."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

from data_plane.bag import fair
from data_plane.bag.block import Finished
from data_plane.bag.bounds import COLLECT_AFTER_US, LEASE_ATTEMPTS_MAX
from data_plane.bag.desk import Access, Desk, open_lanes_of
from data_plane.core.errors import RefusedError, handle_expired
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import (
    ALWAYS,
    Attributes,
    CellUnavailableError,
    Condition,
    Equals,
    Key,
    Update,
    is_replicated,
)
from data_plane.stored import counting, keys, lease
from data_plane.stored.moves import NOT_MOVED
from data_plane.stored.segment import FORMAT_VERSION

_NOT_COLLECTED: Final[Condition] = ((Equals("v", FORMAT_VERSION),),)


async def delete(
    desk: Desk, queue: Queue, handles: Sequence[ReceiptHandle]
) -> list[RefusedError | None]:
    """Delete the messages, whatever happened to their leases meanwhile. See `Bag.delete`.

    In a fenced queue that is refused with a handle whose lease is not the last one.
    """
    lanes = open_lanes_of(desk, queue, handles)
    blocks: dict[tuple[int, bytes], list[ReceiptHandle]] = {}
    for handle in handles:
        blocks.setdefault((handle.lane, handle.block), []).append(handle)
    delete_of_block = _delete_fenced if queue.is_fenced else _delete_blindly
    expired: set[str] = set()
    for outcome in await desk.waits.all_of(
        [delete_of_block(lanes[lane], block, wanted) for (lane, block), wanted in blocks.items()]
    ):
        if isinstance(outcome, Exception):
            raise outcome
        expired |= outcome
    return [handle_expired(handle.text) if handle.text in expired else None for handle in handles]


async def _delete_blindly(at: Access, block_id: bytes, handles: list[ReceiptHandle]) -> set[str]:
    """Delete messages of one block; no handle has expired."""
    await delete_in(at, block_id, counting.gone_by(handles))
    return set()


async def _delete_fenced(at: Access, block_id: bytes, handles: list[ReceiptHandle]) -> set[str]:
    """Delete those messages of one block of which the last leases are at hand: the other handles.

    The leases stay: so a repetition with the same handle finds its own.
    """
    queue, key = at.queue, Key(at.lane.states, block_id)
    state = await at.cell.get(key)
    is_sure = False
    for _ in range(LEASE_ATTEMPTS_MAX):
        held = [h for h in handles if state is not None and holds_lease(state, h)]
        lost = {handle.text for handle in handles} - {handle.text for handle in held}
        if lost and not is_sure and is_replicated(at.cell):
            # Is it so, or was a cell asked that belongs to the queue's cells no more?
            state, is_sure = await at.cell.get_now(key), True
            continue
        if state is None or not held:
            return lost
        now_ms = at.now_ms()
        gone = counting.gone_by(held)
        written = await at.cell.update(
            key,
            Update(
                assign={"v": FORMAT_VERSION, "x": at.block_ttl_s(block_id)},
                add={"d": frozenset(gone)},
            ),
            tuple((Equals(f"m{index}", state[f"m{index}"]),) for index in gone),
            partial(counting.deleted, queue, gone=gone, now_ms=now_ms),
        )
        if written.applied:
            _deleted(at, block_id, written.before, gone)
            return lost
        state = written.before
    raise CellUnavailableError("the block changes faster than it can be written")


def holds_lease(state: Attributes, handle: ReceiptHandle) -> bool:
    """Whether the last lease of the handle's message is the handle's."""
    stored = state.get(f"m{handle.index}")
    return isinstance(stored, bytes) and lease.from_bytes(stored).token == handle.token


async def delete_in(
    at: Access,
    block_id: bytes,
    gone: Mapping[int, counting.Gone],
    moved: Mapping[str, frozenset[int]] = NOT_MOVED,
) -> None:
    """Delete messages of one block; `moved` marks those that are in another queue now.

    What is deleted was leased, so the block has a state, or it was collected: then there is nothing
    left to delete, or to count. But a copy may not have been told of the lease.
    """
    queue, now_ms = at.queue, at.now_ms()
    written = await at.cell.update(
        Key(at.lane.states, block_id),
        Update(
            assign={"v": FORMAT_VERSION, "x": at.block_ttl_s(block_id)},
            add={"d": frozenset(gone), **moved},
            remove=frozenset(f"{a}{index}" for a in ("mq" if moved else "m") for index in gone),
        ),
        ALWAYS if is_replicated(at.cell) else _NOT_COLLECTED,
        lambda before: counting.deleted(queue, before, gone, now_ms),
    )
    if written.applied:
        _deleted(at, block_id, written.before, gone)


def _deleted(at: Access, block_id: bytes, before: Attributes | None, gone: Collection[int]) -> None:
    """Let this front end know that messages of a block are deleted."""
    at.lanes.in_flight.deleted(len(gone))
    fair.deleted(at, block_id, gone)
    block = at.lane.known(block_id)
    if block is not None:
        at.lane.gone(block, gone)
        at.lane.advance()
    if before is not None:
        _collect_if_finished(at, block_id, before, gone)


def _collect_if_finished(
    at: Access, block_id: bytes, before: Attributes, gone: Collection[int]
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
    if not moved and len(done.union(gone)) != before.get("f"):
        return
    if is_replicated(at.cell) and not moved and not _names_all_segments(before):
        return
    segments = tuple(
        Key(at.lane.segments, value + block_id + bytes((first,)))
        for name, value in before.items()
        if name[0] == "s"
        and isinstance(value, bytes)
        and ((first := int(name[1:])) in gone or not moved)
    )
    at.lane.finished.append(
        Finished(
            at.now_us() + COLLECT_AFTER_US,
            segments if moved else (*segments, Key(at.lane.states, block_id)),
            segments if "o" in before else (),
        )
    )


def _names_all_segments(state: Attributes) -> bool:
    """Whether a copy was told where all messages of its block lie.

    It may know of a delete and not of the lease before it. A segment that is left behind when the
    state goes would be delivered again; so such a block is left to its time to live.
    """
    counts = (value for name, value in state.items() if name[0] == "n" and isinstance(value, int))
    return sum(counts) == state.get("f")
