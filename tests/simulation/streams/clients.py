"""Clients of streams: producers, readers that follow shards to their children, an operator."""

from random import Random
from typing import Any

from data_plane.core.stream import HASH_KEY_MAX
from tests.simulation.clients import PATIENCE_US, Client
from tests.simulation.streams.plan import StreamsPlan
from tests.simulation.streams.reading import Reading, text_of
from tests.simulation.streams.world import StreamsWorld

OPEN_SHARDS_MAX = 8
SHARD_LIMITS = (1, 3, 1_000)


async def create_streams(client: Client, plan: StreamsPlan) -> None:
    """What has to be there first."""
    for name in plan.streams:
        params = {"StreamName": name, "ShardCount": plan.shards}
        assert await client.call("CreateStream", name, params) is not None


async def produce(client: Client, plan: StreamsPlan, puts: int) -> None:
    """Put single records and batches, of which each says whose it is."""
    random = client.random
    for number in range(puts):
        await client.pause(1_000, random.choice((20_000, 3_000_000, 9_000_000)))
        stream = random.choice(plan.streams)
        records = [
            {
                "Data": text_of(f"{client.name}.{number}.{at}"),
                "PartitionKey": f"key{random.randrange(plan.keys)}",
            }
            for at in range(random.choice((1, 1, 3, 8)))
        ]
        if len(records) == 1:
            await client.call("PutRecord", stream, {"StreamName": stream, **records[0]})
        else:
            await client.call("PutRecords", stream, {"StreamName": stream, "Records": records})


async def read(
    client: Client, stream: str, until_us: int, *, to_the_end: bool = False
) -> Reading | None:
    """Read the stream from its oldest record on; None where not even its shards are told.

    To the end: until nothing is behind what was read of any shard.
    """
    world, random = client.world, client.random
    assert isinstance(world, StreamsWorld)
    client.patience_us_min = max(PATIENCE_US)
    reading = Reading(client.name, stream, world.scheduler.now_us)
    listed = await client.call("ListShards", stream, {"StreamName": stream})
    if listed is None:
        return None
    reading.begin(listed["Shards"])
    world.readings.append(reading)
    empty: set[int] = set()
    while world.scheduler.now_us < until_us:
        for shard in list(reading.waiting):
            output = await _page(client, reading, shard, random)
            if output is None:
                continue
            reading.take(shard, output)
            if output["Records"] or "NextShardIterator" not in output:
                empty.discard(shard)
            else:
                empty.add(shard)
        if to_the_end and empty >= reading.waiting.keys():
            reading.ended_us = world.scheduler.now_us
            return reading
        if not to_the_end:
            await client.pause(1_000, random.choice((50_000, 2_000_000, 6_000_000)))
    return reading


async def _page(
    client: Client, reading: Reading, shard: int, random: Random
) -> dict[str, Any] | None:
    """The next page of a shard; None where nobody tells, or it is refused."""
    iterator = reading.waiting[shard]
    if iterator is None:
        found = await client.call(
            "GetShardIterator",
            reading.stream,
            {
                "StreamName": reading.stream,
                "ShardId": f"shardId-{shard:012}",
                "ShardIteratorType": "TRIM_HORIZON",
            },
        )
        if found is None:
            return None
        iterator = reading.waiting[shard] = found["ShardIterator"]
    params: dict[str, Any] = {"ShardIterator": iterator, "Limit": random.choice(SHARD_LIMITS)}
    output = await client.call("GetRecords", reading.stream, params)
    return None if output is None else dict(output)


async def reshard(client: Client, plan: StreamsPlan, until_us: int) -> None:
    """Split, merge, and change the number of shards, now and then."""
    random = client.random
    while plan.reshards_us:
        await client.pause(1, 2 * plan.reshards_us)
        if client.world.scheduler.now_us >= until_us:
            return
        stream = random.choice(plan.streams)
        params = {"StreamName": stream, "ShardFilter": {"Type": "AT_LATEST"}}
        listed = await client.call("ListShards", stream, params)
        if listed is None:
            continue
        await _change(client, stream, listed["Shards"])


async def _change(client: Client, stream: str, shards: list[Any]) -> None:
    random = client.random
    ranges = sorted(
        (int(shard["HashKeyRange"]["StartingHashKey"]), shard["ShardId"]) for shard in shards
    )
    how = random.choice(("split", "merge", "count"))
    named = {"StreamName": stream}
    if how == "count":
        target = random.choice((len(ranges) * 2, max(1, len(ranges) // 2)))
        if target <= OPEN_SHARDS_MAX:
            params = {"TargetShardCount": target, "ScalingType": "UNIFORM_SCALING"}
            await client.call("UpdateShardCount", stream, {**named, **params})
    elif how == "split" and len(ranges) < OPEN_SHARDS_MAX:
        at = random.randrange(len(ranges))
        first, shard = ranges[at]
        behind = ranges[at + 1][0] if at + 1 < len(ranges) else HASH_KEY_MAX + 1
        params = {"ShardToSplit": shard, "NewStartingHashKey": str((first + behind) // 2)}
        await client.call("SplitShard", stream, {**named, **params})
    elif how == "merge" and len(ranges) > 1:
        at = random.randrange(len(ranges) - 1)
        params = {"ShardToMerge": ranges[at][1], "AdjacentShardToMerge": ranges[at + 1][1]}
        await client.call("MergeShards", stream, {**named, **params})
