"""What a seed means for a universe of queues of the Kinesis API; its chances are its own."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests.simulation.replicated.plan import SECOND_US
from tests.simulation.stream_queues.plan import consumed, fields_of
from tests.simulation.streams.plan import StreamsPlan, make_streams_plan
from tests.simulation.weather import Weather

CALM: Final = Weather(lost_answer=0.05)
"""What is done is done once, though clients do not always learn of it."""


@dataclass(frozen=True, slots=True)
class KinesisQueuePlan:
    """A queue over a stream on demand.

    What was received `dies_after` times is a dead letter (0: nothing is). One that is `late` is
    made while records are put, and begins with what comes.
    """

    name: str
    stream: str
    visibility_s: int
    dies_after: int
    late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisQueuesPlan(StreamsPlan):
    """As StreamsPlan, with queues over its streams, and so many consumers instead of readers.

    Every `changes_us` or sooner an operator changes a MaxReceiveCount (0: never). In `calm`
    universes no request to a cell fails, and no process ends; in some of them all is stored once.
    """

    queues: tuple[KinesisQueuePlan, ...]
    consumers: int
    changes_us: int
    calm: bool

    @property
    def is_exact(self) -> bool:
        """Whether a count is to be what is there, and whoever did something says so.

        Members of a chain count what they are told of, and are not told of a write that a later one
        to the same block has overtaken. And a front end that stood still repeats a write by a newer
        map: where others have written since, it finds that it did nothing.
        """
        return self.calm and self.replication.factor == 1

    @property
    def name(self) -> str:
        """Not that of a universe of streams alone."""
        kind = " calm" if self.calm else "" if self.replication.loss else " mild"
        return f"{self.seed}/kinesis queues{kind}"


def make_kinesis_queues_plan(seed: int, *, loses: bool = False) -> KinesisQueuesPlan:
    """The plan of a seed: cells stay as they are, or fail, and one is lost in the end."""
    random = Random(f"{seed}/kinesis queues/plan")
    plan = consumed(random, make_streams_plan(seed, "/kinesis queues"), loses=loses)
    calm = not loses and random.random() < 0.5
    if calm:
        factor = random.choice((1, plan.replication.factor))
        plan = replace(
            plan,
            climate=replace(plan.climate, weather=CALM),
            replication=replace(plan.replication, strikes=("expiry",), factor=factor),
        )
    queues = [_queue(random, number, plan.streams) for number in range(random.choice((1, 2)))]
    return KinesisQueuesPlan(
        **fields_of(plan),
        queues=tuple(queues),
        consumers=random.choice((0, 1, 2, 2, 3, 3, 3, 3)),
        changes_us=random.choice((0, 0, 10, 40)) * SECOND_US,
        calm=calm,
    )


def _queue(random: Random, number: int, streams: tuple[str, ...]) -> KinesisQueuePlan:
    return KinesisQueuePlan(
        name=f"k{number}",
        stream=random.choice(streams),
        visibility_s=random.choice((1, 2, 5, 30)),
        dies_after=random.choice((0, 1, 1, 2, 2, 3)),
        late=random.random() < 0.3,
    )
