"""Universes that are directed towards what hardly happens in those of chance alone.

Each has one thing that goes wrong much more often than it would, in mild weather, so that what it
takes comes together; all else is as the seed has it.
"""

from dataclasses import replace
from random import Random
from typing import Any, Final, TypeVar

from tests.simulation.fifo.plan import FifoQueuePlan
from tests.simulation.machines import with_machines
from tests.simulation.plan import SMALL_BOUNDS, QueuePlan
from tests.simulation.replicated.plan import (
    GRACE_US,
    QUEUE_ALONE,
    SECOND_US,
    TABLES_APART_US,
    ReplicatedFifoPlan,
    ReplicatedPlan,
    Replication,
)
from tests.simulation.replicated.records import STATES
from tests.simulation.weather import Weather

_Queue = TypeVar("_Queue", bound=QueuePlan | FifoQueuePlan)

LATE_COPIES: Final = "late copies"
"""Managers stand still between the read of a copy and its write, while what they have read is
changed (odd seeds), or deleted and collected (even ones)."""

MISSED: Final = "writes that miss who joins"
"""A front end stands still half way with a write by a map without the member that joins."""

TWO_HEADS: Final = "two heads"
"""Heads are dropped that are well, and front ends that have not heard of it write to them on."""

MACHINES: Final = "machines"
"""The clocks of front ends' machines are set by minutes, an hour and a day, ahead and back, and
those of tables within the second by which they may differ."""

ALONE: Final = "queues alone"
"""An operator moves single queues to other cells, again and again, away from their neighbours."""

STANDARD_KINDS: Final = (LATE_COPIES, MACHINES, ALONE)
FIFO_KINDS: Final = (MISSED, TWO_HEADS, MACHINES, ALONE)


def direct(plan: ReplicatedPlan, how: str) -> ReplicatedPlan:
    """The plan of a universe of standard queues, directed so; "": as it is."""
    if not how:
        return plan
    if how not in STANDARD_KINDS:
        raise ValueError(f"standard queues have no directed universes of {how!r}")
    if how == MACHINES:
        return replace(plan, **_on_machines(plan))
    if how == ALONE:
        return replace(plan, **_alone(plan), queues=_two_queues(plan.queues))
    replication = replace(_joining(plan.replication), managers=2, loss="first")
    sends_each = max(12, plan.sends_each)
    bounds = dict(SMALL_BOUNDS)
    if plan.seed % 2:
        sends_each = 36
        replication = replace(
            replication, delays=0.2, delays_us=(0, 20 * SECOND_US), delays_of=STATES, unasked=0.15
        )
    else:
        # A block for each send: it is collected when that was deleted.
        bounds["BLOCK_FULL_MESSAGES"] = 1
        replication = replace(replication, delays=0.02, delays_us=(GRACE_US, 3 * GRACE_US))
    return replace(
        plan,
        cells=4,
        front_ends=max(2, plan.front_ends),
        consumers=3,
        sends_each=sends_each,
        stamps=True,
        bounds={**plan.bounds, **bounds},
        climate=replace(plan.climate, weather=_mild(plan.climate.weather)),
        replication=replication,
    )


def direct_fifo(plan: ReplicatedFifoPlan, how: str) -> ReplicatedFifoPlan:
    """The same, for FIFO queues."""
    if not how:
        return plan
    if how not in FIFO_KINDS:
        raise ValueError(f"FIFO queues have no directed universes of {how!r}")
    if how == MACHINES:
        return replace(plan, **_on_machines(plan))
    if how == ALONE:
        return replace(plan, **_alone(plan), queues=_two_queues(plan.queues))
    replication = _joining(plan.replication)
    if how == MISSED:
        # One alone: what others write meanwhile would tell it that its map is old.
        front_ends = 1
        replication = replace(replication, misses=1.0)
    else:
        front_ends = 3
        replication = replace(
            replication, strikes=("old map",), between_strikes_us=SECOND_US, unasked=0.5
        )
    return replace(
        plan,
        cells=4,
        front_ends=front_ends,
        queues=tuple(_in_one_log(queue) for queue in plan.queues[:1]),
        producers=3,
        consumers=3,
        sends_each=18,
        climate=replace(plan.climate, weather=_mild(plan.climate.weather)),
        replication=replication,
    )


def _on_machines(plan: ReplicatedPlan | ReplicatedFifoPlan) -> dict[str, Any]:
    random = Random(f"{plan.name}/on machines")
    tables_us = plan.seed % 2 * TABLES_APART_US
    more = with_machines(plan, random)
    return {**more, "replication": replace(plan.replication, tables_set_us=tables_us)}


def _alone(plan: ReplicatedPlan | ReplicatedFifoPlan) -> dict[str, Any]:
    """Two queues of one group, of which each may move alone, and what else the seed has."""
    strikes = (QUEUE_ALONE, QUEUE_ALONE, *plan.replication.strikes)
    replication = replace(
        plan.replication,
        groups=1,
        factor=2 + plan.seed % 2,
        strikes=strikes,
        between_strikes_us=min(plan.replication.between_strikes_us, 10 * SECOND_US),
        unasked=min(plan.replication.unasked, 0.05),
        rests=min(plan.replication.rests, 0.1),
    )
    return {"cells": 4, "sends_each": max(12, plan.sends_each), "replication": replication}


def _two_queues(queues: tuple[_Queue, ...]) -> tuple[_Queue, ...]:
    """Neighbours: the first, and the second or another one like the first."""
    first, *others = queues
    return first, others[0] if others else replace(first, name=f"other-{first.name}")


def _joining(replication: Replication) -> Replication:
    """Members leave that are well, and others join."""
    return replace(
        replication,
        groups=1,
        factor=3,
        strikes=("manager restarts",),
        between_strikes_us=20 * SECOND_US,
        unasked=0.06,
        rests=0.0,
        stops=0.0,
        errands=0.0,
        managers_apart_us=0,
    )


def _in_one_log(queue: FifoQueuePlan) -> FifoQueuePlan:
    return replace(
        queue, delay_s=0, visibility_s=5, high_throughput=False, changes_throughput=False
    )


def _mild(weather: Weather) -> Weather:
    """Requests arrive, but few."""
    calm = dict.fromkeys(weather.__dataclass_fields__, 0.0)
    return replace(weather, **{**calm, "lost_request": 0.01})
