"""Workers that turn an input into records of a stream, each of them once, as members of a group do.

One is the owner of the job, under an epoch. It puts what follows from the next inputs, with numbers
that follow from theirs, until all of that is stored, and then commits. Whoever takes over begins
behind what is committed; who was overtaken may not know it, and goes on.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.clients import Client
from tests.simulation.streams.plan import StreamsPlan
from tests.simulation.streams.reading import text_of

RECORDS_MAX: Final = 3
"""Of an input."""

_TRIES_MAX: Final = 4


@dataclass
class Job:
    """What a stream gets from so many inputs, one a `pause_us` or so; `committed` are done."""

    stream: str
    name: str
    inputs: int
    pause_us: int
    epoch: int = 0
    committed: int = 0
    told: list[tuple[str, int]] = field(default_factory=list)
    """Data that an answer called stored, and when that came."""

    def take_over(self) -> int:
        """The epoch of a new owner."""
        self.epoch += 1
        return self.epoch

    def commit(self, epoch: int, done: int) -> bool:
        """Note how far the owner is; False where it is the owner no more."""
        if epoch != self.epoch:
            return False
        self.committed = done
        return True

    def records(self, plan: StreamsPlan, first: int, behind: int) -> list[dict[str, Any]]:
        """What follows from these inputs: always the same."""
        return [
            {
                "Data": text_of(f"{self.name}.{self.stream}.{number}.{at}"),
                "PartitionKey": f"key{(number + at) % plan.keys}",
                "TidegateSequence": str(number * RECORDS_MAX + at),
            }
            for number in range(first, behind)
            for at in range(1 + number % RECORDS_MAX)
        ]


def jobs_of(plan: StreamsPlan) -> list[Job]:
    """For each stream one that puts often, and one whose last number is a while ago."""
    return [
        Job(stream, name, inputs, pause_us)
        for stream in plan.streams
        for name, inputs, pause_us in (
            ("often", 3 * plan.puts_each, 3_000_000),
            ("rarely", 6, 20_000_000),
        )
    ]


async def work(client: Client, plan: StreamsPlan, job: Job, until_us: int) -> None:
    """Take the job over, go on with it until another one does, and so on."""
    random = client.random
    epoch = done = 0
    while job.committed < job.inputs and client.world.scheduler.now_us < until_us:
        await client.pause(1_000, random.choice((20_000, job.pause_us, 5 * job.pause_us)))
        if not epoch:
            epoch, done = job.take_over(), job.committed
        behind = min(job.inputs, done + random.choice((1, 2, 5)))
        stored = await _put(client, job, epoch, job.records(plan, done, behind))
        if stored and job.commit(epoch, behind):
            done = behind
        else:
            epoch = 0
            await client.pause(1_000_000, 30_000_000)


async def _put(client: Client, job: Job, epoch: int, records: list[dict[str, Any]]) -> bool:
    """Put all of these, again and again; False where another one has taken over, or for long."""
    params = {
        "StreamName": job.stream,
        "Records": records,
        "TidegateProducerId": job.name,
        "TidegateProducerEpoch": epoch,
    }
    for _ in range(_TRIES_MAX if records else 0):
        output = await client.call("PutRecords", job.stream, params)
        if output is None:
            continue
        now_us = client.world.scheduler.now_us
        for record, result in zip(records, output["Records"], strict=True):
            if "ErrorCode" not in result:
                job.told.append((record["Data"], now_us))
        if not output["FailedRecordCount"]:
            return True
    return not records
