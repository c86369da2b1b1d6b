"""ReceiveRequestAttemptId: a receive that is repeated gets what its first attempt took.

Source: SQS API reference, ReceiveMessage: as long as none of it was deleted, or had its visibility
changed. Then a repetition is refused, in the words of awslabs/amazon-sqs-java-messaging-lib #213.
The item is described in docs/storage.md.
"""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from data_plane.core import receipt_handle
from data_plane.core.digests import attempt_hash
from data_plane.core.errors import invalid_parameter
from data_plane.core.message import Delivery, Message
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.log import leases, reading
from data_plane.log.bounds import ATTEMPT_US
from data_plane.log.desk import Access, Desk, access_of
from data_plane.log.layers import layers
from data_plane.log.reader import is_over
from data_plane.log.slots import MESSAGES
from data_plane.log.window import sequence_number
from data_plane.ports import Attributes, Equals, Key, Lacks, Update, is_replicated
from data_plane.stored import counting, keys
from data_plane.stored.bounds import DATA_TTL_SLACK_S, QUERY_PAGE
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.lease import Lease
from data_plane.stored.segment import FORMAT_VERSION, check_version, number
from data_plane.stored.superfluous import is_emptied

_SEPARATOR = "\n"
_NOT_RETRYABLE = (
    "The receiveRequestAttemptId is not valid anymore since the receive call is not retryable."
)


def _key(queue: Queue, attempt: str) -> Key:
    return Key(keys.attempts(queue.uid), attempt_hash(queue, attempt))


async def remember(
    desk: Desk, queue: Queue, attempt: str, deliveries: Sequence[Delivery], visibility_s: int
) -> None:
    """Store what an attempt took, and for how long. Raises CellUnavailableError."""
    now_us = desk.clock.now_us()
    await cell_of(desk.cells, queue).put(
        _key(queue, attempt),
        {
            "v": FORMAT_VERSION,
            "t": now_us,
            "h": _SEPARATOR.join(delivery.receipt_handle for delivery in deliveries),
            "s": visibility_s,
            "x": now_us // 1_000_000 + DATA_TTL_SLACK_S,
        },
    )


async def repeat(desk: Desk, queue: Queue, attempt: str, visibility_s: int) -> list[Delivery]:
    """Lease again what an earlier attempt of the last 5 minutes took, and still holds.

    Under the same handles, with the visibility begun anew.

    Raises CellUnavailableError, and RefusedError where some of it was deleted or had its visibility
    changed.
    """
    cell, key = cell_of(desk.cells, queue), _key(queue, attempt)
    item = await cell.get(key)
    if item is None and is_replicated(cell):
        item = await cell.get_now(key)
    if item is None:
        return []
    check_version(item)
    if not 0 <= desk.clock.now_us() - number(item, "t") < ATTEMPT_US:
        return []
    handles = [receipt_handle.decode(text, queue) for text in str(item["h"]).split(_SEPARATOR)]
    blocks: dict[tuple[int, int, int], list[ReceiptHandle]] = {}
    for handle in handles:
        blocks.setdefault(leases.place_in(queue, handle), []).append(handle)
    if queue.reads_stream:
        await layers(desk, queue)  # From now on it is known how to read the shards.
    taken_s = number(item, "s") if "s" in item else None
    seen = []
    for (partition, generation, block), held in blocks.items():
        at = access_of(desk, queue, partition, generation)
        asked_us = at.now_us()
        state = await at.cell.get(at.partition.state_key(block))
        if not all(_has_lease(state, handle) for handle in held):
            state = await leases.state_now(at, block)
        if any(_is_changed(state, handle, taken_s) for handle in held):
            raise invalid_parameter("ReceiveRequestAttemptId", attempt, _NOT_RETRYABLE)
        seen.append((at, block, held, state, asked_us))
    again: dict[str, Delivery] = {}
    for at, block, held, state, asked_us in seen:
        again |= await _lease_again(at, block, held, state, asked_us, visibility_s)
    if again and taken_s != visibility_s:
        await cell.put(key, {**item, "s": visibility_s})
    return [again[handle.text] for handle in handles if handle.text in again]


def _is_changed(state: Attributes | None, handle: ReceiptHandle, taken_s: int | None) -> bool:
    """Whether the message was deleted, or its lease does not end `taken_s` after its receive.

    None: the attempt was stored before that was noted. A message that others have received since
    its visibility ended is theirs, and not changed.
    """
    if leases.is_done(state, handle.index):
        return True
    known = leases.lease_in(state, handle.index)
    if taken_s is None or known is None or known.token != handle.token:
        return False
    return known.visible_ms != (known.leased_ms + taken_s * 1000 if taken_s else 0)


def _has_lease(state: Attributes | None, handle: ReceiptHandle) -> bool:
    known = leases.lease_in(state, handle.index)
    return known is not None and known.token == handle.token


async def _lease_again(  # noqa: PLR0913, PLR0917 - a block as it was seen
    at: Access,
    block: int,
    handles: list[ReceiptHandle],
    state: Attributes | None,
    asked_us: int,
    visibility_s: int,
) -> dict[str, Delivery]:
    """What of one block is still held; nothing where others change it meanwhile."""
    key = at.partition.state_key(block)
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
                visible_ms=visible_ms, leased_ms=now_ms, receive_count=known.receive_count + 1
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
    """Messages of a block by index, read from its slots; none that is expired or purged.

    None either of a shard that is gone, or whose stream is.
    """
    if at.queue.reads_stream and at.partition.source is None:
        return {}
    now_us = at.now_us()
    found: dict[int, Message] = {}
    after = block - 1
    while len(found) < len(indexes):
        slots = await reading.slots_behind(at, after, QUERY_PAGE)
        after = slots[-1].number if slots else after
        mine = [slot for slot in slots if slot.block == block and slot.kind == MESSAGES]
        wanted = {
            slot.number: at.partition.reader.held_as(slot.number, slot.key, slot.item)
            for slot in mine
            if indexes & set(range(slot.first, slot.next_index))
            and not is_over(at.newest, slot.stamp_us, now_us, at.partition.eras)
            and not is_emptied(slot.item)
        }
        opened = await reading.open_all(at, wanted)
        for slot in mine:
            for position, message in enumerate(opened.get(slot.number) or ()):
                if slot.first + position in indexes:
                    if not at.queue.reads_stream:
                        sequence = sequence_number(slot.stamp_us, at.partition.number, position)
                        message = replace(message, sequence=sequence)  # noqa: PLW2901
                    found[slot.first + position] = message
        if not slots or slots[-1].block != block:
            break
    return found
