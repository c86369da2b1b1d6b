"""Changing visibility: a conditional write of the lease, and a marker where it was shortened."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from data_plane.bag import fair, upkeep
from data_plane.bag.block import NEVER_MS
from data_plane.bag.bounds import LEASE_ATTEMPTS_MAX, VISIBILITY_TOTAL_MS_MAX
from data_plane.bag.deleting import holds_lease
from data_plane.bag.desk import Access, Desk, channel, open_lanes_of
from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    MESSAGE_NOT_INFLIGHT,
    RefusedError,
    handle_expired,
    no_such_lease,
)
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import (
    Attributes,
    CellUnavailableError,
    Key,
    Update,
    Value,
    is_replicated,
)
from data_plane.stored import counting, lease
from data_plane.stored.lease import unchanged
from data_plane.stored.segment import FORMAT_VERSION, octets

Outcome = RefusedError | None
Wanted = dict[str, tuple[ReceiptHandle, int]]
"""By handle: the visibility that its message shall have, in seconds."""


class _Terms(NamedTuple):
    """What holds for a call.

    How long a message may be in flight in all; whether its last receiver alone may say so; whether
    the call is a repeated one.
    """

    total_ms_max: int
    fenced: bool
    repeated: bool


async def change_visibility(
    desk: Desk,
    queue: Queue,
    changes: Sequence[tuple[ReceiptHandle, int]],
    *,
    extended: bool,
    repeated: bool,
) -> list[Outcome]:
    """Set the visibility of leased messages anew, from now. See `Bag.change_visibility`."""
    terms = _Terms(NEVER_MS if extended else VISIBILITY_TOTAL_MS_MAX, queue.is_fenced, repeated)
    lanes = open_lanes_of(desk, queue, [handle for handle, _ in changes])
    blocks: dict[tuple[int, bytes], Wanted] = {}
    for handle, visibility_s in changes:
        wanted = blocks.setdefault((handle.lane, handle.block), {})
        wanted[handle.text] = (handle, visibility_s)
    outcomes = await desk.waits.all_of(
        [
            _change_in(lanes[lane], block_id, wanted, terms)
            for (lane, block_id), wanted in blocks.items()
        ]
    )
    by_handle: dict[str, Outcome] = {}
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        by_handle |= outcome
    return [by_handle[handle.text] for handle, _ in changes]


async def _change_in(
    at: Access, block_id: bytes, wanted: Wanted, terms: _Terms
) -> dict[str, Outcome]:
    """Change messages of one block: the outcome of each handle."""
    key = Key(at.lane.states, block_id)
    indexes = {handle.index for handle, _ in wanted.values()}
    seen_us = at.now_us()
    state = await at.cell.get(key)
    is_sure = False
    for _ in range(LEASE_ATTEMPTS_MAX):
        asked_us = at.now_us()
        now_ms = asked_us // 1000
        outcomes, leases, over = _decide(state, wanted, now_ms, terms)
        if len(leases) < len(indexes) and not is_sure and is_replicated(at.cell):
            # Is it so, or was a cell asked that belongs to the queue's cells no more?
            seen_us, state, is_sure = asked_us, await at.cell.get_now(key), True
            continue
        if state is None or not (leases or over):
            return outcomes
        if leases:
            written = await at.cell.update(
                key,
                Update(assign=_assignments(at, block_id, leases)),
                unchanged(
                    {index: state[f"m{index}"] for index in leases},
                    {index: new.to_bytes() for index, new in leases.items()},
                ),
                partial(counting.leased, at.queue, leases=leases, now_ms=now_ms),
            )
            seen_us = asked_us
            if not written.applied:
                state = written.before
                continue
        fair.visibility_changed(at, block_id, leases)
        leases |= over
        hidden_until_ms = _hidden_until(at, block_id, state, leases, terms)
        await _announce(at, block_id, leases, hidden_until_ms, seen_us)
        return outcomes
    raise CellUnavailableError("the block changes faster than it can be written")


def _decide(
    state: Attributes | None, wanted: Wanted, now_ms: int, terms: _Terms
) -> tuple[dict[str, Outcome], dict[int, lease.Lease], dict[int, lease.Lease]]:
    """What to answer for each handle, the leases to write, and those that are over.

    A change that comes after the visibility has ended succeeds and leaves the message visible
    (recorded from AWS). Who is told whether it was in flight is told so where it was given back by
    an attempt before.
    """
    outcomes: dict[str, Outcome] = {}
    leases: dict[int, lease.Lease] = {}
    over: dict[int, lease.Lease] = {}
    for text, (handle, visibility_s) in wanted.items():
        index = handle.index
        stored = state.get(f"m{index}") if state is not None else None
        if state is None or not isinstance(stored, bytes) or not _can_change(state, index):
            outcomes[text] = no_such_lease(text)
            continue
        held = lease.from_bytes(stored)
        visible_ms = now_ms + visibility_s * 1000 if visibility_s else 0
        if terms.fenced and not holds_lease(state, handle):
            outcomes[text] = handle_expired(text)
        elif held.visible_ms <= now_ms:
            is_given_back = held.visible_ms == visible_ms == 0
            is_done = not terms.fenced or (terms.repeated and is_given_back)
            outcomes[text] = None if is_done else _not_in_flight()
            over[index] = held
        elif visible_ms > held.leased_ms + terms.total_ms_max:
            outcomes[text] = RefusedError(
                INVALID_PARAMETER_VALUE,
                f"Value {visibility_s} for parameter VisibilityTimeout is invalid. Reason: Total"
                " VisibilityTimeout for the message is beyond the limit [43200 seconds].",
            )
        else:
            outcomes[text] = None
            leases[index] = held._replace(visible_ms=visible_ms)
    return outcomes, leases, over


def _not_in_flight() -> RefusedError:
    """SQS's model has this refusal; a queue that tells who was overtaken gives it."""
    return RefusedError(MESSAGE_NOT_INFLIGHT, "The specified message isn't in flight.")


def _can_change(state: Attributes, index: int) -> bool:
    """Whether a message with a lease is neither deleted nor on its way to another queue."""
    done = state.get("d", frozenset())
    return f"q{index}" not in state and not (isinstance(done, frozenset) and index in done)


def _assignments(at: Access, block_id: bytes, leases: dict[int, lease.Lease]) -> dict[str, Value]:
    assign: dict[str, Value] = {"v": FORMAT_VERSION, "x": at.block_ttl_s(block_id)}
    for index, new in leases.items():
        assign[f"m{index}"] = new.to_bytes()
    return assign


def _hidden_until(
    at: Access, block_id: bytes, before: Attributes, leases: dict[int, lease.Lease], terms: _Terms
) -> dict[int, int]:
    """Until when, in ms, a front end may take each message for hidden.

    By what was found, and by what is known here. An attempt before this one may have changed that
    and told nobody, as its reply was lost, or the marker: then the call is a repeated one.
    """
    block = at.lane.known(block_id)
    known = {} if block is None else block.leases
    return {
        index: NEVER_MS
        if terms.repeated
        else max(
            lease.visible_ms(octets(before, f"m{index}")),
            lease.visible_ms(known.get(index, bytes(6))),
        )
        for index in leases
    }


async def _announce(
    at: Access,
    block_id: bytes,
    leases: dict[int, lease.Lease],
    hidden_until_ms: dict[int, int],
    seen_us: int,
) -> None:
    """Let this front end's receives know, and all others where something is visible earlier.

    What was not written now was seen then, and the block may have been collected since.
    """
    block = at.lane.known(block_id)
    if block is not None:
        stored = {index: new.to_bytes() for index, new in leases.items()}
        changed = {i: new for i, new in stored.items() if new != block.leases.get(i)}
        if changed:
            at.lane.leased(block, changed, seen_us)
    shortened = [
        new.visible_ms for index, new in leases.items() if new.visible_ms < hidden_until_ms[index]
    ]
    if shortened:
        await upkeep.mark(at, block_id, min(shortened))
        at.desk.waits.signal(channel(at.lane), len(shortened))
