"""Records that their producer numbers, by boto3's client that has learned of them."""

from typing import Any

import pytest

from data_plane.core.limits import PRODUCER_EPOCH_MAX, PRODUCER_ID_CHARS_MAX
from tests.conformance.group_member import refused, unchecked
from tests.conformance.in_process import InProcessServer

STREAM = "out"
LONGEST = "9" * 64


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    client = server.kinesis(extended=True)
    client.create_stream(StreamName=STREAM, ShardCount=1)
    return client


def put(kinesis: Any, *sequences: str, producer: str = "p", epoch: int = 0) -> list[Any]:
    answer = kinesis.put_records(
        StreamName=STREAM,
        TidegateProducerId=producer,
        TidegateProducerEpoch=epoch,
        Records=[
            {"PartitionKey": "k", "Data": one.encode(), "TidegateSequence": one}
            for one in sequences
        ],
    )
    failed = sum("ErrorCode" in one for one in answer["Records"])
    assert answer["FailedRecordCount"] == failed
    return list(answer["Records"])


def stored(kinesis: Any) -> list[str]:
    iterator = kinesis.get_shard_iterator(
        StreamName=STREAM, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    records = kinesis.get_records(ShardIterator=iterator)["Records"]
    return [one["Data"].decode() for one in records]


def test_what_is_put_again_is_stored_once(kinesis: Any) -> None:
    first = put(kinesis, "1", "2")
    assert [one["ShardId"][-1] for one in first] == ["0", "0"]
    assert all("TidegateStoredBefore" not in one for one in first)
    again = put(kinesis, "1", "2", LONGEST)
    assert again[0] == {"ShardId": first[0]["ShardId"], "TidegateStoredBefore": True}
    assert "SequenceNumber" in again[2]
    assert stored(kinesis) == ["1", "2", LONGEST]


def test_a_sequence_number_of_kinesis_is_a_number(kinesis: Any) -> None:
    number = put(kinesis, "1")[0]["SequenceNumber"]
    put(kinesis, number, f"{number}9", producer="p" * PRODUCER_ID_CHARS_MAX)
    put(kinesis, number, producer="p" * PRODUCER_ID_CHARS_MAX)
    assert stored(kinesis) == ["1", number, f"{number}9"]


@pytest.mark.parametrize("lower", [0, 2**31, PRODUCER_EPOCH_MAX - 1])
def test_a_lower_epoch_is_fenced(kinesis: Any, lower: int) -> None:
    put(kinesis, "1", epoch=PRODUCER_EPOCH_MAX)
    again = {"PartitionKey": "k", "Data": b"", "TidegateSequence": "2"}
    code, _ = refused(
        kinesis.put_records,
        StreamName=STREAM,
        TidegateProducerId="p",
        TidegateProducerEpoch=lower,
        Records=[again],
    )
    assert code == "TidegateFencedProducer"
    assert stored(kinesis) == ["1"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"TidegateProducerId": ""},
        {"TidegateProducerId": "p" * (PRODUCER_ID_CHARS_MAX + 1)},
        {"TidegateProducerEpoch": -1},
        {"sequence": "01"},
        {"sequence": "-1"},
        {"sequence": LONGEST + "9"},
        {"sequence": ""},
    ],
)
def test_what_is_no_number_is_refused(
    server: InProcessServer, kinesis: Any, wrong: dict[str, Any]
) -> None:
    given = {"TidegateProducerId": "p", "sequence": "1", **wrong}
    sequence = given.pop("sequence")
    record = {"PartitionKey": "k", "Data": b"", "TidegateSequence": sequence}
    code, _ = refused(unchecked(server).put_records, StreamName=STREAM, Records=[record], **given)
    assert code in {"ValidationException", "SerializationException"}
    assert stored(kinesis) == []
