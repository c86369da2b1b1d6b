"""Deleting: allowed while the handle's lease lasts, one conditional write for each block."""

from collections.abc import Sequence

from data_plane.core.errors import RefusedError, handle_expired
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.log import leases
from data_plane.log.bounds import CLAIM_ATTEMPTS_MAX
from data_plane.log.desk import Access, Desk, access_of, channel
from data_plane.ports import Attributes, CellUnavailableError, Equals, Lacks, Update, is_replicated
from data_plane.stored import counting
from data_plane.stored.segment import FORMAT_VERSION, octets

Outcome = RefusedError | None


async def delete(desk: Desk, queue: Queue, handles: Sequence[ReceiptHandle]) -> list[Outcome]:
    """Delete the messages whose handles have not expired. See `Log.delete`."""
    blocks: dict[tuple[int, int, int], dict[str, ReceiptHandle]] = {}
    for handle in handles:
        blocks.setdefault(leases.place_in(queue, handle), {})[handle.text] = handle
    outcomes: dict[str, Outcome] = {}
    for outcome in await desk.waits.all_of(
        [
            _delete_in(access_of(desk, queue, number, generation), block, list(wanted.values()))
            for (number, generation, block), wanted in blocks.items()
        ]
    ):
        if isinstance(outcome, Exception):
            raise outcome
        outcomes |= outcome
    return [outcomes[handle.text] for handle in handles]


async def _delete_in(at: Access, block: int, handles: list[ReceiptHandle]) -> dict[str, Outcome]:
    """Delete messages of one block: what became of each handle."""
    key = at.partition.state_key(block)
    asked_us = at.now_us()
    state = await leases.state_of(at, block, handles)
    is_sure = not is_replicated(at.cell)
    for _ in range(CLAIM_ATTEMPTS_MAX):
        now_ms = at.now_ms()
        outcomes = {handle.text: _judge(at, state, handle, now_ms) for handle in handles}
        if not is_sure and (state is None or any(outcomes.values())):
            # Is it so, or was a cell asked that belongs to the queue's cells no more?
            state, is_sure = await leases.state_now(at, block), True
            continue
        indexes = [
            handle.index
            for handle in handles
            if outcomes[handle.text] is None and not leases.is_done(state, handle.index)
        ]
        if state is None or not indexes:
            return outcomes
        asked_us = at.now_us()
        gone = counting.gone_by(handle for handle in handles if handle.index in indexes)
        written = await at.cell.update(
            key,
            Update(
                assign={"v": FORMAT_VERSION, "x": at.state_ttl_s()},
                add={"d": frozenset(indexes)},
                # A fenced delete leaves the lease, to know itself when it is repeated.
                remove=frozenset(f"m{index}" for index in indexes if not at.queue.is_fenced),
            ),
            tuple(
                clause
                for index in indexes
                for clause in (
                    (Equals(f"m{index}", octets(state, f"m{index}")),),
                    (Lacks("d", index),),
                )
            ),
            lambda before: counting.deleted(at.queue, before, gone, now_ms),  # noqa: B023
        )
        if written.applied:
            done(at, block, written.before, indexes, asked_us)
            return outcomes
        state = written.before
    raise CellUnavailableError("the block changes faster than it can be written")


def _judge(at: Access, state: Attributes | None, handle: ReceiptHandle, now_ms: int) -> Outcome:
    """Why the message must not be deleted with this handle; None: it may, or is already.

    In a fenced queue that is done which this handle has deleted.
    """
    held = leases.lease_in(state, handle.index)
    if leases.is_done(state, handle.index):
        own = held is not None and held.token == handle.token
        return None if own or not at.queue.is_fenced else handle_expired(handle.text)
    if held is None or held.token != handle.token or held.visible_ms <= now_ms:
        return handle_expired(handle.text)
    return None


def done(
    at: Access, block: int, before: Attributes | None, indexes: list[int], asked_us: int
) -> None:
    """Let this front end's receives know: groups may go on."""
    reader = at.partition.reader
    known = reader.blocks.get(block)
    if known is None:
        return
    reader.learn(known, before, asked_us)
    reader.gone(known, indexes, asked_us)
    at.desk.waits.signal(channel(at.queue), len(indexes))
