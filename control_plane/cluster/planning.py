"""The plan: from what was observed to what is to be done. Pure."""

from hashlib import blake2b
from typing import Final

from msgspec import structs

from control_plane.cluster import external, internal
from control_plane.cluster.actions import Action, Complete
from control_plane.cluster.cell_health import Health
from control_plane.cluster.observation import Observation, Options

_ACTIONS_MAX: Final = 64
"""In one plan; the next execution goes on."""


def plan(observation: Observation, options: Options, now_us: int) -> list[Action]:
    """What to do, the most urgent first; nothing where too little was seen to decide upon.

    * Groups lose full members of one cell at a time, within SAFE, and never fall below half
      of their factor.
    * A member that a group has beyond its factor goes only while nobody joins.
    * Where more than half of the cells look down, none of them is taken out.
    * Nothing follows from what was seen long ago, and nothing about cells from a map that lacks
      some of them. How long something has gone on is judged as of when it was seen.
    """
    if now_us - observation.at_us > options.observation_us_max:
        return []
    actions: list[Action] = []
    if _is_complete(observation):
        actions += _about_cells(observation, options)
    actions += internal.partitions(observation, options)
    return actions[:_ACTIONS_MAX]


def in_own_order(actions: list[Action], own: str) -> list[Action]:
    """The same plan; groups that are to be copied come in an order of the manager's own name.

    All servers on the same tables plan the same at about the same time. Who comes to a group that
    another one has copied meanwhile finds its epoch ended; in one order all would copy everything.
    """

    def place(action: Complete) -> bytes:
        return blake2b(f"{own} {action.group}".encode(), digest_size=8).digest()

    copies = iter(sorted((one for one in actions if isinstance(one, Complete)), key=place))
    return [next(copies) if isinstance(one, Complete) else one for one in actions]


def _is_complete(observation: Observation) -> bool:
    known = {cell.name for cell in observation.cells}
    return bool(observation.groups) and all(
        member.cell in known for group in observation.groups for member in group.members
    )


def _about_cells(observation: Observation, options: Options) -> list[Action]:
    health = Health(observation, options, observation.at_us)
    members = external.counted(observation, health)
    actions: list[Action] = [*internal.fail_over(observation, options, health)]
    # A group that loses a member gets no other change in the same plan: its epoch is about to end.
    losing = {name for action in actions for name in getattr(action, "groups", ())}
    others = structs.replace(
        observation, groups=tuple(one for one in observation.groups if one.name not in losing)
    )
    actions += external.change_cells(observation, health)
    actions += internal.reconcile(observation, options, health)
    actions += internal.join(others, options, health, members)
    actions += external.release(others, health, members)
    actions += external.rebalance(others, options, health, members)
    return actions
