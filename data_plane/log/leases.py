"""What a receipt handle of a FIFO queue still allows: it is good for as long as its lease."""

from collections.abc import Collection

from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.log.desk import Access
from data_plane.ports import Attributes, is_replicated
from data_plane.stored import keys
from data_plane.stored.lease import Lease, from_bytes

_LANE_BITS, _EPOCH_BITS = 8, 16
"""Of a shard's number, which has 32, in a handle; what is left stands behind the block."""


def named_in_handle(at: Access, block: int) -> tuple[int, int, bytes]:
    """Lane, epoch and block of a handle of a message in the block that begins at this slot."""
    number, generation = at.partition.number, at.partition.generation
    if not at.queue.reads_stream:
        return number, generation, keys.be64(block) + b"\0\0"
    left = number >> (_LANE_BITS + _EPOCH_BITS)
    epoch = number >> _LANE_BITS & ((1 << _EPOCH_BITS) - 1)
    lane = number & ((1 << _LANE_BITS) - 1)
    return lane, epoch, keys.be64(block) + left.to_bytes(2, "big")


def place_in(queue: Queue, handle: ReceiptHandle) -> tuple[int, int, int]:
    """The partition, its generation, and the first slot of the block of a handle's message."""
    block = keys.slot_of(handle.block[: keys.SLICE_BYTES])
    if not queue.reads_stream:
        return handle.lane, handle.epoch, block
    left = keys.slot_of(handle.block[keys.SLICE_BYTES :])
    return handle.lane | handle.epoch << _LANE_BITS | left << (_LANE_BITS + _EPOCH_BITS), 0, block


def lease_in(state: Attributes | None, index: int) -> Lease | None:
    """The lease of a message in a stored state, if it has one."""
    stored = state.get(f"m{index}") if state is not None else None
    return from_bytes(stored) if isinstance(stored, bytes) else None


def is_done(state: Attributes | None, index: int) -> bool:
    """Whether the message is deleted; a block without a state was collected when all were."""
    if state is None:
        return True
    done = state.get("d")
    return isinstance(done, frozenset) and index in done


async def state_of(at: Access, block: int, handles: Collection[ReceiptHandle]) -> Attributes | None:
    """The block's state, from memory where all of these handles are good by what is known.

    What is known may be old, and only the cell says that a handle is good no more.
    """
    known = at.partition.reader.blocks.get(block)
    if known is not None:
        now_ms = at.now_ms()
        leases = {handle.index: known.leases.get(handle.index, b"") for handle in handles}
        if all(
            leases[handle.index] and _is_good(from_bytes(leases[handle.index]), handle, now_ms)
            for handle in handles
        ):
            return {f"m{index}": stored for index, stored in leases.items()}
    return await at.cell.get(at.partition.state_key(block))


async def state_now(at: Access, block: int) -> Attributes | None:
    """The block's state as its cells of this moment have it: where it has none, it was collected.

    Raises CellUnavailableError.
    """
    key = at.partition.state_key(block)
    return await at.cell.get_now(key) if is_replicated(at.cell) else await at.cell.get(key)


def _is_good(held: Lease, handle: ReceiptHandle, now_ms: int) -> bool:
    return held.token == handle.token and held.visible_ms > now_ms


def learn(at: Access, block: int, state: Attributes | None, asked_us: int) -> None:
    """Take over a state that was read, if the block is one this front end reads.

    One that had a state, and has none, may have been collected: so what is known of it is old.
    """
    known = at.partition.reader.blocks.get(block)
    if known is not None and state is None:
        known.checked_us = 0
    elif known is not None:
        at.partition.reader.learn(known, state, asked_us)
