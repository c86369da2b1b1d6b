"""A store full of records: their owner frees it by the service's own calls, and uses it again."""

import asyncio
import base64
from pathlib import Path
from random import Random

import pytest

from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import Key
from data_plane.replication.chain import Chain
from data_plane.stored.keys import is_of_shard
from tests.conformance.test_full_store import CELLS, UNDER_WAY, Site, fill_up, play

KINESIS = "Kinesis_20131202"
DAY_S = 86_400
RECORD_BYTES = 22_500
GREAT_BYTES = 3 * 1024 * 1024
NOTHING = Key("M|nobody", b"")


async def ask(site: Site, operation: str, **params: object) -> int:
    status, answer = await site.call(operation, KINESIS, **params)
    assert status in {200, 503}, answer
    return status


async def put(site: Site, name: str, number: int) -> int:
    data = base64.b64encode(Random(number).randbytes(RECORD_BYTES)).decode()
    return await ask(site, "PutRecord", StreamName=name, Data=data, PartitionKey="k")


async def fill(site: Site, name: str) -> int:
    """Put until nothing is taken any more: how many were taken."""
    taken = 0
    while True:
        statuses = await asyncio.gather(*(put(site, name, taken + n) for n in range(10)))
        taken += statuses.count(200)
        if 200 not in statuses:
            return taken


async def collect(site: Site) -> None:
    for cell in site.cells.values():
        while await cell.collect(site.clock.now_us() // 1_000_000, 100):
            pass


async def create(site: Site, name: str, **more: object) -> None:
    assert await ask(site, "CreateStream", StreamName=name, ShardCount=1, **more) == 200


@CELLS
def test_what_streams_have_stored_is_counted(tmp_path: Path, names: str) -> None:
    async def story(site: Site) -> None:
        await create(site, "big")
        await create(site, "small")
        await site.create("queue")
        for number in range(20):
            assert await put(site, "big", number) == 200
        assert await put(site, "small", 0) == 200
        assert await site.send("queue") == 200
        stored = site.stored_bytes()
        await stored.measure()
        found = [
            await site.service.streams.registry.find("000000000000", "us-east-1", name)
            for name in ("big", "small")
        ]
        sizes = [await stored.of_one(stream) for stream in found if stream is not None]
        assert sizes == pytest.approx([20 * RECORD_BYTES, RECORD_BYTES], rel=0.1)
        queue = await site.queue("queue")
        whole = await stored.of_account(queue)
        assert whole == sum(sizes) + await stored.of_one(queue)
        await ask(site, "DeleteStream", StreamName="big")
        await site.drop_all()
        await stored.measure()
        assert await stored.of_account(queue) == whole - sizes[0]

    play(tmp_path, names, story, fifo=False)


@CELLS
def test_a_deletion_frees_a_store_full_of_records(tmp_path: Path, names: str) -> None:
    async def story(site: Site) -> None:
        await create(site, "big")
        filled = await fill(site, "big")
        assert any(site.full)
        used_bytes = site.used_bytes
        assert await ask(site, "DeleteStream", StreamName="big") == 200
        assert await site.drop_all() > 0
        assert site.used_bytes < used_bytes / 3
        await create(site, "big")
        assert await fill(site, "big") > filled * 0.8

    play(tmp_path, names, story, fifo=False)


@CELLS
def test_a_lowered_retention_frees_a_store_full_of_records(tmp_path: Path, names: str) -> None:
    async def story(site: Site) -> None:
        await create(site, "big", TidegateRetentionHoursMax=8_760)
        increase = "IncreaseStreamRetentionPeriod"
        assert await ask(site, increase, StreamName="big", RetentionPeriodHours=8_760) == 200
        filled = await fill(site, "big")
        assert any(site.full)
        used_bytes = site.used_bytes
        site.clock.advance(2 * DAY_S)
        upkeep = site.service.streams.upkeep
        await upkeep.step()
        await collect(site)
        assert site.used_bytes > used_bytes / 2, "it is to be kept for a year"
        decrease = "DecreaseStreamRetentionPeriod"
        assert await ask(site, decrease, StreamName="big", RetentionPeriodHours=24) == 200
        await upkeep.step()
        for cell in site.cells.values():
            await cell.delete(NOTHING)  # what nobody waits for goes with the next write
        site.clock.advance(60)
        assert await fill(site, "big") > filled * 0.7
        assert site.used_bytes < used_bytes * 1.1

    play(tmp_path, names, story, fifo=False)


async def slots(cell: EmbeddedCell) -> int:
    """How many slots of shards lie in a cell."""
    logs = [name for name in cell.partitions("N|", 100) if is_of_shard(name)]
    return sum([len(await cell.query(name, limit=100)) for name in logs])


@UNDER_WAY
def test_records_beside_a_full_cell_are_stored_in_all_or_in_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, under_way: bool
) -> None:
    async def story(site: Site) -> None:
        await create(site, "big")
        assert await put(site, "big", 0) == 200
        await fill_up(site.cells["c"])
        assert site.full == [False, False, True]
        if under_way:
            monkeypatch.setattr(Chain, "has_room", lambda *_: True)
        assert {await put(site, "big", number) for number in range(1, 6)} == {
            200 if under_way else 503
        }
        entries = [{"Data": "eA==", "PartitionKey": "k"}] * 2
        status, answer = await site.call("PutRecords", KINESIS, StreamName="big", Records=entries)
        assert (status, answer.get("FailedRecordCount")) == ((200, 0) if under_way else (503, None))
        stored = {await slots(cell) for cell in site.cells.values()}
        assert stored == {7 if under_way else 1}

    play(tmp_path, "abc", story, fifo=False)


def test_a_great_record_beside_a_nearly_full_cell_is_stored_in_none(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await create(site, "big")
        _, summary = await site.call("DescribeStreamSummary", KINESIS, StreamName="big")
        arn = summary["StreamDescriptionSummary"]["StreamARN"]
        assert (
            await ask(site, "UpdateMaxRecordSize", StreamARN=arn, MaxRecordSizeInKiB=4_096) == 200
        )
        nearly_full = site.cells["c"]
        await fill_up(nearly_full, lambda: nearly_full.room().takes <= GREAT_BYTES * 0.9)
        assert site.full == [False, False, False]
        data = base64.b64encode(Random(0).randbytes(GREAT_BYTES)).decode()
        great = {"StreamName": "big", "Data": data, "PartitionKey": "k"}
        assert await ask(site, "PutRecord", **great) == 503
        assert await put(site, "big", 1) == 200
        assert [await slots(cell) for cell in site.cells.values()] == [1, 1, 1]

    play(tmp_path, "abc", story, fifo=False)
