"""Changing visibility: a conditional write of the lease, whose token stays."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    RefusedError,
    handle_expired,
    no_such_lease,
)
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.log import leases
from data_plane.log.bounds import CLAIM_ATTEMPTS_MAX, VISIBILITY_TOTAL_MS_MAX
from data_plane.log.desk import Access, Desk, access_of, channel
from data_plane.log.reader import NEVER_MS
from data_plane.ports import (
    Attributes,
    CellUnavailableError,
    Update,
    Value,
    is_replicated,
)
from data_plane.stored import counting
from data_plane.stored.lease import Lease, unchanged
from data_plane.stored.segment import FORMAT_VERSION

Outcome = RefusedError | None
Wanted = dict[str, tuple[ReceiptHandle, int]]
"""By handle: the visibility that its message shall have, in seconds."""


class _Terms(NamedTuple):
    """How long a message may be in flight in all; whether the call is a repeated one."""

    total_ms_max: int
    repeated: bool


async def change_visibility(
    desk: Desk,
    queue: Queue,
    changes: Sequence[tuple[ReceiptHandle, int]],
    *,
    extended: bool,
    repeated: bool,
) -> list[Outcome]:
    """Set the visibility of leased messages anew, from now. See `Log.change_visibility`."""
    terms = _Terms(NEVER_MS if extended else VISIBILITY_TOTAL_MS_MAX, repeated)
    blocks: dict[tuple[int, int, int], Wanted] = {}
    for handle, visibility_s in changes:
        blocks.setdefault(leases.place_in(queue, handle), {})[handle.text] = (handle, visibility_s)
    outcomes: dict[str, Outcome] = {}
    for outcome in await desk.waits.all_of(
        [
            _change_in(access_of(desk, queue, number, generation), block, wanted, terms)
            for (number, generation, block), wanted in blocks.items()
        ]
    ):
        if isinstance(outcome, Exception):
            raise outcome
        outcomes |= outcome
    return [outcomes[handle.text] for handle, _ in changes]


async def _change_in(at: Access, block: int, wanted: Wanted, terms: _Terms) -> dict[str, Outcome]:
    """Change messages of one block: what became of each handle."""
    state = await leases.state_of(at, block, [handle for handle, _ in wanted.values()])
    indexes = {handle.index for handle, _ in wanted.values()}
    is_sure = not is_replicated(at.cell)
    for _ in range(CLAIM_ATTEMPTS_MAX):
        asked_us = at.now_us()
        now_ms = asked_us // 1000
        outcomes, changed = _decide(state, wanted, now_ms, terms)
        if not is_sure and len(changed) < len(indexes):
            # Is it so, or was a cell asked that belongs to the queue's cells no more?
            state, is_sure = await leases.state_now(at, block), True
            continue
        if state is None or not changed:
            return outcomes
        written = await at.cell.update(
            at.partition.state_key(block),
            Update(assign=_assignments(at, changed)),
            unchanged(
                {index: state[f"m{index}"] for index in changed},
                {index: new.to_bytes() for index, new in changed.items()},
            ),
            partial(counting.leased, at.queue, leases=changed, now_ms=now_ms),
        )
        if written.applied:
            leases.learn(at, block, _assignments(at, changed), asked_us)
            at.desk.waits.signal(channel(at.queue), len(changed))
            return outcomes
        state = written.before
        leases.learn(at, block, state, asked_us)
    raise CellUnavailableError("the block changes faster than it can be written")


def _decide(
    state: Attributes | None, wanted: Wanted, now_ms: int, terms: _Terms
) -> tuple[dict[str, Outcome], dict[int, Lease]]:
    """What to answer for each handle, and the leases to write.

    A repeated call that has given a message back already, and finds it so, has done what it should.
    """
    outcomes: dict[str, Outcome] = {}
    changed: dict[int, Lease] = {}
    for text, (handle, visibility_s) in wanted.items():
        held = leases.lease_in(state, handle.index)
        visible_ms = now_ms + visibility_s * 1000 if visibility_s else 0
        if leases.is_done(state, handle.index) or held is None:
            outcomes[text] = no_such_lease(text)
        elif held.token != handle.token or held.visible_ms <= now_ms:
            is_given_back = held.token == handle.token and held.visible_ms == visible_ms == 0
            outcomes[text] = None if terms.repeated and is_given_back else handle_expired(text)
        elif visible_ms > held.leased_ms + terms.total_ms_max:
            outcomes[text] = RefusedError(
                INVALID_PARAMETER_VALUE,
                f"Value {visibility_s} for parameter VisibilityTimeout is invalid. Reason: Total"
                " VisibilityTimeout for the message is beyond the limit [43200 seconds].",
            )
        else:
            outcomes[text] = None
            changed[handle.index] = held._replace(visible_ms=visible_ms)
    return outcomes, changed


def _assignments(at: Access, changed: dict[int, Lease]) -> dict[str, Value]:
    assign: dict[str, Value] = {"v": FORMAT_VERSION, "x": at.state_ttl_s()}
    return assign | {f"m{index}": new.to_bytes() for index, new in changed.items()}
