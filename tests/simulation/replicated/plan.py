"""What a seed means for a universe of replicated cells; its chances are its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from control_plane.cluster import copies
from control_plane.cluster.observation import Options
from control_plane.core import fifo_generations
from control_plane.places import cached, takeover
from data_plane.replication import unneeded
from tests.simulation.fifo.plan import (
    HASTE,
    HASTY_BOUNDS,
    FifoPlan,
    FifoQueuePlan,
)
from tests.simulation.fifo.plan import SMALL_BOUNDS as SMALL_FIFO_BOUNDS
from tests.simulation.plan import (
    FAIR_BOUNDS,
    SMALL_BOUNDS,
    Plan,
    QueuePlan,
    Surroundings,
)
from tests.simulation.weather import Climate, Weather, choose_climate

SECOND_US: Final = 1_000_000

MAP_AGE_US_MAX: Final = 6 * SECOND_US
"""A tenth of a map's age, and the rest in proportion: a cell is lost, joins and is lost again."""

GRACE_US: Final = 30 * SECOND_US
OPTIONS: Final = Options(
    down_after_us=SECOND_US,
    back_after_us=SECOND_US,
    heartbeat_us_max=5 * SECOND_US,
    observation_us_max=12 * SECOND_US,
    gone_us=8 * SECOND_US,
    safe_us=6 * SECOND_US,
    grace_us=GRACE_US,
    split_appends_per_s=0.01,
    split_period_us=40 * SECOND_US,
)
"""The grace is for a map's age, for requests under way (12 s), and for clocks that are apart."""

TABLES_APART_US: Final = 500_000
"""Either way: tables of a group differ by a second at most, as docs/replication.md asks for."""

MANAGERS_APART_US: Final = 6 * SECOND_US
COPY_US_MAX: Final = 6 * SECOND_US
FULL_US_MIN: Final = GRACE_US
"""As the grace: requests to cells that collect are under way for no time elsewhere."""

ITEMS_PER_STEP: Final = 16
PARTITIONS_MAX: Final = 16
"""Of FIFO queues that are split: a receive asks all of them, and clients here wait for seconds."""

OLD_MAP_US: Final = MAP_AGE_US_MAX + 30 * SECOND_US
"""By then no answer is given any more that an old map led to: a receive waits up to 20 s."""

STRIKES: Final = (
    "a cell",
    "two cells",
    "cell and front end",
    "cell and manager",
    "front end and cell",
    "manager and cell",
    "old map",
    "front end frozen",
    "manager frozen",
    "front end restarts",
    "manager restarts",
    "clock",
    "expiry",
    "cell for long",
    "cell for good",
    "cell is full",
    "operator",
)


QUEUE_ALONE: Final = "queue alone"
"""In directed universes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """How messages are replicated in a universe, and what happens to that.

    `cells` are so many, of which each of `groups` has `factor`. What is in `strikes` happens every
    `between_strikes_us` or sooner. `loss`: at the end of all other faults a cell is lost for good,
    the first or the last of its group. `unasked` is the chance that a manager takes a
    cell for dead for no reason at all, `rests` that it does a step long after the one before,
    `stops` that it ends with a request. `errands` are chances of its requests to come late, and to
    come again. Its clock is wrong by up to `managers_apart_us`. `beats`: front ends probe cells
    and tell what they see; `beside`: managers do so, too. `stalls` is the chance that, when a
    member joins, a front end stands still in the midst of its next write until that serves. `looks`
    is the chance that a front end reads the map anew just when a write of it returns, which the
    others are still to be told; it tells them every `ships_every_us`. In directed universes alone
    (directed.py): `misses` is the chance that a front end stands still half way with a write that
    misses who joins, `delays` that anybody does between the read of a copy and its write, for a
    time within `delays_us`, where the item is in a partition of the kind `delays_of`. The clocks of
    tables are set by up to `tables_set_us`, now and then.
    """

    groups: int
    factor: int
    managers: int
    strikes: tuple[str, ...]
    between_strikes_us: int
    loss: str
    unasked: float
    rests: float
    stops: float
    errands: float
    managers_apart_us: int
    beats: bool
    beside: bool
    stalls: float
    looks: float = 0.0
    ships_every_us: int = SECOND_US
    misses: float = 0.0
    delays: float = 0.0
    delays_us: tuple[int, int] = (0, 1)
    delays_of: str = ""
    tables_set_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedPlan(Plan):
    """A universe of standard queues."""

    replication: Replication

    @property
    def is_fifo(self) -> bool:
        """Whether groups are chains."""
        return False

    @property
    def name(self) -> str:
        """Not that of a universe of plain cells."""
        return f"{self.seed}/replicated"

    @property
    def cells_skew_us_max(self) -> int:
        """Cells of a group differ by a second at most, as docs/replication.md asks for."""
        return min(self.skew_us_max, TABLES_APART_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedFifoPlan(FifoPlan):
    """A universe of FIFO queues."""

    replication: Replication

    @property
    def is_fifo(self) -> bool:
        """Whether groups are chains."""
        return True

    @property
    def name(self) -> str:
        """Not that of a universe of plain cells."""
        return f"{self.seed}/replicated-fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainsPlan(Surroundings):
    """A universe of other logs than those of FIFO queues."""

    replication: Replication

    @property
    def is_fifo(self) -> bool:
        """Whether groups are chains."""
        return True

    @property
    def cells_skew_us_max(self) -> int:
        """As of other groups."""
        return min(self.skew_us_max, TABLES_APART_US)


def mild_climate(random: Random) -> Climate:
    """The weather of requests; moments are chosen apart. Mostly mild: writes need all members."""
    climate = choose_climate(random)
    strength = random.choice((0.0, 0.15, 0.3, 1.0))
    chances = {
        name: getattr(climate.weather, name) * strength
        for name in climate.weather.__dataclass_fields__
    }
    return replace(climate, weather=replace(climate.weather, **chances), events=())


def choose_replication(random: Random, cells: int) -> Replication:
    """How messages are replicated, and what strikes."""
    wanted = random.choice((1, 2, 4, len(STRIKES), len(STRIKES)))
    return Replication(
        groups=random.choice((1, 1, 2)),
        factor=min(cells, 3),
        managers=random.choice((1, 2, 2)),
        strikes=tuple(sorted(random.sample(STRIKES, wanted))),
        between_strikes_us=random.choice((5, 10, 20)) * SECOND_US,
        loss=random.choice(("", "first", "first", "last")),
        unasked=random.choice((0.0, 0.0, 0.15)),
        rests=random.choice((0.0, 0.1, 0.4)),
        stops=random.choice((0.0, 0.0, 0.005, 0.02)),
        errands=random.choice((0.0, 0.0, 0.1, 0.3)),
        managers_apart_us=random.choice((0, 0, MANAGERS_APART_US)),
        beats=(beats := random.random() < 0.5),
        beside=beats and random.random() < 0.5,
        stalls=random.choice((0.0, 0.0, 0.5)),
    )


def managers_weather(plan: ReplicatedPlan | ReplicatedFifoPlan | ChainsPlan) -> Weather:
    """The weather of front ends, and worse."""
    weather, errands = plan.climate.weather, plan.replication.errands
    return replace(
        weather,
        duplicate=max(weather.duplicate, errands),
        delay=max(weather.delay, errands),
        stalled=0.0,
    )


def make_plan(seed: int) -> ReplicatedPlan:
    """The plan of a seed: standard queues."""
    random = Random(f"{seed}/replicated/plan")
    cells = random.choice((2, 3, 3, 3, 4))
    queues = tuple(
        QueuePlan(
            name=f"q{number}",
            visibility_s=random.choice((1, 5, 30)),
            delay_s=random.choice((0, 0, 0, 4)),
            retention_s=345_600,
        )
        for number in range(random.choice((1, 1, 2)))
    )
    stamps = random.random() < 0.4
    lag = Random(f"{seed}/replicated/lag")
    groups = Random(f"{seed}/replicated/groups").choice((0, 0, 1, 3))
    return ReplicatedPlan(
        seed=seed,
        front_ends=random.choice((1, 2, 2, 3)),
        cells=cells,
        queues=queues,
        producers=random.choice((1, 2, 3)),
        consumers=random.choice((1, 2)),
        sends_each=random.choice((6, 12, 18)),
        climate=mild_climate(random),
        skew_us_max=random.choice((0, 50_000, 500_000, 2_500_000)),
        live_present=True,
        stamps=stamps,
        blob_threshold_bytes=None,
        bounds={
            **(SMALL_BOUNDS if random.random() < 0.4 else {}),
            **(FAIR_BOUNDS if groups else {}),
        },
        sequential=False,
        haste=HASTE,
        groups=groups,
        purges=random.random() < 0.15,
        drain=random.choice(("any", "one", "cold")),
        leaps_us=(),
        replication=replace(
            choose_replication(random, cells),
            looks=lag.choice((0.0, 0.0, 0.0, 0.5)),
            ships_every_us=lag.choice((1, 1, 1, 8)) * SECOND_US,
        ),
    )


def make_fifo_plan(seed: int) -> ReplicatedFifoPlan:
    """The plan of a seed: FIFO queues."""
    random = Random(f"{seed}/replicated-fifo/plan")
    cells = random.choice((2, 3, 3, 3, 4))
    front_ends, climate = random.choice((1, 2, 2, 3)), mild_climate(random)
    stalled = Random(f"{seed}/replicated-fifo/stalled").choice((0.0, 0.0, 0.004, 0.02))
    return ReplicatedFifoPlan(
        seed=seed,
        front_ends=front_ends,
        cells=cells,
        climate=replace(climate, weather=replace(climate.weather, stalled=stalled)),
        skew_us_max=random.choice((0, 50_000, 500_000, 2_500_000)),
        live_present=True,
        stamps=random.random() < 0.4,
        blob_threshold_bytes=None,
        bounds={**(SMALL_FIFO_BOUNDS if random.random() < 0.6 else {}), **HASTY_BOUNDS},
        sequential=False,
        haste=HASTE,
        queues=tuple(_fifo_queue(random, number) for number in range(random.choice((1, 1, 2)))),
        producers=random.choice((1, 2, 3)),
        consumers=random.choice((1, 2)),
        sends_each=random.choice((6, 12, 18)),
        groups_each=random.choice((1, 2, 4)),
        purges=random.random() < 0.15,
        drain=random.choice(("any", "one", "cold")),
        sleep_us=0,
        leaps_us=(),
        replication=choose_replication(random, cells),
    )


def _fifo_queue(random: Random, number: int) -> FifoQueuePlan:
    group_scope = random.random() < 0.5
    return FifoQueuePlan(
        name=f"q{number}.fifo",
        visibility_s=random.choice((1, 5, 30)),
        delay_s=random.choice((0, 0, 0, 4)),
        retention_s=345_600,
        raised_retention_s=None,
        content_based=random.random() < 0.2,
        group_scope=group_scope,
        high_throughput=group_scope and random.random() < 0.3,
        changes_throughput=group_scope and random.random() < 0.2,
    )


_PLACES: Final[tuple[tuple[object, Mapping[str, int]], ...]] = (
    (cached, {"MAP_AGE_US_MAX": MAP_AGE_US_MAX}),
    (copies, {"ITEMS_PER_STEP": ITEMS_PER_STEP, "COPY_US_MAX": COPY_US_MAX}),
    (unneeded, {"FULL_US_MIN": FULL_US_MIN}),
    (fifo_generations, {"PARTITIONS_MAX": PARTITIONS_MAX}),
    (takeover, {"TAKE_OVER_US_MAX": 10 * SECOND_US, "LOOK_EVERY_US": SECOND_US // 2}),
)


@contextmanager
def hasty_places() -> Iterator[None]:
    """Maps of cells grow old in a tenth of the time."""
    before = [(where, name, getattr(where, name)) for where, new in _PLACES for name in new]
    for where, new in _PLACES:
        for name, value in new.items():
            setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)
