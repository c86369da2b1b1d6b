"""Records as big as a stream may let them be, which no compression makes smaller."""

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from control_plane.service import OPERATOR
from data_plane.core.limits import PARTITION_KEY_CHARS_MAX, RECORD_KIB_MAX
from data_plane.ports import Attributes, Item
from data_plane.replication.copying import Position, copy_some
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Member
from data_plane.stored import keys
from data_plane.stored.merging import lacking
from data_plane.streams.bounds import PRODUCED_BYTES, PRODUCER_SLOTS_MAX, PRODUCERS_MAX
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.embedded_cell import embedded
from tests.conformance.runners import RUNNERS
from tests.conformance.test_full_store import CELLS, Site, opened

KINESIS = "Kinesis_20131202"
NAME = "clicks"
RECORD_BYTES_MAX = RECORD_KIB_MAX * 1024
KEY = "\N{GRINNING FACE}" * PARTITION_KEY_CHARS_MAX
DATA_BYTES_MAX = RECORD_BYTES_MAX - len(KEY.encode())
ENCRYPTED = pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])


def random_bytes(size_bytes: int, seed: int) -> bytes:
    return Random(seed).randbytes(size_bytes)


GREAT = random_bytes(DATA_BYTES_MAX, 1)
PARTS = [random_bytes(DATA_BYTES_MAX - 3 * 1_500_000 - 100, 2)] + [
    random_bytes(1_500_000, seed) for seed in (3, 4, 5)
]
"""The greatest call: with the first one's key, and those of the others, it has 10 MiB."""


async def ask(site: Site, operation: str, **params: Any) -> dict[str, Any]:
    status, answer = await site.call(operation, KINESIS, **params)
    assert status == 200, (operation, status, answer)
    return answer


def entry(data: bytes, key: str) -> dict[str, str]:
    return {"Data": base64.b64encode(data).decode(), "PartitionKey": key}


async def make_stream(site: Site, *, encrypted: bool = False) -> None:
    await ask(site, "CreateStream", StreamName=NAME, ShardCount=1)
    arn = (await ask(site, "DescribeStreamSummary", StreamName=NAME))["StreamDescriptionSummary"]
    limit = {"StreamARN": arn["StreamARN"], "MaxRecordSizeInKiB": RECORD_KIB_MAX}
    await ask(site, "UpdateMaxRecordSize", **limit)
    if encrypted:
        key = {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}
        await ask(site, "StartStreamEncryption", StreamName=NAME, **key)


async def read_all(site: Site) -> list[tuple[str, bytes]]:
    """What the stream has, page by page."""
    start = {"ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    answer = await ask(site, "GetShardIterator", StreamName=NAME, **start)
    iterator = answer["ShardIterator"]
    found: list[tuple[str, bytes]] = []
    while True:
        page = await ask(site, "GetRecords", ShardIterator=iterator)
        iterator = page["NextShardIterator"]
        records = [(one["PartitionKey"], base64.b64decode(one["Data"])) for one in page["Records"]]
        if not records:
            return found
        assert len(records) == 1 or sum(len(data) for _, data in records) <= RECORD_BYTES_MAX
        found += records


async def partition_of_shard(site: Site) -> str:
    """That of the stream's only one."""
    stream = await site.service.streams.registry.find(OPERATOR, "us-east-1", NAME)
    assert stream is not None
    return keys.records(stream.uid, 0)


async def read_on(cell: MemberCell, partition: str) -> list[Item]:
    """All items of a partition."""
    found: list[Item] = []
    while page := await cell.query(
        partition, after=found[-1].key.sort if found else b"", limit=100
    ):
        found += page
    return found


def play(folder: Path, names: str, story: Any) -> None:
    async def main() -> None:
        async with opened(folder, names, fifo=False) as site:
            await story(site)

    asyncio.run(main())


def small_ones(first: int) -> Sequence[tuple[str, bytes]]:
    return [(f"k{n}", b"small %d" % n) for n in range(first, first + 10)]


@CELLS
@ENCRYPTED
def test_the_greatest_records_are_stored_beside_small_ones(
    tmp_path: Path, names: str, *, encrypted: bool
) -> None:
    async def story(site: Site) -> None:
        await make_stream(site, encrypted=encrypted)
        before, after = small_ones(0), small_ones(10)
        puts = [*before, (KEY, GREAT), *after]
        await asyncio.gather(
            *(ask(site, "PutRecord", StreamName=NAME, **entry(data, key)) for key, data in puts)
        )
        call = [(KEY, PARTS[0]), *(("k", part) for part in PARTS[1:])]
        entries = [entry(data, key) for key, data in call]
        await asyncio.gather(
            ask(site, "PutRecords", StreamName=NAME, Records=entries),
            *(ask(site, "PutRecord", StreamName=NAME, **entry(b"beside", "b")) for _ in range(5)),
        )
        found = await read_all(site)
        assert sorted(found) == sorted([*puts, *call, *[("b", b"beside")] * 5])
        for cell in site.cells.values():
            assert cell.damaged_items == 0

    play(tmp_path, names, story)


@CELLS
@pytest.mark.parametrize("suffix", ["", ".fifo"], ids=["standard", "fifo"])
def test_the_greatest_record_becomes_a_dead_letter(tmp_path: Path, names: str, suffix: str) -> None:
    """In base64, as it is no text."""

    async def story(site: Site) -> None:
        await make_stream(site)
        dead, work = f"dead{suffix}", f"work{suffix}"
        kind = {"FifoQueue": "true"} if suffix else {}
        await site.done("CreateQueue", QueueName=dead, Attributes=kind)
        arn = f"arn:aws:{{}}:us-east-1:{OPERATOR}:"
        policy = {"deadLetterTargetArn": arn.format("sqs") + dead, "maxReceiveCount": 1}
        reads = {
            "TidegateStreamArn": f"{arn.format('kinesis')}stream/{NAME}",
            "TidegateStartingPosition": "TRIM_HORIZON",
            "RedrivePolicy": json.dumps(policy),
            "VisibilityTimeout": "0",
        }
        await site.done("CreateQueue", QueueName=work, Attributes=kind | reads)
        await ask(site, "PutRecord", StreamName=NAME, **entry(GREAT, KEY))
        (message,) = (await site.done("ReceiveMessage", QueueUrl=work))["Messages"]
        assert base64.b64decode(message["Body"]) == GREAT
        assert not (await site.done("ReceiveMessage", QueueUrl=work)).get("Messages")
        (found,) = (await site.done("ReceiveMessage", QueueUrl=dead))["Messages"]
        assert found["Body"] == message["Body"]

    play(tmp_path, names, story)


def test_a_cell_that_joins_is_given_the_greatest_records(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await make_stream(site)
        for key, data in ((KEY, GREAT), *small_ones(0)):
            await ask(site, "PutRecord", StreamName=NAME, **entry(data, key))
        cells = site.cells
        partition = await partition_of_shard(site)
        async with embedded(tmp_path / "d", site.clock) as joining:  # type: ignore[arg-type]
            source = MemberCell(cells["a"], Member("a"))
            target = MemberCell(joining, Member("d", 2, full=False))
            copied = copy_some(
                site.ground.waits, source, target, lacking, (partition,), Position(), 1_000
            )
            assert await copied is None
            slots = await read_on(target, partition)
            assert slots == await read_on(source, partition)
            assert len(slots) == 11

    play(tmp_path, "abc", story)


def test_a_great_record_has_room_beside_all_producers(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await make_stream(site)
        partition = await partition_of_shard(site)

        async def put(producer: int, sequence: int, data: bytes) -> None:
            record = entry(data, "k") | {"TidegateSequence": str(sequence)}
            name = {"TidegateProducerId": f"p{producer}"}
            answer = await ask(site, "PutRecords", StreamName=NAME, Records=[record], **name)
            assert answer["FailedRecordCount"] == 0

        async def last() -> Attributes:
            item = (await site.cells["a"].query(partition, limit=1, reverse=True))[0]
            return item.attributes

        await asyncio.gather(*(put(n, 1, b"small") for n in range(PRODUCERS_MAX)))
        sequence = 2
        while (await last())["pn"] != PRODUCER_SLOTS_MAX - 1:
            await put(0, sequence, b"small")
            sequence += 1
        await put(0, sequence, GREAT)
        slot = await last()
        assert slot["pn"] == 0
        assert len(cast(bytes, slot["pe"])) == PRODUCERS_MAX * PRODUCED_BYTES
        assert (await read_all(site))[-1] == ("k", GREAT)

    play(tmp_path, "a", story)


@pytest.fixture(params=RUNNERS)
def on_dynamodb(request: pytest.FixtureRequest, dynamodb: Any) -> Iterator[Any]:
    with serving_on_dynamodb(dynamodb, RUNNERS[request.param]) as server:
        yield server.kinesis()


def test_tables_have_the_greatest_records_apart(on_dynamodb: Any) -> None:
    kinesis = on_dynamodb
    kinesis.create_stream(StreamName=NAME, ShardCount=1)
    stream = kinesis.describe_stream_summary(StreamName=NAME)["StreamDescriptionSummary"]
    kinesis.update_max_record_size(StreamARN=stream["StreamARN"], MaxRecordSizeInKiB=RECORD_KIB_MAX)
    kinesis.put_record(StreamName=NAME, Data=GREAT, PartitionKey=KEY)
    call = [{"Data": part, "PartitionKey": f"k{n}"} for n, part in enumerate(PARTS)]
    answer = kinesis.put_records(StreamName=NAME, Records=call)
    assert answer["FailedRecordCount"] == 0
    found: list[bytes] = []
    iterator = kinesis.get_shard_iterator(
        StreamName=NAME, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    while len(found) < 1 + len(PARTS):
        page = kinesis.get_records(ShardIterator=iterator)
        iterator = page["NextShardIterator"]
        assert page["Records"]
        found += [record["Data"] for record in page["Records"]]
    assert found == [GREAT, *PARTS]
