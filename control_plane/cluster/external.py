"""External management: which cells groups, and with them queues, lie in. Pure.

Cells that are full get no new groups; those that drain, that are too hot, or that have more than
their share give some to others. A group moves by gaining a member first, and losing one after.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from control_plane.cluster.actions import Action, Admit, ChangeCell, Release
from control_plane.cluster.cell_health import Health
from control_plane.cluster.internal import joining_groups, least_used
from control_plane.cluster.observation import Group, Observation, Options
from control_plane.places.changes import copies_kept
from control_plane.places.items import ACTIVE, DRAINING, FULL, REMOVED

UNEVEN: Final = 3
"""Cells whose numbers of groups differ by less have their share: a move changes that by two."""


def change_cells(observation: Observation, health: Health) -> Iterator[ChangeCell]:
    """Cells that have become full, or have room again."""
    for cell in observation.cells:
        if cell.state in (ACTIVE, FULL) and cell.name not in health.down:
            wanted = health.filling(cell)
            if wanted != cell.state:
                yield ChangeCell(cell.name, cell.state, wanted)


def release(observation: Observation, health: Health, members: dict[str, int]) -> Iterator[Release]:
    """What takes members from groups that have more than they want; `members` as in `join`.

    First those on cells that should have none, never the one that joined last for no such reason:
    it joined for another one to go. None goes before all that stay are seen to answer.
    """
    states = _states(observation)
    for group in observation.groups:
        held = copies_held(group, observation, health)
        if group.joining is not None or len(group.full_cells) <= held:
            continue
        cell = leaving(group, states, health, members)
        if not others_answer(group, cell, health):
            continue
        members[cell] -= 1
        forced = group.empty and len(group.full_cells) <= copies_kept(group.factor)
        yield Release(group.name, group.epoch, cell, forced)


def soon_usable(observation: Observation, health: Health) -> list[str]:
    """Cells that may get members, now or when they have answered for a while."""
    active = (cell.name for cell in observation.cells if cell.state == ACTIVE)
    return [cell for cell in active if cell not in health.down and not health.is_unknown(cell)]


def others_answer(group: Group, cell: str, health: Health) -> bool:
    """Whether all other full members of the group are seen to answer."""
    return all(health.answers(other) for other in group.full_cells if other != cell)


def copies_held(group: Group, observation: Observation, health: Health) -> int:
    """How many full members the group parts with none at.

    Its factor, but a cell that drains leaves also groups for which too few cells stay, while all
    of their members answer and no other cell may join. That nobody calls a member down is not
    enough: a manager that begins has not heard of any. Nor is it that no cell is usable yet.
    """
    states = _states(observation)
    may_lack = (
        any(states[cell] == DRAINING for cell in group.full_cells)
        and all(health.answers(cell) for cell in group.full_cells)
        and all(group.has(cell) for cell in soon_usable(observation, health))
    )
    return wanted_copies(group, staying(observation)) if may_lack else group.factor


def leaving(
    group: Group, states: Mapping[str, str], health: Health, members: Mapping[str, int]
) -> str:
    """The full member that a group parts with, where it has one more than it wants."""
    latest = max(group.members, key=lambda member: member.incarnation).cell

    def burden(cell: str) -> tuple[object, ...]:
        is_away = states[cell] in (DRAINING, REMOVED)
        is_full = states[cell] == FULL
        is_other = bool(group.chosen) and cell not in group.chosen
        down = cell in health.down
        return is_away, down, is_other, is_full, cell != latest, members[cell], cell

    return max(group.full_cells, key=burden)


def rebalance(
    observation: Observation, options: Options, health: Health, members: dict[str, int]
) -> Iterator[Action]:
    """Moves of groups away from cells that drain, are full or hot, or have more than their share.

    Only draining, and what an operator chose, may take several steps at once; the others wait until
    every group has what it wants, and go on when that has had its effect. Groups without queues
    wait for nothing. One for which cells were chosen moves to these, and away from one that drains.
    """
    states = _states(observation)
    usable = health.usable - health.hot
    stay = staying(observation)
    joining = joining_groups(observation)
    settled = not joining and all(
        len(group.full_cells) == wanted_copies(group, stay) for group in observation.groups
    )
    for group in observation.groups:
        chosen = to_chosen(group, health)
        to = chosen or least_used(usable, group, members)
        if not to or group.joining is not None or len(group.full_cells) != group.factor:
            continue
        if joining >= options.joins_max and not group.empty:
            continue
        drains = any(states[cell] == DRAINING for cell in group.full_cells)
        may_move = (settled or group.empty) and not group.chosen
        if chosen or drains or (may_move and _has_too_much(group, to, states, health, members)):
            # The next one is moved at once, by what will be when this one has left.
            members[to] += 1
            members[leaving(group, states, health, members)] -= 1
            if not group.empty:
                joining += 1
                settled = False
            yield Admit(group.name, group.epoch, to)


def to_chosen(group: Group, health: Health) -> str:
    """The next of the cells chosen for a group that is to join it; "" where none is to, or may."""
    if set(group.full_cells) <= set(group.chosen):
        return ""
    return next(
        (cell for cell in group.chosen if cell in health.usable and not group.has(cell)), ""
    )


def staying(observation: Observation) -> int:
    """How many cells groups may have, whether these answer or not."""
    return sum(cell.state not in (DRAINING, REMOVED) for cell in observation.cells)


def wanted_copies(group: Group, stay: int) -> int:
    """The group's factor; less where fewer cells stay, but what those with queues keep at least."""
    return min(group.factor, max(stay, 1 if group.empty else copies_kept(group.factor)))


def counted(observation: Observation, health: Health) -> dict[str, int]:
    """How many groups each cell is a member of, when the moves under way have ended.

    With what is about to leave a cell it would look as if it had too much, and more would move.
    """
    states = _states(observation)
    members = {cell.name: 0 for cell in observation.cells}
    for group in observation.groups:
        for member in group.members:
            members[member.cell] += 1
    for group in observation.groups:
        if group.joining is not None and len(group.full_cells) >= group.factor:
            members[leaving(group, states, health, members)] -= 1
    return members


def _states(observation: Observation) -> dict[str, str]:
    return {cell.name: cell.state for cell in observation.cells}


def _has_too_much(
    group: Group, to: str, states: Mapping[str, str], health: Health, members: Mapping[str, int]
) -> bool:
    return any(
        states[cell] == FULL
        or (cell in health.hot and members[cell] >= members[to])
        or members[cell] - members[to] >= UNEVEN
        for cell in group.full_cells
    )
