"""Internal management: the members, heads and partitions inside groups and queues. Pure.

Who leaves a group because its cell is down, who joins instead, when it may serve; when a FIFO
queue's partitions are too few, and when those of earlier generations are done with.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from control_plane.cluster.actions import (
    Action,
    Admit,
    Complete,
    Reconcile,
    Release,
    Retire,
    Split,
    TakeOut,
)
from control_plane.cluster.cell_health import Health
from control_plane.cluster.observation import Group, Logs, Observation, Options
from control_plane.places.changes import copies_kept
from control_plane.places.items import ACTIVE, FAILED

FRONT_ENDS_MAX: Final = 100
"""That are looked after in one plan: a state of the state machine holds 256 KB."""


def fail_over(observation: Observation, options: Options, health: Health) -> list[TakeOut]:
    """What takes one cell that is down out of its groups, where half of the copies stay.

    And where somebody sees one of these answer: if they are lost, the cell may be the one that
    comes back.

    One cell at a time. Of those that merely look down, nothing is planned for another one within
    SAFE of the last, nor while most cells do; those that an operator calls failed are first.
    """
    failed = {cell.name for cell in observation.cells if cell.state == FAILED}
    last = observation.removal
    if last is not None and health.now_us - last.at_us >= options.safe_us:
        last = None
    order = sorted(
        health.down,
        key=lambda name: (name not in failed, health.failing_since_us(name), name),
    )
    for cell in order:
        groups = {
            group.name: group.epoch
            for group in observation.groups
            if cell in group.full_cells
            and len(group.full_cells) > copies_kept(group.factor)
            and others_reached(group, cell, health)
        }
        is_safe = not health.is_blind and (last is None or last.cell == cell)
        if groups and (cell in failed or is_safe):
            return [TakeOut(cell, groups)]
    return []


def others_reached(group: Group, cell: str, health: Health) -> bool:
    """Whether somebody sees another full member of the group answer."""
    return any(health.is_reached(other) for other in group.full_cells if other != cell)


def join(
    observation: Observation, options: Options, health: Health, members: dict[str, int]
) -> Iterator[Action]:
    """What brings groups to their factor: cells join, are copied to, and serve.

    `members` counts the groups of each cell, and is kept up to date with what is planned. Who joins
    leaves again for what is known of its cell, not for what is not: it was copied to for hours.
    """
    usable = health.usable
    active = {cell.name for cell in observation.cells if cell.state == ACTIVE}
    joining = joining_groups(observation)
    for group in observation.groups:
        if not group.full_cells:
            continue  # nothing to copy from: somebody has to look at it
        one = group.joining
        if one is not None:
            is_lost = health.fails_somebody(one.cell) or health.is_unknown(one.cell)
            if one.cell not in active or is_lost:
                yield Release(group.name, group.epoch, one.cell)
            elif health.answers(one.cell) and health.now_us - group.since_us >= options.grace_us:
                yield Complete(group.name, group.epoch, one.cell)
            continue
        if len(group.full_cells) >= group.factor:
            continue
        if joining >= options.joins_max and not group.empty:
            continue
        cell = least_used(usable, group, members)
        if cell:
            joining += not group.empty
            members[cell] += 1
            yield Admit(group.name, group.epoch, cell)


def joining_groups(observation: Observation) -> int:
    """How many groups have a joining member to which something is copied."""
    return sum(group.joining is not None and not group.empty for group in observation.groups)


def least_used(cells: AbstractSet[str], group: Group, members: Mapping[str, int]) -> str:
    """The cell outside the group that has the fewest members, of those chosen for it the first.

    "" where there is none.
    """
    outside = [cell for cell in cells if not group.has(cell)]
    chosen = [cell for cell in group.chosen if cell in outside]
    return chosen[0] if chosen else min(outside, key=lambda one: (members[one], one), default="")


def reconcile(observation: Observation, options: Options, health: Health) -> Iterator[Action]:
    """What tells copies that which front ends that are gone did not tell them.

    Not while a member is down: one that does not answer cannot be told, and soon is none.
    """
    members = {member.cell for group in observation.groups for member in group.members}
    gone = [
        one
        for one in observation.front_ends
        if abs(health.now_us - one.heartbeat_us) >= options.gone_us and one.told_us is not None
    ]
    if gone and members.isdisjoint(health.down):
        oldest = sorted(gone, key=lambda one: one.heartbeat_us)[:FRONT_ENDS_MAX]
        since_us = min(one.told_us for one in oldest if one.told_us is not None)
        yield Reconcile({one.name: one.heartbeat_us for one in oldest}, since_us)


def partitions(observation: Observation, options: Options) -> Iterator[Action]:
    """Splits of FIFO queues that have too much to do, and generations that are done with."""
    for logs in observation.logs:
        if logs.drained_through is not None:
            yield Retire(*_of(logs), logs.drained_through)
        elif (
            logs.may_split
            and logs.appends_per_s / logs.partitions >= options.split_appends_per_s
            and observation.at_us - logs.since_us >= options.split_period_us
        ):
            yield Split(*_of(logs), logs.generation)


def _of(logs: Logs) -> tuple[str, str, str, str]:
    return logs.account, logs.region, logs.name, logs.uid
