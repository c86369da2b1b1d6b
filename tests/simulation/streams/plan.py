"""What a seed means for a universe of streams; its chances are its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests.simulation.fifo.plan import HASTE
from tests.simulation.replicated.plan import (
    SECOND_US,
    ChainsPlan,
    choose_replication,
    mild_climate,
)

HOUR_US: Final = 3_600 * SECOND_US
RETENTION_US: Final = 24 * HOUR_US
"""The least that a stream may have."""

BOUNDS: Final[Mapping[str, int]] = {
    "TAIL_AGE_US_MAX": 6 * SECOND_US,
    "APPEND_AGE_US_MAX": 30 * SECOND_US,
}
"""A tenth of the ages of writers."""

SMALL_BOUNDS: Final[Mapping[str, int]] = {
    "SLOT_RECORDS_MAX": 3,
    "SLOT_BYTES_MAX": 120,
    "READ_ITEMS_MAX": 3,
    "READ_BYTES_MAX": 200,
    "QUERY_PAGE": 3,
    "PARTS_HELD_MAX": 5,
    "PARTS_HELD_TOGETHER_BYTES_MAX": 5_000,
}
"""With these calls take several slots, reads several pages, and few calls are remembered."""

LEAPS: Final[tuple[tuple[int, ...], ...]] = (
    (),
    (20 * HOUR_US, 7 * HOUR_US),
    (30 * HOUR_US, 40 * HOUR_US),
    (60 * HOUR_US, 26 * HOUR_US),
)
"""Within a day anchors are renewed; after more nobody knows what was appended behind them."""

KEPT_HOURS: Final = ((48, 0), (48, 24), (72, 36), (0, 48), (30, 48))
"""See StreamsPlan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsPlan(ChainsPlan):
    """See the module's docstring.

    Each producer makes `puts_each` calls with records of so many `keys`; `readers` read meanwhile,
    and shards are split and merged every `reshards_us` or sooner (0: never). At the end the clocks
    of front ends are wrong by `looks_wrong_us` while records expire, and then `leaps_us` pass, each
    followed by more records. Where records are `numbered`, the producers do one job for each stream
    instead, in turns. Where they are `kept_hours`, the retention becomes the first of these while
    the streams are used, and the second after a day (0: it stays).
    """

    streams: tuple[str, ...]
    shards: int
    producers: int
    readers: int
    puts_each: int
    keys: int
    reshards_us: int
    drain: str
    looks_wrong_us: int
    leaps_us: tuple[int, ...]
    numbered: bool = False
    kept_hours: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """Not that of a universe of queues."""
        kind = " numbered" if self.numbered else " kept" if any(self.kept_hours) else ""
        return f"{self.seed}/streams{kind}"


def make_numbered_plan(seed: int) -> StreamsPlan:
    """The plan of a seed in which producers number their records."""
    plan = make_streams_plan(seed, "/numbered")
    return replace(
        plan,
        numbered=True,
        producers=max(2, plan.producers),
        bounds={**plan.bounds, "PRODUCER_SLOTS_MAX": 4},
        leaps_us=(),
    )


def make_kept_plan(seed: int) -> StreamsPlan:
    """The plan of a seed in which retentions are raised, and lowered."""
    plan = make_streams_plan(seed, "/kept")
    kept_hours = Random(f"{seed}/streams/kept").choice(KEPT_HOURS)
    return replace(plan, kept_hours=kept_hours, leaps_us=())


def make_streams_plan(seed: int, kind: str = "") -> StreamsPlan:
    """The plan of a seed."""
    random = Random(f"{seed}/streams/plan{kind}")
    cells = random.choice((2, 3, 3, 3, 4))
    climate = mild_climate(random)
    stalled = random.choice((0.0, 0.0, 0.004, 0.02))
    return StreamsPlan(
        seed=seed,
        front_ends=random.choice((1, 2, 2, 3)),
        cells=cells,
        climate=replace(climate, weather=replace(climate.weather, stalled=stalled)),
        skew_us_max=random.choice((0, 50_000, 500_000, 2_500_000)),
        live_present=True,
        stamps=random.random() < 0.4,
        blob_threshold_bytes=None,
        bounds={**(SMALL_BOUNDS if random.random() < 0.6 else {}), **BOUNDS},
        sequential=False,
        haste=HASTE,
        streams=("clicks", "orders")[: random.choice((1, 1, 2))],
        shards=random.choice((1, 1, 2, 3)),
        producers=random.choice((1, 2, 3)),
        readers=random.choice((0, 1, 2)),
        puts_each=random.choice((6, 12, 18)),
        keys=random.choice((1, 2, 6)),
        reshards_us=random.choice((0, 5, 20, 40)) * SECOND_US,
        drain=random.choice(("any", "one", "cold")),
        looks_wrong_us=random.choice((0, 20, 250)) * SECOND_US,
        leaps_us=random.choice(LEAPS),
        replication=choose_replication(random, cells),
    )
