"""What becomes of records that were received from a queue of the Kinesis API.

A handle is good until its record is received again, also when its lease has ended, unless the
record is a dead letter by then. One conditional write for each block.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from data_plane.core.errors import INVALID_ARGUMENT, STREAM_NOT_FOUND, RefusedError
from data_plane.core.queue import Queue
from data_plane.core.settling import ACKNOWLEDGE, RESTORE, Wish
from data_plane.log import deleting, leases
from data_plane.log.bounds import CLAIM_ATTEMPTS_MAX
from data_plane.log.desk import Access, Desk, access_of, channel
from data_plane.log.reader import is_over
from data_plane.ports import (
    AnyOf,
    Attributes,
    CellUnavailableError,
    Equals,
    Lacks,
    Tally,
    Update,
    Value,
    is_replicated,
)
from data_plane.stored import counting
from data_plane.stored.lease import DEAD, RESTORED, Lease
from data_plane.stored.segment import FORMAT_VERSION, octets

Outcome = RefusedError | CellUnavailableError | None

_US_PER_MS: Final = 1_000


async def settle(desk: Desk, queue: Queue, wishes: Sequence[Wish]) -> list[Outcome]:
    """Do what is wished: of each, why it cannot be, or was not. See `Log.settle`."""
    blocks: dict[tuple[int, int, int], dict[str, Wish]] = {}
    for wish in wishes:
        blocks.setdefault(leases.place_in(queue, wish.handle), {})[wish.handle.text] = wish
    found = await desk.waits.all_of(
        [
            _settle_in(access_of(desk, queue, number, generation), block, list(wanted.values()))
            for (number, generation, block), wanted in blocks.items()
        ]
    )
    outcomes: dict[str, Outcome] = {}
    for wanted, outcome in zip(blocks.values(), found, strict=True):
        if isinstance(outcome, CellUnavailableError):
            outcomes |= dict.fromkeys(wanted, outcome)
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            outcomes |= outcome
    return [outcomes[wish.handle.text] for wish in wishes]


class _Decided(NamedTuple):
    """What to answer, which records are done, and which get new leases."""

    outcomes: dict[str, Outcome]
    done: list[Wish]
    changed: dict[int, Lease]
    sent_ms: dict[int, int]

    @property
    def indexes(self) -> list[int]:
        """Of all records that change."""
        return [*(wish.handle.index for wish in self.done), *self.changed]


async def _settle_in(at: Access, block: int, wishes: list[Wish]) -> dict[str, Outcome]:
    """Settle records of one block: what became of each handle."""
    state = await leases.state_of(at, block, [wish.handle for wish in wishes])
    is_sure = not is_replicated(at.cell)
    for _ in range(CLAIM_ATTEMPTS_MAX):
        asked_us = at.now_us()
        decided = _decide(at, state, wishes, asked_us)
        if not is_sure and (state is None or any(decided.outcomes.values())):
            # Is it so, or was a cell asked that belongs to the queue's cells no more?
            state, is_sure = await leases.state_now(at, block), True
            continue
        if state is None or not decided.indexes:
            return decided.outcomes
        done = [wish.handle.index for wish in decided.done]
        new = {f"m{index}": held.to_bytes() for index, held in decided.changed.items()}
        assign: dict[str, Value] = {"v": FORMAT_VERSION, "x": at.state_ttl_s(), **new}
        written = await at.cell.update(
            at.partition.state_key(block),
            Update(
                assign=assign,
                add={"d": frozenset(done)} if done else {},
                remove=frozenset(f"m{index}" for index in done),
            ),
            _as_seen(state, decided),
            lambda before: _tallies(at, before, decided, asked_us // _US_PER_MS),  # noqa: B023
        )
        if written.applied:
            _note(at, block, written.before, decided, assign, asked_us)
            return decided.outcomes
        state = written.before
        leases.learn(at, block, state, asked_us)
    raise CellUnavailableError("the block changes faster than it can be written")


def _decide(at: Access, state: Attributes | None, wishes: Iterable[Wish], now_us: int) -> _Decided:
    decided = _Decided({}, [], {}, {})
    for wish in wishes:
        handle = wish.handle
        is_done = state is not None and leases.is_done(state, handle.index)
        held = leases.lease_in(state, handle.index)
        refusal = _refusal(at, wish, held, now_us, is_done=is_done)
        decided.outcomes[handle.text] = refusal
        if refusal is not None or is_done or held is None or held.fate == RESTORED:
            continue
        decided.sent_ms[handle.index] = handle.sent_ms
        if wish.act == ACKNOWLEDGE:
            decided.done.append(wish)
        else:
            decided.changed[handle.index] = _next(held, wish, now_us // _US_PER_MS)
    return decided


def _refusal(at: Access, wish: Wish, held: Lease | None, now_us: int, *, is_done: bool) -> Outcome:
    """Why a wish cannot be fulfilled; None: it can, or is already."""
    # The record's stamp lies somewhere in this millisecond.
    stamp_us = wish.handle.sent_ms * _US_PER_MS + _US_PER_MS - 1
    if is_over(at.queue, stamp_us, now_us, at.partition.eras):
        return RefusedError(STREAM_NOT_FOUND, "The record has expired.")
    if is_done:
        acknowledged = RefusedError(INVALID_ARGUMENT, "The record was acknowledged.")
        return None if wish.act == ACKNOWLEDGE else acknowledged
    if held is None or held.token != wish.handle.token:
        return RefusedError(INVALID_ARGUMENT, "The record was received again since.")
    if held.fate == RESTORED:
        restored = RefusedError(INVALID_ARGUMENT, "The record was restored.")
        return None if wish.act == RESTORE else restored
    return _wrong_kind(at.queue, held, now_us // _US_PER_MS)


def _wrong_kind(queue: Queue, held: Lease, now_ms: int) -> Outcome:
    """Dead letters have handles of their own, from when they are received as such."""
    if queue.of_dead:
        other = RefusedError(INVALID_ARGUMENT, "The receipt handle is not that of a dead letter.")
        return None if held.fate == DEAD else other
    if held.is_dead(now_ms):
        return RefusedError(INVALID_ARGUMENT, "The record is a dead letter.")
    return None


def _next(held: Lease, wish: Wish, now_ms: int) -> Lease:
    """The lease after a wish. Receive counts only grow (stored/merging.py): so they are forgiven.

    The token stays, so that a restore which is repeated knows itself.
    """
    if wish.act == RESTORE:
        count = held.receive_count + 1
        return held._replace(visible_ms=0, receive_count=count, fate=RESTORED, forgiven=count)
    visible_ms = now_ms + wish.visibility_s * 1_000 if wish.visibility_s else 0
    return held._replace(visible_ms=visible_ms)


def _as_seen(state: Attributes, decided: _Decided) -> tuple[AnyOf, ...]:
    """The leases are still as they were seen, or already as they shall be."""
    condition: list[AnyOf] = []
    for index in decided.indexes:
        name = f"m{index}"
        new = decided.changed.get(index)
        as_seen = Equals(name, octets(state, name))
        condition += [
            (as_seen,) if new is None else (as_seen, Equals(name, new.to_bytes())),
            (Lacks("d", index),),
        ]
    return tuple(condition)


def _tallies(
    at: Access, before: Attributes | None, decided: _Decided, now_ms: int
) -> Iterable[Tally]:
    gone = counting.gone_by(wish.handle for wish in decided.done)
    changes = [(i, sent_ms, decided.changed.get(i)) for i, sent_ms in decided.sent_ms.items()]
    return chain(
        counting.deleted(at.queue, before, gone, now_ms),
        counting.leased(at.queue, before, decided.changed, now_ms),
        counting.doomed(at.queue, before, changes, now_ms),
    )


def _note(  # noqa: PLR0913, PLR0917 - a write, and what it changed
    at: Access,
    block: int,
    before: Attributes | None,
    decided: _Decided,
    assign: Attributes,
    asked_us: int,
) -> None:
    """Let this front end's receives know."""
    if decided.done:
        deleting.done(at, block, before, [wish.handle.index for wish in decided.done], asked_us)
    if decided.changed:
        leases.learn(at, block, assign, asked_us)
        at.desk.waits.signal(channel(at.queue), len(decided.changed))
