"""External management: which cells groups, and with them queues, lie in. Pure.

Cells that are full get no new groups; those that drain, that are too hot, or that have more than
their share give some to others. A group moves by gaining a member first, and losing one after.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from control_plane.cluster.actions import Action, Admit, ChangeCell, Release
from control_plane.cluster.cell_health import Health
from control_plane.cluster.internal import least_used
from control_plane.cluster.observation import Group, Observation, Options
from control_plane.places.items import ACTIVE, DRAINING, FULL, REMOVED

_UNEVEN: Final = 3
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
    it joined for another one to go.
    """
    states = _states(observation)
    for group in observation.groups:
        if group.joining is not None or len(group.full_cells) <= group.factor:
            continue
        latest = max(group.members, key=lambda member: member.incarnation).cell

        def burden(cell: str, latest: str = latest) -> tuple[object, ...]:
            is_away = states[cell] in (DRAINING, REMOVED)
            is_full = states[cell] == FULL
            return is_away, cell in health.down, is_full, cell != latest, members[cell], cell

        cell = max(group.full_cells, key=burden)
        members[cell] -= 1
        yield Release(group.name, group.epoch, cell)


def rebalance(
    observation: Observation, options: Options, health: Health, members: dict[str, int]
) -> Iterator[Action]:
    """Moves of groups away from cells that drain, are full or hot, or have more than their share.

    Only draining may take several steps at once; the others wait until every group has what it
    wants, and go on when that has had its effect.
    """
    states = _states(observation)
    usable = health.usable - health.hot
    joining = sum(group.joining is not None for group in observation.groups)
    settled = not joining and all(
        len(group.full_cells) == group.factor for group in observation.groups
    )
    for group in observation.groups:
        to = least_used(usable, group, members)
        if not to or group.joining is not None or len(group.full_cells) != group.factor:
            continue
        if joining >= options.joins_max:
            break
        drains = any(states[cell] == DRAINING for cell in group.full_cells)
        if drains or (settled and _has_too_much(group, to, states, health, members)):
            joining += 1
            settled = False
            members[to] += 1
            yield Admit(group.name, group.epoch, to)


def counted(observation: Observation) -> dict[str, int]:
    """How many groups each cell is a member of."""
    members = {cell.name: 0 for cell in observation.cells}
    for group in observation.groups:
        for member in group.members:
            members[member.cell] += 1
    return members


def _states(observation: Observation) -> dict[str, str]:
    return {cell.name: cell.state for cell in observation.cells}


def _has_too_much(
    group: Group, to: str, states: Mapping[str, str], health: Health, members: Mapping[str, int]
) -> bool:
    return any(
        states[cell] == FULL
        or (cell in health.hot and members[cell] >= members[to])
        or members[cell] - members[to] >= _UNEVEN
        for cell in group.full_cells
    )
