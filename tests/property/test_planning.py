"""Plans for any cluster: what they never do, and that carrying them out comes to an end."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from control_plane.cluster.actions import Action, Admit, ChangeCell, Complete, Release, TakeOut
from control_plane.cluster.cell_health import Health
from control_plane.cluster.external import staying, wanted_copies
from control_plane.cluster.observation import (
    CellRecord,
    FrontEnd,
    Group,
    Observation,
    Options,
    Removal,
    Report,
)
from control_plane.cluster.planning import plan
from control_plane.cluster.waiting import waits_for
from control_plane.places.changes import copies_kept
from control_plane.places.items import ACTIVE, DRAINING, FAILED, FULL, REMOVED
from data_plane.replication.placement import Member, Placement, check_change

SECOND_US: Final = 1_000_000
NOW_US: Final = 10**12
OPTIONS: Final = Options()
ROUNDS_MAX: Final = 300
PERIOD_US: Final = 700 * SECOND_US


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    names = "abcdefg"[: draw(st.integers(1, 7))]
    seconds = st.one_of(st.integers(0, 20), st.integers(0, 100), st.integers(0, 2_000))
    ages = seconds.map(lambda age_s: NOW_US - age_s * SECOND_US)
    states = st.sampled_from([ACTIVE] * 4 + [DRAINING, FAILED, FULL, REMOVED])
    cells = [CellRecord(name, draw(states), draw(ages)) for name in names]

    def report(name: str) -> Report:
        failing = draw(st.one_of(st.none(), st.none(), ages))
        load = draw(st.sampled_from([0.0, 10.0, 5000.0]))
        full = draw(st.sampled_from([False] * 9 + [True]))
        return Report(name, failing, draw(ages), full, load)

    def group(number: int) -> Group:
        factor = draw(st.integers(1, 5))
        chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=6, unique=True))
        members = [Member(cell, draw(st.integers(0, 4))) for cell in chosen]
        if len(members) > 1 and draw(st.booleans()):
            members[-1] = Member(chosen[-1], 5, full=False)
        epoch, empty = draw(st.integers(5, 9)), draw(st.booleans())
        wish = tuple(draw(st.lists(st.sampled_from(names), max_size=factor, unique=True)))
        return Group(f"g{number}", epoch, tuple(members), draw(ages), factor, empty, wish)

    front_ends = [
        FrontEnd(str(number), draw(ages), tuple(map(report, names)))
        for number in range(draw(st.integers(0, 3)))
    ]
    removal = st.builds(Removal, st.sampled_from(names), ages)
    return Observation(
        at_us=NOW_US,
        cells=tuple(cells),
        groups=tuple(group(number) for number in range(draw(st.integers(0, 6)))),
        probes=tuple(map(report, names)),
        front_ends=tuple(front_ends),
        removal=draw(st.one_of(st.none(), removal)),
    )


@dataclass(frozen=True)
class World:
    """Registry and cells as acts leave them; every act is checked as the registry would."""

    seen: Observation
    now_us: int = NOW_US

    def plan(self) -> list[Action]:
        return plan(self.seen, OPTIONS, self.now_us)

    def group(self, name: str) -> Group:
        return next(group for group in self.seen.groups if group.name == name)

    def after(self, action: Action) -> "World":
        match action:
            case TakeOut(cell, groups):
                world = self
                for name, epoch in groups.items():
                    world = world._without(name, epoch, cell)
                told = Removal(cell, self.now_us)
                return replace(world, seen=structs.replace(world.seen, removal=told))
            case Admit(name, epoch, cell):
                members = self.group(name).members
                return self._change(name, epoch, (*members, Member(cell, epoch + 1, full=False)))
            case Complete(name, epoch, cell):
                members = self.group(name).members
                whole = tuple(
                    member._replace(full=True) if member.cell == cell else member
                    for member in members
                )
                return self._change(name, epoch, whole)
            case Release(name, epoch, cell, forced):
                held = self.group(name)
                if cell in held.full_cells and not forced:
                    assert len(held.full_cells) > copies_kept(held.factor)
                return self._without(name, epoch, cell)
            case ChangeCell(cell, state, to):
                assert any((one.name, one.state) == (cell, state) for one in self.seen.cells)
                return self._with_state(cell, to)
        raise AssertionError(action)

    def later(self) -> "World":
        """After a while in which everybody saw what he saw before."""
        now_us = self.now_us + PERIOD_US
        front_ends = tuple(
            structs.replace(
                one,
                heartbeat_us=now_us if one.heartbeat_us >= NOW_US - OPTIONS.heartbeat_us_max else 0,
            )
            for one in self.seen.front_ends
        )
        return World(structs.replace(self.seen, at_us=now_us, front_ends=front_ends), now_us)

    def _without(self, name: str, epoch: int, cell: str) -> "World":
        members = self.group(name).members
        assert any(member.cell == cell for member in members)
        return self._change(name, epoch, tuple(one for one in members if one.cell != cell))

    def _change(self, name: str, epoch: int, members: tuple[Member, ...]) -> "World":
        before = self.group(name)
        assert before.epoch == epoch
        check_change(Placement(name, epoch, before.members), Placement(name, epoch + 1, members))
        after = structs.replace(before, epoch=epoch + 1, members=members, since_us=self.now_us)
        groups = tuple(after if group is before else group for group in self.seen.groups)
        return replace(self, seen=structs.replace(self.seen, groups=groups))

    def _with_state(self, name: str, state: str) -> "World":
        cells = tuple(
            structs.replace(cell, state=state, since_us=self.now_us) if cell.name == name else cell
            for cell in self.seen.cells
        )
        return replace(self, seen=structs.replace(self.seen, cells=cells))


def lost(before: World, after: World) -> Iterator[tuple[Group, str]]:
    """Full members that groups lose."""
    for group in before.seen.groups:
        left = after.group(group.name).full_cells
        yield from ((group, cell) for cell in group.full_cells if cell not in left)


def carried_out(world: World, actions: list[Action]) -> World:
    for action in actions:
        world = world.after(action)
    return world


@given(observations())
def test_a_plan_can_be_carried_out_and_keeps_half_of_the_copies(seen: Observation) -> None:
    world = World(seen)
    after = carried_out(world, world.plan())
    taken = set()
    for group, cell in lost(world, after):
        left = after.group(group.name).full_cells
        kept = 1 if group.empty else copies_kept(group.factor)
        assert len(left) >= min(kept, len(group.full_cells))
        drains = any((one.name, one.state) == (cell, DRAINING) for one in seen.cells)
        if len(left) < group.factor and not (drains and group.factor > staying(seen)):
            taken.add(cell)
    assert len(taken) <= 1
    taken -= {cell.name for cell in seen.cells if cell.state == FAILED}  # an operator says so
    last = seen.removal
    if taken and last is not None and NOW_US - last.at_us < OPTIONS.safe_us:
        assert taken == {last.cell}


@given(observations())
def test_what_took_effect_is_not_planned_again(seen: Observation) -> None:
    world = World(seen)
    actions = world.plan()
    again = carried_out(world, actions).plan()
    assert not [action for action in actions if action in again]
    # Nor does anything that was done meet what is still planned from before.
    for group in (getattr(action, "group", "") for action in actions):
        assert sum(group == getattr(action, "group", None) for action in actions) == 1 or not group


@given(observations())
@settings(max_examples=60)
def test_nothing_is_left_to_be_done_in_the_end(seen: Observation) -> None:
    """With what observers report staying as it is."""
    world = World(seen).later()
    for _ in range(ROUNDS_MAX):
        actions = world.plan()
        if not actions and not any(group.joining for group in world.seen.groups):
            break
        world = carried_out(world, actions).later()
    else:
        raise AssertionError(world.plan())
    assert world.later().plan() == []
    check_waits(world.later())


def check_waits(world: World) -> None:
    """What is not as it should be in the end is told, with the reason."""
    seen, health = world.seen, Health(world.seen, OPTIONS, world.now_us)
    lines = waits_for(seen, OPTIONS, world.now_us)
    if not plan_is_made(seen):
        return
    stay = staying(seen)
    for cell in seen.cells:
        held = [group for group in seen.groups if cell.name in group.full_cells]
        if held and (cell.state == DRAINING or cell.name in health.down):
            assert any(line.startswith(f"{cell.name} ") for line in lines), cell
    for group in seen.groups:
        if not group.full_cells:
            assert any(line.startswith("no copy of") for line in lines)
        elif len(group.full_cells) < wanted_copies(group, stay):
            assert any(" is missing: " in line for line in lines), group
    assert all("`tidegate cells " in line or "bring" in line for line in lines), lines


def plan_is_made(seen: Observation) -> bool:
    known = {cell.name for cell in seen.cells}
    return all(member.cell in known for group in seen.groups for member in group.members)


@given(observations(), st.sampled_from(["cells", "groups"]))
def test_an_empty_map_plans_nothing(seen: Observation, empty: str) -> None:
    assert World(structs.replace(seen, **{empty: ()})).plan() == []


@given(observations(), st.integers(0, 6))
def test_a_map_that_lacks_a_cell_in_use_plans_nothing(seen: Observation, at: int) -> None:
    cells = seen.cells[:at] + seen.cells[at + 1 :]
    left = {cell.name for cell in cells}
    if all(
        group.has(cell.name) <= (cell.name in left) for group in seen.groups for cell in seen.cells
    ):
        return
    assert World(structs.replace(seen, cells=cells)).plan() == []
