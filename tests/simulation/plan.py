"""What a seed means: the universe's size, its queues, its clients, its climate."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

import data_plane.bag
import data_plane.log
import data_plane.stored
import data_plane.streams
from tests.simulation.weather import Climate, choose_climate

SMALL_BOUNDS: Mapping[str, int] = {
    "BLOCK_FULL_MESSAGES": 8,
    "SEGMENT_MESSAGES_MAX": 12,
    "FETCH_ITEMS_MAX": 3,
    "WINDOW_ENTRIES_MAX": 4,
    "WINDOW_MESSAGES_MAX": 12,
    "DUE_ENTRIES_MAX": 48,
    "LOW_WATER_MESSAGES": 4,
    "MARKERS_AT_ONCE_MAX": 3,
    "IDLE_BLOCKS_MAX": 1,
    "CALLS_REMEMBERED_MAX": 4,
    "LANES_MAX": 1,
    "QUERY_PAGE": 4,
}
"""With these the overflow paths are reached within some hundred requests."""


BLOB_BOUNDS: Mapping[str, int] = {
    "BODY_BYTES_HELD_MAX": 60,
    "PUT_TO_APPEND_US_MAX": 300_000_000,
    "ORPHAN_AGE_US_MIN": 600_000_000,
    "WALK_EVERY_US": 60_000_000,
    "SWEPT_NAMES_MAX": 3,
}
"""With these orphans are swept within a universe, and bodies are fetched more than once."""


FAIR_BOUNDS: Mapping[str, int] = {
    "GROUP_WAITING_MIN": 2,
    "DEEPER_LANE_FACTOR": 2,
    "GROUPS_COUNTED_MAX": 4,
    "GROUPS_PLACED_MAX": 3,
    "GROUPS_TOLD_MAX": 2,
    "DELIVERIES_WATCHED_MAX": 8,
    "NOISY_AFTER_US": 100_000,
}
"""With these the messages of groups go to all lanes."""


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A queue's attributes."""

    name: str
    visibility_s: int
    delay_s: int
    retention_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a universe's things depend on, whatever happens in it.

    `sequential`: one front end and one client that does one thing after the other, so that what a
    call spends can be counted. `stamps`: cells choose the stamps of appends. Where they do not,
    bodies above `blob_threshold_bytes` may lie apart. `haste` divides how long requests are under
    way and how far clocks jump, for engines whose ages are divided by it, too. `moves`: front ends
    run message move tasks. `machines_us` is by how much the clocks of front ends' machines are set,
    ahead and back; they go by the time of a table then. With `drops_after_us` they drop what was
    purged, so long after the purge (0: they do not).
    """

    seed: int
    front_ends: int
    cells: int
    climate: Climate
    skew_us_max: int
    live_present: bool
    stamps: bool
    blob_threshold_bytes: int | None
    bounds: Mapping[str, int]
    sequential: bool
    haste: int = 1
    moves: bool = False
    drops_after_us: int = 0
    machines_us: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What all randomness of the universe derives from."""
        return str(self.seed)

    @property
    def cells_skew_us_max(self) -> int:
        """How wrong cells' clocks are: as wrong as those of front ends."""
        return self.skew_us_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Surroundings):
    """See the module's docstring.

    `drain` says through which front ends the queues are emptied at the end. `leaps_us` are
    stretches of time in which nothing happens, before the last look. Messages belong to one of so
    many `groups`, or to none.
    """

    queues: tuple[QueuePlan, ...]
    producers: int
    consumers: int
    sends_each: int
    purges: bool
    drain: str
    leaps_us: tuple[int, ...]
    groups: int = 0


def make_plan(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/plan")
    sequential = random.random() < 0.12
    climate = choose_climate(random)
    while sequential and not climate.calm:
        climate = choose_climate(random)
    # Chances of their own, so that the other universes stay what they were.
    late = Random(f"{seed}/stamping")
    stamps = late.random() < 0.6
    apart = Random(f"{seed}/apart")
    has_blobs = not stamps and apart.random() < 0.4
    grouping = Random(f"{seed}/groups")
    groups = grouping.choice((1, 3, 12)) if not sequential and grouping.random() < 0.35 else 0
    if not stamps and not climate.calm:
        slow = late.choice((0.0, 0.1, 0.4))
        climate = replace(climate, weather=replace(climate.weather, slow=slow))
    queues = tuple(
        QueuePlan(
            name=f"q{number}",
            visibility_s=random.choice((1, 5, 30)),
            delay_s=random.choice((0, 0, 0, 4)),
            retention_s=random.choice((60, 120, 345_600, 345_600)),
        )
        for number in range(random.choice((1, 1, 2)))
    )
    return Plan(
        seed=seed,
        front_ends=1 if sequential else random.choice((1, 2, 2, 3)),
        cells=random.choice((1, 1, 2)),
        queues=queues,
        producers=random.choice((1, 2, 3)),
        consumers=random.choice((1, 2, 3)),
        sends_each=random.choice((4, 8, 16)),
        climate=climate,
        skew_us_max=random.choice((0, 50_000, 50_000, 2_000_000)),
        live_present=random.random() < 0.6,
        stamps=stamps,
        blob_threshold_bytes=apart.choice((0, 90, 150)) if has_blobs else None,
        bounds={
            **(SMALL_BOUNDS if random.random() < 0.4 else {}),
            **(BLOB_BOUNDS if has_blobs else {}),
            **(FAIR_BOUNDS if groups else {}),
        },
        sequential=sequential,
        purges=not sequential and random.random() < 0.25,
        drain=random.choice(("any", "one", "cold")),
        leaps_us=tuple(
            random.choice((3_600, 90_000, 400_000, 1_000_000)) * 1_000_000
            for _ in range(random.choice((0, 0, 1, 3)))
        ),
        groups=groups,
    )


DROPPING_BOUNDS: Mapping[str, int] = {"DROP_ITEMS_MAX": 3}
"""With these a crash comes between two steps of dropping what was purged."""


def make_dropping_plan(seed: int) -> Plan:
    """The plan of a seed with purges, on cells that drop what was purged."""
    random = Random(f"{seed}/dropping")
    plan = make_plan(seed)
    return replace(
        plan,
        sequential=False,
        purges=True,
        **dropping(plan, random),
    )


def dropping(plan: Surroundings, random: Random) -> dict[str, Any]:
    """What is different in a universe whose front ends drop what was purged."""
    return {
        "stamps": True,
        "blob_threshold_bytes": None,
        "bounds": {**plan.bounds, **DROPPING_BOUNDS},
        "drops_after_us": random.choice((1_000_000, 5_000_000, 30_000_000)),
    }


@cache
def _modules() -> list[ModuleType]:
    """The engines' modules: looked for once, for that takes as long as many requests."""
    return [
        importlib.import_module(f"{package.__name__}.{found.name}")
        for package in (data_plane.bag, data_plane.log, data_plane.stored, data_plane.streams)
        for found in pkgutil.iter_modules(package.__path__)
    ]


@contextmanager
def bounds_as(values: Mapping[str, int]) -> Iterator[None]:
    """The engines with some of their bounds changed."""
    before = [
        (module, name, getattr(module, name))
        for module in _modules()
        for name in values
        if hasattr(module, name)
    ]
    for module, name, _ in before:
        setattr(module, name, values[name])
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
