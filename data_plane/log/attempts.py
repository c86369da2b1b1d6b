"""ReceiveRequestAttemptId: a receive that is repeated gets what its first attempt took.

Source: SQS API reference, ReceiveMessage. The item is described in docs/storage.md.
"""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from data_plane.core import receipt_handle
from data_plane.core.digests import attempt_hash
from data_plane.core.message import Delivery, Message
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.log import leases, reading
from data_plane.log.bounds import ATTEMPT_US
from data_plane.log.desk import Access, Desk, access_of
from data_plane.log.reader import is_over
from data_plane.log.slots import MESSAGES, read_slot
from data_plane.log.window import sequence_number
from data_plane.ports import Equals, Key, Lacks, Update
from data_plane.stored import counting, keys
from data_plane.stored.bounds import DATA_TTL_SLACK_S, QUERY_PAGE
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.lease import Lease
from data_plane.stored.segment import FORMAT_VERSION, LoadedSegment, check_version, number
from data_plane.stored.superfluous import is_emptied

_SEPARATOR = "\n"


def _key(queue: Queue, attempt: str) -> Key:
    return Key(keys.attempts(queue.uid), attempt_hash(queue, attempt))


async def remember(desk: Desk, queue: Queue, attempt: str, deliveries: Sequence[Delivery]) -> None:
    """Store what an attempt took. Raises CellUnavailableError."""
    now_us = desk.clock.now_us()
    await cell_of(desk.cells, queue).put(
        _key(queue, attempt),
        {
            "v": FORMAT_VERSION,
            "t": now_us,
            "h": _SEPARATOR.join(delivery.receipt_handle for delivery in deliveries),
            "x": now_us // 1_000_000 + DATA_TTL_SLACK_S,
        },
    )


async def repeat(desk: Desk, queue: Queue, attempt: str, visibility_s: int) -> list[Delivery]:
    """Lease again what an earlier attempt of the last 5 minutes took, and still holds.

    Under the same handles, with the visibility begun anew. Raises CellUnavailableError.
    """
    item = await cell_of(desk.cells, queue).get(_key(queue, attempt))
    if item is None:
        return []
    check_version(item)
    if not 0 <= desk.clock.now_us() - number(item, "t") < ATTEMPT_US:
        return []
    handles = [receipt_handle.decode(text, queue) for text in str(item["h"]).split(_SEPARATOR)]
    blocks: dict[tuple[int, int, int], list[ReceiptHandle]] = {}
    for handle in handles:
        place = (handle.lane, handle.epoch, leases.block_of(handle))
        blocks.setdefault(place, []).append(handle)
    again: dict[str, Delivery] = {}
    for (partition, generation, block), held in blocks.items():
        at = access_of(desk, queue, partition, generation)
        again |= await _lease_again(at, block, held, visibility_s)
    return [again[handle.text] for handle in handles if handle.text in again]


async def _lease_again(
    at: Access, block: int, handles: list[ReceiptHandle], visibility_s: int
) -> dict[str, Delivery]:
    """What of one block is still held; nothing where others change it meanwhile."""
    key = at.partition.state_key(block)
    asked_us = at.now_us()
    state = await at.cell.get(key)
    now_ms = asked_us // 1000
    visible_ms = now_ms + visibility_s * 1000 if visibility_s else 0
    held: dict[int, Lease] = {}
    for handle in handles:
        known = leases.lease_in(state, handle.index)
        if (
            known is not None
            and not leases.is_done(state, handle.index)
            and known.token == handle.token
            and known.visible_ms > now_ms
        ):
            held[handle.index] = known._replace(
                visible_ms=visible_ms, receive_count=known.receive_count + 1
            )
    if state is None or not held:
        return {}
    messages = await _messages(at, block, set(held))
    held = {index: lease for index, lease in held.items() if index in messages}
    if not held:
        return {}
    assigned = {f"m{index}": lease.to_bytes() for index, lease in held.items()}
    written = await at.cell.update(
        key,
        Update(assign={"v": FORMAT_VERSION, "x": at.state_ttl_s(), **assigned}),
        tuple(
            clause
            for index in held
            for clause in (
                (
                    Equals(f"m{index}", state[f"m{index}"]),
                    Equals(f"m{index}", assigned[f"m{index}"]),
                ),
                (Lacks("d", index),),
            )
        ),
        partial(counting.leased, at.queue, leases=held, now_ms=now_ms),
    )
    leases.learn(at, block, assigned if written.applied else written.before, asked_us)
    if not written.applied:
        return {}
    return {
        handle.text: Delivery(
            messages[handle.index],
            handle.text,
            held[handle.index].receive_count,
            held[handle.index].first_received_ms,
        )
        for handle in handles
        if handle.index in held
    }


async def _messages(at: Access, block: int, indexes: set[int]) -> dict[int, Message]:
    """Messages of a block by index, read from its slots; none that is expired or purged."""
    now_us = at.now_us()
    found: dict[int, Message] = {}
    after = block - 1
    while len(found) < len(indexes):
        items = await at.cell.query(at.partition.slots, after=keys.be64(after), limit=QUERY_PAGE)
        slots = [read_slot(item) for item in items]
        after = slots[-1].number if slots else after
        mine = [slot for slot in slots if slot.block == block and slot.kind == MESSAGES]
        wanted = {
            slot.number: LoadedSegment(slot.key, slot.item)
            for slot in mine
            if indexes & set(range(slot.first, slot.next_index))
            and not is_over(at.queue, slot.stamp_us, now_us, at.partition.eras)
            and not is_emptied(slot.item)
        }
        opened = await reading.open_all(at, wanted)
        for slot in mine:
            for position, message in enumerate(opened.get(slot.number) or ()):
                if slot.first + position in indexes:
                    sequence = sequence_number(slot.stamp_us, at.partition.number, position)
                    found[slot.first + position] = replace(message, sequence=sequence)
        if not slots or slots[-1].block != block:
            break
    return found
