"""How long it takes until every cell has its share of the groups, in the manager's own time."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from control_plane.cluster.actions import Admit
from control_plane.cluster.external import UNEVEN
from control_plane.cluster.observation import (
    CellRecord,
    FrontEnd,
    Group,
    Observation,
    Options,
    Report,
)
from control_plane.cluster.planning import plan
from control_plane.places.groups import group_names
from data_plane.replication.placement import Member
from tests.property.test_planning import NOW_US, SECOND_US, World

GRACE_S = 10
OPTIONS = Options(grace_us=GRACE_S * SECOND_US)
LONG_AGO_US = NOW_US - 1000 * SECOND_US
IDLE_S = 30


def cluster(cells: str, placed: str, is_empty: Callable[[str], bool], draining: str = "") -> World:
    """All groups of up to four copies, placed one after the other on these cells."""
    groups = []
    for factor in range(1, 5):
        for number, name in enumerate(group_names(factor)):
            on = [placed[(number + at) % len(placed)] for at in range(min(factor, len(placed)))]
            members = tuple(map(Member, on))
            groups.append(Group(name, 7, members, LONG_AGO_US, factor, is_empty(name)))
    records = [
        CellRecord(cell, "draining" if cell in draining else "active", LONG_AGO_US)
        for cell in cells
    ]
    front_end = FrontEnd("f", NOW_US, tuple(Report(cell, None, LONG_AGO_US) for cell in cells))
    seen = Observation(
        at_us=NOW_US, cells=tuple(records), groups=tuple(groups), front_ends=(front_end,)
    )
    return World(seen, NOW_US)


def settled(world: World) -> tuple[World, int, int]:
    """When nothing is left to do: how things are, the seconds it took, and how many joined."""
    second = last = joined = 0
    while second - last < IDLE_S:
        front_ends = tuple(
            structs.replace(one, heartbeat_us=world.now_us) for one in world.seen.front_ends
        )
        seen = structs.replace(world.seen, at_us=world.now_us, front_ends=front_ends)
        world = replace(world, seen=seen)
        for action in plan(world.seen, OPTIONS, world.now_us):
            world, last = world.after(action), second
            joined += isinstance(action, Admit)
        second += 1
        world = replace(world, now_us=world.now_us + SECOND_US)
    return world, last, joined


@pytest.mark.parametrize(
    ("cells", "placed", "draining", "moves"),
    [("abcd", "bcd", "", 40), ("abcde", "abcd", "", 32), ("abcd", "abcd", "d", 24)],
    ids=["restored", "added", "drained"],
)
@pytest.mark.parametrize("queues", [0, 4])
def test_groups_without_queues_move_together_and_once(
    cells: str, placed: str, draining: str, moves: int, queues: int
) -> None:
    def is_empty(name: str) -> bool:
        return int(name[-2:]) >= queues

    world, took_s, joined = settled(cluster(cells, placed, is_empty, draining))
    has = Counter(member.cell for group in world.seen.groups for member in group.members)
    assert max(has.values()) - min(has.values()) < UNEVEN
    assert joined <= moves
    assert took_s <= (2 * GRACE_S if queues else GRACE_S + 2)
