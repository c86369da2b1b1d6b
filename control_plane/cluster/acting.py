"""Act: carry out one action of a plan.

Every step is a conditional write that a repetition finds done, and that does nothing where what it
was planned upon has changed. So an act may be cut off anywhere, and be done by two at once.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import msgspec

from control_plane.cluster.actions import (
    Action,
    Admit,
    ChangeCell,
    Complete,
    Reconcile,
    Release,
    Retire,
    Split,
    TakeOut,
)
from control_plane.cluster.cluster import Cluster
from control_plane.cluster.copies import copy_on
from control_plane.cluster.observation import is_heard
from control_plane.cluster.probing import ask
from control_plane.cluster.untold import tell_on
from control_plane.core.definition import Definition
from control_plane.core.fifo_generations import may_split, split
from control_plane.places.changes import PlacementChangeError
from control_plane.places.groups import REGISTRY
from control_plane.places.items import FAILED, Heartbeat
from control_plane.places.stored import NONCE_BYTES, StalePlanError
from data_plane.core.errors import RefusedError
from data_plane.ports import CellUnavailableError

DONE: Final = "done"
LATE: Final = "late"
"""What it was planned upon has changed: the next plan sees how things are now."""

REFUSED: Final = "refused"
"""It would do harm by now."""

_PASSES_MAX: Final = 5
"""Comparisons of a group before its first member leaves."""

Result = dict[str, Any]


async def act(cluster: Cluster, action: Action, after: Mapping[str, Any], until_us: int) -> Result:
    """Carry it out; `more` where it is to be called again with `after`. No step after `until_us`.

    Raises CellUnavailableError.
    """
    match action:
        case TakeOut():
            result = await _take_out(cluster, action)
        case Admit(group, epoch, cell):
            result = await _fenced(
                lambda: cluster.places.add_joining(
                    group, cell, epoch=epoch, nonce=_nonce(action, group)
                )
            )
        case Release():
            result = await _release(cluster, action, after, until_us)
        case Complete():
            result = await _complete(cluster, action, after, until_us)
        case Reconcile():
            result = await _reconcile(cluster, action, after, until_us)
        case ChangeCell():
            result = await _change_cell(cluster, action)
        case Split() | Retire():
            result = await _change_logs(cluster, action)
    return result


async def _take_out(cluster: Cluster, action: TakeOut) -> Result:
    """The registry's own group first: while that has a member that fails, nothing can be stored.

    Then the register of removals, which lets one cell pass at a time; then all other groups. But
    none that nobody else serves by now: it may come late, and the cell be what is left of them.
    """

    async def drop(group: str) -> str:
        result = await _drop(cluster, action, group, action.groups[group], action.cell)
        return str(result["outcome"])

    outcomes: list[str] = []
    if REGISTRY in action.groups:
        is_left = await _is_registry_without(cluster, action.cell)
        outcomes.append(await drop(REGISTRY) if is_left else LATE)
    others = [group for group in action.groups if group != REGISTRY]
    if others and not await _may_fail_over(cluster, action.cell):
        outcomes.append(REFUSED)
        others = []
    served = await _served_without(cluster, action.cell, others)
    outcomes += [LATE for group in others if group not in served]
    for outcome in await cluster.waits.all_of([drop(group) for group in served]):
        if isinstance(outcome, Exception):
            raise outcome
        outcomes.append(outcome)
    worst = next((one for one in (REFUSED, LATE) if one in outcomes), DONE)
    return {"outcome": worst, "groups": outcomes.count(DONE), "more": False}


async def _served_without(cluster: Cluster, cell: str, groups: Sequence[str]) -> list[str]:
    """Those of the groups of which another full member answers, here or to a front end."""
    if not groups:
        return []
    placements = (await cluster.places.read_all()).placements
    full = {
        group: {one.cell for one in placements[group].placement.members if one.full} - {cell}
        for group in groups
        if group in placements
    }
    asked = sorted(set().union(*full.values()))
    answering = await _answering(cluster, asked)
    if len(answering) < len(asked):
        answering |= await _heard_answering(cluster)
    return [group for group, others in full.items() if not others.isdisjoint(answering)]


async def _is_registry_without(cluster: Cluster, cell: str) -> bool:
    """Whether another cell that has all of the registry answers: of its own group we know that."""
    members = (await cluster.places.read(REGISTRY)).placement.members
    others = [member.cell for member in members if member.full and member.cell != cell]
    return bool(await _answering(cluster, others))


async def _heard_answering(cluster: Cluster) -> set[str]:
    """Cells that front ends see answer, whatever this process sees."""
    return {
        name
        for beat in await cluster.places.heartbeats()
        if _is_heard(cluster, beat)
        for name, seen in beat.cells.items()
        if seen.answers
    }


async def _may_fail_over(cluster: Cluster, cell: str) -> bool:
    """Whether this cell is the one that groups may lose now: within SAFE no other was."""
    known = (await cluster.places.read_all()).cells.get(cell)
    if known is not None and known.state == FAILED:
        return True
    last = await cluster.places.removal()
    now_us = cluster.clock.now_us()
    if last is not None and now_us - last.at_us < cluster.options.safe_us:
        return last.cell == cell
    if await cluster.places.note_removal(cell, last) is not None:
        return True
    last = await cluster.places.removal()
    return last is not None and last.cell == cell


async def _drop(cluster: Cluster, action: Action, group: str, epoch: int, cell: str) -> Result:
    nonce = _nonce(action, group)
    return await _fenced(lambda: cluster.places.drop_member(group, cell, epoch=epoch, nonce=nonce))


async def _release(
    cluster: Cluster, action: Release, after: Mapping[str, Any], until_us: int
) -> Result:
    """As `_drop`; a queue that came meanwhile keeps half of its copies.

    Others that answered when it was planned may be lost by now: it waited behind copies for hours.
    And what the first one alone knows would leave with it, where a front end was to tell it, and
    is gone. A first one that does not answer cannot tell it: it is taken out, if it is down.
    """
    try:
        stored = await cluster.places.read(action.group)
    except KeyError:
        return _result(LATE)
    full = [member.cell for member in stored.placement.members if member.full]
    if action.cell in full and stored.nonce != _nonce(action, action.group):
        is_first = action.cell == full[0]
        others = [cell for cell in full if cell != action.cell]
        asked = full if is_first else others
        if stored.placement.epoch != action.epoch or await _answering(cluster, asked) != {*asked}:
            return _result(LATE)
        if is_first:
            left = await _tell_of(cluster, action.group, after, until_us)
            if left is not None:
                return {"outcome": DONE, "after": left, "more": True}
            if await _answering(cluster, others) != {*others}:  # that took a while
                return _result(LATE)
    return await _leave(cluster, action)


async def _tell_of(
    cluster: Cluster, group: str, after: Mapping[str, Any], until_us: int
) -> dict[str, Any] | None:
    """Tell the others what the first member of a group knows: where to go on, None at the end.

    From the beginning, where a front end has ended since then without telling: of what had been
    compared it may have told the first member more. Not for ever: functions may leave notes all the
    time.
    """
    passes = int(after.get("passes", 0)) or 1
    beats = await cluster.places.heartbeats()
    ended = after.get("ended", _ended(cluster, beats))
    # Until then all front ends have told all copies everything, as far as that is known.
    told_us = [beat.told_us for beat in beats if beat.told_us is not None]
    since_us = min(told_us, default=cluster.clock.now_us())
    left, _ = await tell_on(cluster, since_us, after, until_us, only=group)
    if left is not None:
        return {**left, "ended": ended, "passes": passes}
    now_ended = _ended(cluster, await cluster.places.heartbeats())
    is_all = now_ended.items() <= ended.items() or passes == _PASSES_MAX
    return None if is_all else {"passes": passes + 1}


def _ended(cluster: Cluster, beats: Sequence[Heartbeat]) -> dict[str, int]:
    """The last heartbeats of front ends that are silent, or left a note of what nobody is told."""
    own = cluster.beat()
    return {
        beat.front_end: beat.time_us
        for beat in beats
        if (own is None or beat.front_end != own.front_end)
        and not (beat.cells and _is_heard(cluster, beat))
    }


def _is_heard(cluster: Cluster, beat: Heartbeat) -> bool:
    return is_heard(beat.time_us, cluster.clock.now_us(), cluster.options)


async def _leave(cluster: Cluster, action: Release) -> Result:
    if not action.forced:
        return await _drop(cluster, action, action.group, action.epoch, action.cell)
    if not await cluster.placing.is_empty(action.group):
        return _result(LATE)
    nonce = _nonce(action, action.group)
    return await _fenced(
        lambda: cluster.places.drop_member(
            action.group, action.cell, epoch=action.epoch, nonce=nonce, forced=True
        )
    )


async def _answering(cluster: Cluster, cells: Sequence[str]) -> set[str]:
    outcomes = await cluster.waits.all_of([ask(cluster, cell) for cell in cells])
    failed = [one for one in outcomes if isinstance(one, Exception)]
    for error in failed:
        if not isinstance(error, CellUnavailableError):
            raise error
    asked = zip(cells, outcomes, strict=True)
    return {cell for cell, one in asked if not isinstance(one, Exception)}


async def _complete(
    cluster: Cluster, action: Complete, after: Mapping[str, Any], until_us: int
) -> Result:
    try:
        stored = await cluster.places.read(action.group)
    except KeyError:
        return _result(LATE)
    placement = stored.placement
    nonce = _nonce(action, action.group)
    if stored.nonce != nonce and placement.epoch != action.epoch:
        return _result(LATE)
    if stored.nonce != nonce:
        left = await copy_on(cluster, placement, action.cell, after, until_us, alone=stored.alone)
        if left is not None:
            return {"outcome": DONE, "after": left, "more": True}
    return await _fenced(
        lambda: cluster.places.make_full(action.group, action.cell, epoch=action.epoch, nonce=nonce)
    )


async def _reconcile(
    cluster: Cluster, action: Reconcile, after: Mapping[str, Any], until_us: int
) -> Result:
    """Only when all is told the front ends are forgotten: until then the next plan begins anew."""
    left, mended = await tell_on(cluster, action.since_us, after, until_us)
    mended += int(after.get("mended", 0))
    if left is not None:
        return {"outcome": DONE, "after": {**left, "mended": mended}, "more": True}
    for front_end, heartbeat_us in action.front_ends.items():
        await cluster.places.forget(front_end, heartbeat_us)
    return {"outcome": DONE, "mended": mended, "more": False}


async def _change_cell(cluster: Cluster, action: ChangeCell) -> Result:
    try:
        # What an operator has said of it meanwhile stays.
        record = await cluster.places.set_state(action.cell, action.to, (action.state,))
    except KeyError:
        return _result(LATE)
    return _result(DONE if record.state == action.to else LATE)


async def _change_logs(cluster: Cluster, action: Split | Retire) -> Result:
    """By compare-and-set of the definition; the numbers of generations fence it."""
    definition = await cluster.registry.read(action.account, action.region, action.name)
    if definition is None or definition.uid != action.uid:
        return _result(LATE)
    now_s = cluster.clock.now_us() // 1_000_000

    def edit(current: Definition) -> Definition:
        generations = current.generations
        if isinstance(action, Retire):
            kept = tuple(one for one in generations[:-1] if one.number > action.through)
            return replace(current, generations=(*kept, generations[-1]))
        is_present = generations[-1].number == action.generation
        if not is_present or not may_split(generations, current.attributes):
            return current
        return replace(current, generations=split(generations, now_s))

    try:
        await cluster.registry.change(cluster.registry.queue(definition), edit)
    except RefusedError:
        return _result(LATE)  # it was deleted meanwhile, or others change it without end
    return _result(DONE)


async def _fenced(change: Callable[[], Awaitable[object]]) -> Result:
    try:
        await change()
    except (StalePlanError, KeyError):
        return _result(LATE)
    except PlacementChangeError:
        return _result(REFUSED)
    return _result(DONE)


def _result(outcome: str) -> Result:
    return {"outcome": outcome, "more": False}


def _nonce(action: Action, group: str) -> bytes:
    """Of the write that does this to the group: the same for all who do."""
    told = msgspec.json.encode([action, group])
    return blake2b(told, digest_size=NONCE_BYTES, person=b"cluster act").digest()
