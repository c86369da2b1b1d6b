"""What the cluster manager waits for, and which command ends that. Pure.

A line for each reason, for people. What is planned is `planning.py`'s; this says why it is not.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import structs

from control_plane.cluster.cell_health import Health
from control_plane.cluster.external import copies_held, others_answer, staying, wanted_copies
from control_plane.cluster.internal import joining_groups, others_reached
from control_plane.cluster.observation import CellRecord, Group, Observation, Options
from control_plane.places.changes import copies_kept
from control_plane.places.groups import REGISTRY
from control_plane.places.items import ACTIVE, DRAINING, FAILED, FULL, REMOVED

_US_PER_S = 1_000_000


def waits_for(observation: Observation, options: Options, now_us: int) -> list[str]:
    """Everything that is not as it should be, and why nothing is done about it now."""
    known = {cell.name for cell in observation.cells}
    unknown = {
        member.cell
        for group in observation.groups
        for member in group.members
        if member.cell not in known
    }
    if unknown:
        return [f"the registry does not list {', '.join(sorted(unknown))}: nothing is planned"]
    health = Health(observation, options, now_us)
    return [
        *_down(observation, options, health),
        *_draining(observation, options, health),
        *_lacking(observation, options, health),
        *_joining(observation, options, now_us),
        *_in_turn(observation, options, health),
        *_chosen(observation, options, health),
    ]


def _down(observation: Observation, options: Options, health: Health) -> Iterator[str]:
    failed = {cell.name for cell in observation.cells if cell.state == FAILED}
    for cell in sorted(health.down):
        held = [group for group in observation.groups if cell in group.full_cells]
        kept = [group for group in held if len(group.full_cells) <= copies_kept(group.factor)]
        if kept:
            is_alone = any(group.full_cells == (cell,) for group in kept)
            loses = " --lose-messages`, which loses what no other cell has" if is_alone else "`"
            yield (
                f"{cell} is down, and without it {_named(kept)} would keep less than half of the"
                f" copies: `tidegate cells restore {cell}` brings it back, with its directory as it"
                f" was last; if it is lost, `tidegate cells remove {cell}{loses}"
            )
        alone = [
            group for group in held if group not in kept and not others_reached(group, cell, health)
        ]
        if alone:
            yield (
                f"{cell} is down, and nobody sees another cell answer that has {_named(alone)}:"
                f" `tidegate cells restore` brings back {cell}, or another one of them, with its"
                " directory as it was last"
            )
        if len(kept) + len(alone) == len(held) or cell in failed:
            continue
        know = f"if you know that it is lost, `tidegate cells fail {cell}`"
        last = observation.removal
        if health.is_blind:
            yield f"{cell} looks down, and so do most cells, so nothing is taken out: {know}"
        elif last is not None and last.cell != cell:
            left_us = last.at_us + options.safe_us - health.now_us
            if left_us > 0:
                yield (
                    f"{cell} looks down, and is taken out in {_seconds(left_us)}, a minute after"
                    f" {last.cell} was: {know}"
                )


def _draining(observation: Observation, options: Options, health: Health) -> Iterator[str]:
    for cell in observation.cells:
        if cell.state != DRAINING:
            continue
        held = [
            group
            for group in observation.groups
            if cell.name in group.full_cells and group.joining is None
        ]
        few = [
            group
            for group in held
            if len(group.full_cells) <= copies_held(group, observation, health)
        ]
        stay = [group for group in few if not _can_join(group, health, health.hot)]
        least = [group for group in stay if len(group.full_cells) <= wanted_copies(group, 0)]
        others = [group for group in stay if group not in least]
        for some, limit in ((least, _would_keep(least)), (others, "")):
            if some:
                why = _why(observation, options, health, some, limit)
                yield f"{cell.name} drains, and {_named(some)} cannot leave it: {why}"
        unheard = [
            group
            for group in held
            if group not in few and not others_answer(group, cell.name, health)
        ]
        if unheard:
            yield (
                f"{cell.name} drains, and {_named(unheard)} cannot leave it before all others that"
                " have a copy answer: `tidegate cells list` shows which do not"
            )


def _lacking(observation: Observation, options: Options, health: Health) -> Iterator[str]:
    """Groups that have less copies than they should, and no cell to get another one.

    Also where a cell that drains has left them with less.
    """
    stay = staying(observation)
    lack = [
        group
        for group in observation.groups
        if group.joining is None
        and 0 < len(group.full_cells) < _most_copies(group, stay)
        and not _can_join(group, health)
    ]
    if lack:
        yield f"a copy of {_named(lack)} is missing: {_why(observation, options, health, lack)}"
    empty = [group for group in observation.groups if not group.full_cells]
    if empty:
        yield f"no copy of {_named(empty)} serves: bring back the cells that have one"


def _joining(observation: Observation, options: Options, now_us: int) -> Iterator[str]:
    for cell in observation.cells:
        groups = [
            group
            for group in observation.groups
            if group.joining is not None
            and group.joining.cell == cell.name
            and now_us - group.since_us < options.grace_us
        ]
        if groups:
            left_us = max(group.since_us for group in groups) + options.grace_us - now_us
            yield (
                f"{cell.name} joins {_named(groups)}: it is copied to in {_seconds(left_us)},"
                " when no front end goes by an older map"
            )


def _in_turn(observation: Observation, options: Options, health: Health) -> Iterator[str]:
    draining = {cell.name for cell in observation.cells if cell.state == DRAINING}
    behind = [
        group
        for group in observation.groups
        if group.full_cells
        and group.joining is None
        and not group.empty
        and (len(group.full_cells) < group.factor or draining.intersection(group.full_cells))
        and _can_join(group, health)
    ]
    if behind and joining_groups(observation) >= options.joins_max:
        yield f"{_named(behind)} come next: {options.joins_max} groups are copied at a time"


def _chosen(observation: Observation, options: Options, health: Health) -> Iterator[str]:
    for group in observation.groups:
        missing = {cell for cell in group.chosen if not group.has(cell)}
        if missing and group.joining is None and not missing & health.usable:
            only = tuple(cell for cell in observation.cells if cell.name in missing)
            seen = structs.replace(observation, cells=only)
            reasons = _reasons(seen, options, health, [group]) or ["there is no such cell"]
            named = ", ".join(sorted(missing))
            others = "`tidegate cells move-queue` chooses others"
            yield f"{group.name} is to move to {named}: {', '.join(reasons)}; {others}"


def _most_copies(group: Group, stay: int) -> int:
    """How many copies are missed: where no queue is in it, no more than there are cells."""
    is_full_of_cells = group.empty or group.name == REGISTRY
    return min(group.factor, max(stay, 1)) if is_full_of_cells else group.factor


def _can_join(group: Group, health: Health, but: AbstractSet[str] = frozenset()) -> bool:
    return any(not group.has(cell) for cell in health.usable - but)


def _would_keep(groups: Iterable[Group]) -> str:
    """What groups would keep that lose a copy, where that is less than half."""
    left = sorted({f"{len(group.full_cells) - 1} of {group.factor}" for group in groups})
    return f", and without it they would keep {' or '.join(left)} copies, fewer than half"


def _why(
    observation: Observation,
    options: Options,
    health: Health,
    groups: Sequence[Group],
    limit: str = "",
) -> str:
    """Why none of the other cells may join these groups, and what to do."""
    reasons = _reasons(observation, options, health, groups)
    if not reasons:
        reasons.append(f"every other cell has a copy already{limit}")
    why = ", ".join(reasons)
    is_soon = any(
        _is_soon(cell, health) and not all(group.has(cell.name) for group in groups)
        for cell in observation.cells
    )
    return why if is_soon else f"{why}; `tidegate cells add` gives them another cell"


def _is_soon(cell: CellRecord, health: Health) -> bool:
    """Whether it gets copies as soon as it has answered for long enough."""
    is_known = not health.is_unknown(cell.name)
    return cell.state == ACTIVE and is_known and cell.name not in health.usable | health.down


def _reasons(
    observation: Observation, options: Options, health: Health, groups: Sequence[Group]
) -> list[str]:
    reasons, soon = [], []
    for cell in observation.cells:
        name = cell.name
        if cell.state == REMOVED or all(group.has(name) for group in groups):
            continue
        if cell.state in (DRAINING, FAILED):
            state = "drains" if cell.state == DRAINING else "has failed"
            reasons.append(f"{name} {state} (`tidegate cells restore {name}`)")
        elif name in health.down:
            reasons.append(f"{name} does not answer (`tidegate cells fail {name}` if it is lost)")
        elif health.is_unknown(name):
            reasons.append(f"this server is not told of {name} (`tidegate cells remove {name}`)")
        elif cell.state == FULL:
            reasons.append(f"{name} is full")
        elif _is_soon(cell, health):
            soon.append(name)
        elif name in health.hot:
            reasons.append(f"{name} has too much to do")
    if soon:
        seconds = _seconds(options.back_after_us)
        reasons.append(f"to get copies {', '.join(soon)} must have answered for {seconds}")
    return reasons


def _named(groups: Iterable[Group]) -> str:
    names = sorted(group.name for group in groups)
    return names[0] if len(names) == 1 else f"{len(names)} groups ({names[0]}, ...)"


def _seconds(time_us: int) -> str:
    return f"{-(-time_us // _US_PER_S)} s"
