"""Changing visibility: a conditional write of the lease, and a marker where it was shortened."""

from collections.abc import Sequence

from data_plane.bag import counting, lease, upkeep
from data_plane.bag.bounds import (
    DATA_TTL_SLACK_S,
    LEASE_ATTEMPTS_MAX,
    STATE_TTL_SLACK_S,
    VISIBILITY_TOTAL_MS_MAX,
)
from data_plane.bag.desk import Desk, channel
from data_plane.bag.lane import Lane
from data_plane.bag.segment import FORMAT_VERSION
from data_plane.core.errors import INVALID_PARAMETER_VALUE, MESSAGE_NOT_INFLIGHT, RefusedError
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import (
    AnyOf,
    Attributes,
    CellUnavailableError,
    Equals,
    Key,
    Lacks,
    Update,
    Value,
)

Outcome = None | RefusedError


async def change_visibility(
    desk: Desk, queue: Queue, changes: Sequence[tuple[ReceiptHandle, int]]
) -> list[Outcome]:
    """Set the visibility of leased messages anew, from now. See `Bag.change_visibility`."""
    lane = desk.lane(queue)
    blocks: dict[bytes, dict[int, tuple[ReceiptHandle, int]]] = {}
    for handle, visibility_s in changes:
        blocks.setdefault(handle.block, {})[handle.index] = (handle, visibility_s)
    outcomes = await desk.waits.all_of(
        [_change_in(desk, queue, lane, block, wanted) for block, wanted in blocks.items()]
    )
    by_place: dict[tuple[bytes, int], Outcome] = {}
    for block, outcome in zip(blocks, outcomes, strict=True):
        if isinstance(outcome, Exception):
            raise outcome
        for index, refusal in outcome.items():
            by_place[block, index] = refusal
    return [by_place[handle.block, handle.index] for handle, _ in changes]


async def _change_in(
    desk: Desk,
    queue: Queue,
    lane: Lane,
    block_id: bytes,
    wanted: dict[int, tuple[ReceiptHandle, int]],
) -> dict[int, Outcome]:
    """Change messages of one block: the outcome of each."""
    key = Key(lane.states, block_id)
    state = await desk.cell(lane).get(key)
    for _ in range(LEASE_ATTEMPTS_MAX):
        now_us = desk.clock.now_us()
        outcomes, leases = _decide(state, wanted, now_us // 1000)
        if not leases:
            return outcomes
        written = await desk.cell(lane).update(
            key,
            Update(assign=_assignments(queue, leases, now_us)),
            _unchanged(state, leases),
            lambda before, leases=leases, now_ms=now_us // 1000: [  # type: ignore[misc]
                tally
                for index, new in leases.items()
                for tally in counting.leased(queue, before, (index,), new.visible_ms, now_ms)
            ],
        )
        if written.applied:
            await _announce(desk, queue, lane, block_id, state, leases)
            return outcomes
        state = written.before
    raise CellUnavailableError("the block changes faster than it can be written")


def _decide(
    state: Attributes | None, wanted: dict[int, tuple[ReceiptHandle, int]], now_ms: int
) -> tuple[dict[int, Outcome], dict[int, lease.Lease]]:
    """What to answer for each message, and the leases to write."""
    outcomes: dict[int, Outcome] = {}
    leases: dict[int, lease.Lease] = {}
    for index, (handle, visibility_s) in wanted.items():
        stored = state.get(f"m{index}") if state is not None else None
        if not isinstance(stored, bytes):
            outcomes[index] = RefusedError(
                INVALID_PARAMETER_VALUE,
                f"Value {handle.text} for parameter ReceiptHandle is invalid. Reason: Message does"
                " not exist or is not available for visibility timeout change.",
            )
            continue
        held = lease.from_bytes(stored)
        visible_ms = now_ms + visibility_s * 1000 if visibility_s else 0
        if held.visible_ms <= now_ms:
            outcomes[index] = RefusedError(
                MESSAGE_NOT_INFLIGHT, "The specified message isn't in flight."
            )
        elif visible_ms > held.leased_ms + VISIBILITY_TOTAL_MS_MAX:
            outcomes[index] = RefusedError(
                INVALID_PARAMETER_VALUE,
                f"Value {visibility_s} for parameter VisibilityTimeout is invalid. Reason: Total"
                " VisibilityTimeout for the message is beyond the limit [43200 seconds].",
            )
        else:
            outcomes[index] = None
            leases[index] = held._replace(visible_ms=visible_ms)
    return outcomes, leases


def _assignments(queue: Queue, leases: dict[int, lease.Lease], now_us: int) -> dict[str, Value]:
    ttl_s = now_us // 1_000_000 + queue.retention_s + DATA_TTL_SLACK_S + STATE_TTL_SLACK_S
    assign: dict[str, Value] = {"v": FORMAT_VERSION, "x": ttl_s}
    for index, new in leases.items():
        assign[f"m{index}"] = new.to_bytes()
    return assign


def _unchanged(state: Attributes | None, leases: dict[int, lease.Lease]) -> tuple[AnyOf, ...]:
    """The leases are still as they were seen, or already as they shall be."""
    seen = state or {}
    condition: list[AnyOf] = []
    for index, new in leases.items():
        name = f"m{index}"
        condition += [
            (Equals(name, seen[name]), Equals(name, new.to_bytes())),
            (Lacks("d", index),),
        ]
    return tuple(condition)


async def _announce(  # noqa: PLR0913 - the facts of a change
    desk: Desk,
    queue: Queue,
    lane: Lane,
    block_id: bytes,
    state: Attributes | None,
    leases: dict[int, lease.Lease],
) -> None:
    """Let this front end's receives know, and all others where something is visible earlier."""
    now_us = desk.clock.now_us()
    block = lane.known(block_id)
    if block is not None:
        lane.leased(block, {i: new.to_bytes() for i, new in leases.items()}, now_us)
    seen = state or {}
    shortened = [
        new.visible_ms
        for index, new in leases.items()
        if isinstance(before := seen[f"m{index}"], bytes)
        and new.visible_ms < lease.from_bytes(before).visible_ms
    ]
    if shortened:
        await upkeep.mark(desk, queue, lane, block_id, min(shortened))
        desk.waits.signal(channel(lane), len(shortened))
