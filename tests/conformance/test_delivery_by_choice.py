"""At most once, at least once, exactly once: a consumer is killed at every step, and others go on.

What the second stream has is held to what the first one was given.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from tests.conformance.group_member import ARN, STREAM, Member, create, put, shard_name
from tests.conformance.in_process import InProcessServer

OUT = "invoices"
OUTPUTS = 2
"""Records that follow from one."""

INPUTS = [f"{number}" for number in range(3)]


class KilledError(Exception):
    """The consumer is gone, in the middle of its work."""


class Consumer:
    """A member of the group that is killed before its step of this number."""

    def __init__(self, server: InProcessServer, dies_before: int) -> None:
        self.kinesis = server.kinesis(extended=True)
        self.member = Member(self.kinesis)
        self.steps = count()
        self.dies_before = dies_before

    def step(self) -> None:
        if next(self.steps) == self.dies_before:
            raise KilledError

    def run(self, way: Callable[["Consumer", str, str, str], None]) -> None:
        """Read what is there, a record after the other, and go on `way`, to the end."""
        self.step()
        self.member.beat()
        for shard in self.member.owned:
            self.step()
            for number, text in self.member.read(shard):
                way(self, shard, number, text)

    def commit(self, shard: str, number: str) -> None:
        self.step()
        assert self.member.commit(shard, number)[1] == ""

    def process(self, shard: str, number: str, text: str, *, numbered: bool) -> None:
        """Put what follows from a record, each to a partition key of its own; a call for each."""
        for at in range(OUTPUTS):
            self.step()
            record = {"PartitionKey": f"{text}{at}", "Data": f"{text}.{at}".encode()}
            if not numbered:
                self.kinesis.put_records(StreamName=OUT, Records=[record])
                continue
            record["TidegateSequence"] = str(int(number) * OUTPUTS + at)
            self.kinesis.put_records(
                StreamName=OUT,
                TidegateProducerId=f"{self.member.group}/{ARN}/{shard}",
                TidegateProducerEpoch=self.member.owned[shard],
                Records=[record],
            )


def at_most_once(consumer: Consumer, shard: str, number: str, text: str) -> None:
    consumer.commit(shard, number)
    consumer.process(shard, number, text, numbered=False)


def at_least_once(consumer: Consumer, shard: str, number: str, text: str) -> None:
    consumer.process(shard, number, text, numbered=False)
    consumer.commit(shard, number)


def exactly_once(consumer: Consumer, shard: str, number: str, text: str) -> None:
    consumer.process(shard, number, text, numbered=True)
    consumer.commit(shard, number)


def outputs_after_kills(
    server: InProcessServer, way: Callable[[Consumer, str, str, str], None], dies_before: int
) -> Counter[str]:
    """What the second stream has when one was killed, and another one has done the rest."""
    kinesis = server.kinesis(extended=True)
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    kinesis.create_stream(StreamName=OUT, ShardCount=2)
    create(kinesis)
    for text in INPUTS:
        put(kinesis, text)
    with suppress(KilledError):
        Consumer(server, dies_before).run(way)
    # Nobody hears of the one that was killed, until its session is over.
    server.clock.advance(11)
    Consumer(server.another(), -1).run(way)
    return Counter(_texts(kinesis))


def _texts(kinesis: Any) -> Iterator[str]:
    for number in range(2):
        iterator = kinesis.get_shard_iterator(
            StreamName=OUT, ShardId=shard_name(number), ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for record in kinesis.get_records(ShardIterator=iterator)["Records"]:
            yield record["Data"].decode()


LEDGER = Counter(f"{text}.{at}" for text in INPUTS for at in range(OUTPUTS))
STEPS = range(2 + len(INPUTS) * (OUTPUTS + 1) + 1)
"""Before its first step, before each other one, and after the last."""


@pytest.mark.parametrize("dies_before", STEPS)
def test_at_most_once_nothing_comes_twice(server: InProcessServer, dies_before: int) -> None:
    found = outputs_after_kills(server, at_most_once, dies_before)
    assert found <= LEDGER
    assert sum((LEDGER - found).values()) <= OUTPUTS


@pytest.mark.parametrize("dies_before", STEPS)
def test_at_least_once_nothing_is_missing(server: InProcessServer, dies_before: int) -> None:
    found = outputs_after_kills(server, at_least_once, dies_before)
    assert found >= LEDGER
    assert sum((found - LEDGER).values()) <= OUTPUTS


@pytest.mark.parametrize("dies_before", STEPS)
def test_exactly_once_each_is_there_once(server: InProcessServer, dies_before: int) -> None:
    assert outputs_after_kills(server, exactly_once, dies_before) == LEDGER


def test_kills_show_how_the_ways_differ(server: InProcessServer) -> None:
    # In the middle of the first record: its first output is there, and nothing is committed.
    assert outputs_after_kills(server, at_least_once, 3) - LEDGER == Counter(["0.0"])
