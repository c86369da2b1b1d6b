"""Records that their producer numbers are stored once, through splits and merges."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.errors import FENCED_PRODUCER, INVALID_ARGUMENT, RefusedError
from data_plane.core.stream import HASH_KEY_MAX, Shard, Stream
from data_plane.operations.put_records import Puts, put_records
from data_plane.protocol.operation import Call
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.streams.reading import Place
from tests.unit.data_plane.streams.conftest import HALF, Bench

LOW, HIGH = 0, HASH_KEY_MAX
Entry = tuple[int, int]
"""A record's hash key and number."""


class Site:
    """PutRecords over one cell; `stream` is as it is known now."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.stream = self.bench.stream

    async def find(self, *_name: str) -> Stream:
        return self.stream

    async def renewed(self, _stream: Stream) -> Stream:
        return self.stream

    def put(self, *entries: Entry, producer: str | None = "p", **more: Any) -> list[str]:
        """What became of each: the number of its shard, `before`, or an error."""
        records = [
            {
                "PartitionKey": "k",
                "ExplicitHashKey": str(hash_key),
                "Data": b"%d" % sequence,
                "TidegateSequence": str(sequence),
            }
            for hash_key, sequence in entries
        ]
        output = self.put_entries(records, TidegateProducerId=producer, **more)
        return [_said(one) for one in output["Records"]]

    def put_entries(self, entries: Sequence[dict[str, Any]], **more: Any) -> Any:
        params = {"StreamName": "clicks", "Records": entries, **more}
        call = Call("r", "123456789012", "eu-central-1", "", 1, params, invocation_id="i")
        # A front end that knows nothing, each time.
        engine = self.bench.front_end()
        puts = Puts(engine, self, EventLoopWaits(self.bench.clock))

        async def perform() -> Any:
            return await put_records(puts).perform(call)

        return asyncio.run(perform())

    def close(self, *numbers: int) -> None:
        """End these shards, and let the next number be their child, or children."""
        shards = {one.number: one for one in self.stream.shards}
        engine = self.bench.front_end()
        for number in numbers:
            ended_us = asyncio.run(engine.close(self.stream, shards[number]))
            shards[number] = shards[number]._replace(closed_us=ended_us)
        made_s = self.bench.clock.now_us() // 1_000_000
        first, last = shards[numbers[0]].first_hash, shards[numbers[-1]].last_hash
        following = len(shards)
        if len(numbers) > 1:
            shards[following] = Shard(following, first, last, made_s, *numbers)
        else:
            middle = (first + last + 1) // 2
            parent = numbers[0]
            shards[following] = Shard(following, first, middle - 1, made_s, parent)
            shards[following + 1] = Shard(following + 1, middle, last, made_s, parent)
        self.stream = replace(self.stream, shards=tuple(shards.values()))

    def texts(self) -> list[str]:
        """All that is stored."""
        engine = self.bench.front_end()

        async def read(shard: Shard) -> list[str]:
            page = await engine.read(self.stream, shard, Place(1), records_max=1_000)
            return [record.data.decode() for record in page.records]

        return [text for shard in self.stream.shards for text in asyncio.run(read(shard))]


def _said(result: dict[str, Any]) -> str:
    if result.get("TidegateStoredBefore"):
        assert "SequenceNumber" not in result
        return "before"
    return str(int(result["ShardId"][-3:])) if "ShardId" in result else str(result["ErrorCode"])


def test_a_split_forgets_nothing() -> None:
    site = Site()
    assert site.put((LOW, 1), (HALF - 1, 2)) == ["0", "0"]
    site.close(0)
    assert site.put((LOW, 1), (HALF - 1, 2), (HALF - 1, 3)) == ["before", "before", "3"]
    site.close(3)
    assert site.put((HALF - 1, 2), (HALF - 1, 3), (HALF - 1, 4)) == ["before", "before", "5"]
    assert sorted(site.texts()) == ["1", "2", "3", "4"]


def test_of_a_merge_each_parent_says_what_it_has() -> None:
    site = Site()
    assert site.put((LOW, 10)) == ["0"]
    # The record with 15 did not reach its shard; that with 20 did.
    assert site.put((HIGH, 20)) == ["1"]
    site.close(0, 1)
    put = site.put((LOW, 10), (LOW, 15), (HIGH, 20), (LOW, 25))
    assert put == ["before", "2", "before", "2"]
    assert site.put((LOW, 10), (LOW, 15), (HIGH, 20), (LOW, 25)) == ["before"] * 4
    assert sorted(site.texts()) == ["10", "15", "20", "25"]


def test_a_parent_fences_its_childrens_producers() -> None:
    site = Site()
    site.put((LOW, 1), TidegateProducerEpoch=2)
    site.close(0)
    with pytest.raises(RefusedError) as refused:
        site.put((LOW, 2), TidegateProducerEpoch=1)
    assert refused.value.fault is FENCED_PRODUCER


def test_in_part_of_the_shards_a_producer_may_be_fenced() -> None:
    site = Site()
    site.put((LOW, 1), TidegateProducerEpoch=2)
    output = site.put((LOW, 2), (HIGH, 3), TidegateProducerEpoch=1)
    assert output == ["TidegateFencedProducer", "1"]


def test_producers_of_other_names_share_nothing() -> None:
    site = Site()
    assert site.put((LOW, 1)) == ["0"]
    assert site.put((LOW, 1), producer="other") == ["0"]


@pytest.mark.parametrize(
    ("sequences", "producer", "told"),
    [
        (("1", None), "p", "each record has a TidegateSequence"),
        ((None, None), "p", "each record has a TidegateSequence"),
        (("1", "2"), None, "without it none has one"),
        (("2", "2"), "p", "has to be above"),
        (("3", "2"), "p", "has to be above"),
    ],
)
def test_numbers_that_are_none(
    sequences: tuple[str | None, ...], producer: str | None, told: str
) -> None:
    site = Site()
    entries = [
        {"PartitionKey": "k", "Data": b"", **({"TidegateSequence": one} if one else {})}
        for one in sequences
    ]
    more = {"TidegateProducerId": producer} if producer else {}
    with pytest.raises(RefusedError, match=told) as refused:
        site.put_entries(entries, **more)
    assert refused.value.fault is INVALID_ARGUMENT
    assert site.texts() == []


def test_a_stream_that_spreads_has_no_numbers() -> None:
    site = Site()
    site.stream = replace(site.stream, spreads=True)
    with pytest.raises(RefusedError, match="distributes records by itself"):
        site.put((LOW, 1))
