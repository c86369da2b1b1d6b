"""What a seed means for a universe of queues over streams; its chances are its own."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any, Final

from tests.simulation.fifo.plan import HASTY_BOUNDS
from tests.simulation.replicated.plan import SECOND_US
from tests.simulation.streams.plan import KEPT_HOURS, StreamsPlan, make_streams_plan
from tests.simulation.weather import Weather

MILD_STRIKES: Final = ("front end frozen", "front end restarts", "clock", "expiry", "old map")
"""Those that leave the cells alone."""

SMALL_READER_BOUNDS: Final[Mapping[str, int]] = {
    "BLOCK_FULL_MESSAGES": 8,
    "WINDOW_ENTRIES_MAX": 4,
    "WINDOW_MESSAGES_MAX": 12,
    "DUE_ENTRIES_MAX": 48,
    "LOW_WATER_MESSAGES": 4,
    "FETCH_ITEMS_MAX": 2,
    "FETCH_ROUNDS_MAX": 2,
}
"""With these a slot lies in several blocks, and reads take several rounds."""


HALF_WAY_BOUNDS: Final[Mapping[str, int]] = {
    "WINDOW_US": HASTY_BOUNDS["WINDOW_US"],
    "MOVE_LEASE_MS": 40_000,
}
"""With these the copy of a move that nobody went on with is no duplicate any more."""


@dataclass(frozen=True, slots=True)
class StreamQueuePlan:
    """A queue over a stream.

    It moves what was received `receives_max` times to its dead-letter queue (0: it has none). One
    that is `late` is made while records are put, and begins with what comes.
    """

    name: str
    stream: str
    visibility_s: int
    receives_max: int
    late: bool

    @property
    def fifo(self) -> bool:
        """Whether it keeps the order of keys."""
        return self.name.endswith(".fifo")

    @property
    def dead(self) -> str:
        """The name of its dead-letter queue, which is of its kind."""
        return f"dead-{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamQueuesPlan(StreamsPlan):
    """As StreamsPlan, with queues over its streams, and so many consumers instead of readers.

    In some universes front ends stop `half_way` with what they move; in others somebody `purges`.
    """

    queues: tuple[StreamQueuePlan, ...]
    consumers: int
    half_way: bool = False
    purges: bool = False

    @property
    def name(self) -> str:
        """Not that of a universe of streams alone."""
        kind = " half way" if self.half_way else "" if self.replication.loss else " mild"
        kind += " purged" if self.purges else " kept" if any(self.kept_hours) else ""
        return f"{self.seed}/stream queues{kind}"


def make_stream_queues_plan(seed: int, *, loses: bool = False) -> StreamQueuesPlan:
    """The plan of a seed: cells stay as they are, or fail, and one is lost in the end."""
    random = Random(f"{seed}/stream queues/plan")
    plan = consumed(random, make_streams_plan(seed, "/stream queues"), loses=loses)
    queues = [_queue(random, number, plan.streams) for number in range(random.choice((1, 1, 2)))]
    return StreamQueuesPlan(
        **fields_of(plan), queues=tuple(queues), consumers=random.choice((0, 1, 2, 2, 3))
    )


def make_purged_plan(seed: int) -> StreamQueuesPlan:
    """The plan of a seed in which somebody purges queues; in every third universe cells fail."""
    plan = make_stream_queues_plan(seed, loses=seed % 3 == 0)
    return replace(plan, purges=True)


def make_kept_plan(seed: int) -> StreamQueuesPlan:
    """The plan of a seed in which retentions of streams change, and nothing is a dead letter."""
    plan = make_stream_queues_plan(seed)
    queues = tuple(replace(queue, receives_max=0, late=False) for queue in plan.queues)
    kept_hours = Random(f"{seed}/stream queues/kept").choice(KEPT_HOURS)
    return replace(plan, queues=queues, kept_hours=kept_hours)


def consumed(random: Random, plan: StreamsPlan, *, loses: bool) -> StreamsPlan:
    """The plan, for queues that read its streams: cells stay as they are, or fail."""
    return replace(
        plan,
        replication=replace(
            plan.replication,
            loss=random.choice(("first", "last")) if loses else "",
            strikes=plan.replication.strikes if loses else MILD_STRIKES,
            unasked=plan.replication.unasked if loses else 0.0,
        ),
        readers=0,
        puts_each=random.choice((6, 12, 18)),
        producers=random.choice((1, 2, 3)),
        bounds={**plan.bounds, **(SMALL_READER_BOUNDS if random.random() < 0.6 else {})},
    )


def fields_of(plan: StreamsPlan) -> dict[str, Any]:
    """What a plan with queues has of it."""
    return {field.name: getattr(plan, field.name) for field in fields(StreamsPlan)}


def make_half_way_plan(seed: int) -> StreamQueuesPlan:
    """The plan of a seed in which front ends end in the midst of what they do, and cells stay.

    There is one key, so that nothing is moved behind a record whose move was left half way, until
    somebody goes on with that.
    """
    plan = make_stream_queues_plan(seed)
    queue = replace(
        plan.queues[0],
        name="q0.fifo",
        stream=plan.streams[0],
        visibility_s=1,
        receives_max=1,
        late=False,
    )
    return replace(
        plan,
        half_way=True,
        front_ends=3,
        bounds={**plan.bounds, **HALF_WAY_BOUNDS},
        climate=replace(plan.climate, weather=Weather(crash=0.01)),
        streams=plan.streams[:1],
        shards=1,
        keys=1,
        reshards_us=0,
        producers=1,
        queues=(queue,),
        consumers=3,
        replication=replace(
            plan.replication,
            factor=min(plan.cells, 3),
            strikes=("front end restarts",),
            between_strikes_us=10 * SECOND_US,
        ),
    )


def _queue(random: Random, number: int, streams: tuple[str, ...]) -> StreamQueuePlan:
    return StreamQueuePlan(
        name=f"q{number}{random.choice(('', '.fifo', '.fifo'))}",
        stream=random.choice(streams),
        visibility_s=random.choice((1, 5, 30)),
        receives_max=random.choice((0, 0, 1, 3)),
        late=random.random() < 0.4,
    )
