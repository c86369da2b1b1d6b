"""What a seed means for a universe of FIFO queues; its chances are its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from tests.simulation.faults import FROZEN_US_MAX
from tests.simulation.faulty_cell import (
    DELAY_US_MAX,
    DUPLICATE_US_MAX,
    PATIENCE_US_MAX,
    SLOW_US_MAX,
    STALLED_US_MAX,
)
from tests.simulation.plan import Surroundings, dropping
from tests.simulation.weather import choose_climate
from tests.simulation.world import JUMP_US_MAX

SECOND_US = 1_000_000

SMALL_BOUNDS: Mapping[str, int] = {
    "BLOCK_FULL_MESSAGES": 8,
    "SEGMENT_MESSAGES_MAX": 12,
    "PAGE_SLOTS": 4,
    "PAGE_ENTRIES": 8,
    "PAGES_PER_QUERY": 2,
    "FETCH_ITEMS_MAX": 2,
    "FETCH_ROUNDS_MAX": 4,
    "QUERY_PAGE": 3,
    "GET_MANY_MAX": 4,
    "SCAN_MESSAGES_MAX": 24,
    "SEGMENTS_HELD_MAX": 2,
    "RANGE_SLOTS_MIN": 2,
    "RANGES_MAX": 2,
    "RANGES_LOOKED_AT_MAX": 5,
    "LOW_WATER_MESSAGES": 3,
    "REFRESH_BLOCKS_MAX": 2,
    "DUE_ENTRIES_MAX": 6,
    "COLLECT_BLOCKS_MAX": 2,
    "PARTITIONS_MAX": 20,
}
"""With these the overflow paths are reached within some hundred requests."""

HASTE = 10
HASTY_BOUNDS: Mapping[str, int] = {
    "WINDOW_US": 30 * SECOND_US,
    "TAIL_AGE_US_MAX": 6 * SECOND_US,
    "APPEND_AGE_US_MAX": 30 * SECOND_US,
    "COLLECT_AFTER_US": 60 * SECOND_US,
    "START_VALID_S": 360,
    "SLOT_TTL_SLACK_S": 360,
    "CLAIM_AGE_US_MAX": SECOND_US // 2,
    "ATTEMPT_US": 30 * SECOND_US,
}
"""A tenth of every age: what is done is collected, and duplicates are none any more, in time."""

DROPPING_TAIL_AGE_US = 6 * SECOND_US
"""Where purges are dropped: for so long front ends may go by an end of the log without them."""


@dataclass(frozen=True, slots=True)
class FifoQueuePlan:
    """A queue's attributes, and how they may change: a raised retention, another throughput."""

    name: str
    visibility_s: int
    delay_s: int
    retention_s: int
    raised_retention_s: int | None
    content_based: bool
    group_scope: bool
    high_throughput: bool
    changes_throughput: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoPlan(Surroundings):
    """See the module's docstring.

    Nothing happens for `sleep_us` before the queues are emptied, and for `leaps_us` before each
    further wave of messages. `drain` says through which front ends they are emptied at first.
    """

    queues: tuple[FifoQueuePlan, ...]
    producers: int
    consumers: int
    sends_each: int
    groups_each: int
    purges: bool
    drain: str
    sleep_us: int
    leaps_us: tuple[int, ...]

    @property
    def name(self) -> str:
        """Not that of a universe of standard queues."""
        return f"{self.seed}/fifo"


def make_fifo_plan(seed: int) -> FifoPlan:
    """The plan of a seed."""
    random = Random(f"{seed}/fifo/plan")
    sequential = random.random() < 0.1
    climate = choose_climate(random)
    while sequential and not climate.calm:
        climate = choose_climate(random)
    stamps = random.random() < 0.5
    hasty = not sequential and random.random() < 0.5
    if not climate.calm:
        weather = replace(
            climate.weather,
            slow=random.choice((0.0, 0.0, 0.1, 0.4)),
            retried=0.0 if stamps else random.choice((0.0, 0.05, 0.15)),
            stalled=random.choice((0.0, 0.0, 0.004, 0.02)) if hasty else 0.0,
        )
        climate = replace(climate, weather=weather)
    small = not sequential and random.random() < 0.6
    has_blobs = not stamps and random.random() < 0.3
    return FifoPlan(
        seed=seed,
        front_ends=1 if sequential else random.choice((1, 2, 2, 3)),
        cells=random.choice((1, 1, 2)),
        climate=climate,
        skew_us_max=random.choice((0, 50_000, 50_000, 2_000_000)),
        # Of cells that choose stamps, a front end of FIFO queues has to know the present.
        live_present=True,
        stamps=stamps,
        blob_threshold_bytes=random.choice((0, 90, 150)) if has_blobs else None,
        bounds={
            **(SMALL_BOUNDS if small else {}),
            **(HASTY_BOUNDS if hasty else {}),
            **({"BODY_BYTES_HELD_MAX": 60} if has_blobs else {}),
        },
        sequential=sequential,
        haste=HASTE if hasty else 1,
        queues=tuple(_queue(random, number) for number in range(random.choice((1, 1, 2)))),
        producers=random.choice((1, 2, 3)),
        consumers=random.choice((1, 2, 3)),
        sends_each=random.choice((4, 8, 16)),
        groups_each=random.choice((1, 2, 4)),
        purges=not sequential and random.random() < 0.25,
        drain=random.choice(("any", "one", "cold")),
        sleep_us=random.choice((0, 0, 0, 3_600, 90_000, 1_000_000)) * SECOND_US,
        leaps_us=tuple(
            random.choice((300, 3_600, 90_000, 400_000, 1_000_000)) * SECOND_US
            for _ in range(random.choice((0, 1, 1, 2)))
        ),
    )


def _queue(random: Random, number: int) -> FifoQueuePlan:
    group_scope = random.random() < 0.5
    retention_s = random.choice((60, 120, 3_600, 345_600, 345_600))
    return FifoQueuePlan(
        name=f"q{number}.fifo",
        visibility_s=random.choice((1, 5, 30)),
        delay_s=random.choice((0, 0, 0, 4)),
        retention_s=retention_s,
        raised_retention_s=random.choice((None, 2 * retention_s, 1_209_600)),
        content_based=random.random() < 0.2,
        group_scope=group_scope,
        high_throughput=group_scope and random.random() < 0.5,
        changes_throughput=group_scope and random.random() < 0.4,
    )


def make_fifo_dropping_plan(seed: int) -> FifoPlan:
    """The plan of a seed with purges, on cells that drop what was purged.

    Not before the last append has come that was decided without the purge: a slot that is dropped
    earlier is a free one to it. The shipped sweep waits for 15 minutes, or, where one process has
    the cells and no append comes late, for its requests (docs/storage.md, "Dropped after a purge").
    """
    plan = make_fifo_plan(seed)
    plan = replace(plan, sequential=False, purges=True)
    more = dropping(plan, Random(f"{seed}/fifo/dropping"))
    more["bounds"] = {**more["bounds"], "TAIL_AGE_US_MAX": DROPPING_TAIL_AGE_US}
    more["drops_after_us"] += DROPPING_TAIL_AGE_US + appended_late_us(plan)
    return replace(plan, **more)


def appended_late_us(plan: FifoPlan) -> int:
    """How long after it was decided an append may come, by two clocks of this universe."""
    weather, events = plan.climate.weather, plan.climate.events
    way_us = max(
        SLOW_US_MAX if weather.slow else 0, DELAY_US_MAX // plan.haste if weather.delay else 0
    )
    stands_us = max(
        STALLED_US_MAX // plan.haste if weather.stalled else 0,
        FROZEN_US_MAX if "freeze" in events else 0,
    )
    again_us = max(
        PATIENCE_US_MAX if weather.retried else 0,
        DUPLICATE_US_MAX // plan.haste if weather.duplicate else 0,
    )
    jump_us = max(3 * SECOND_US, JUMP_US_MAX // plan.haste) if "jump" in events else 0
    return 2 * (way_us + stands_us + max(plan.skew_us_max, jump_us)) + again_us
