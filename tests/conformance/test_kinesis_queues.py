"""Queues of the Kinesis API, by boto3: what consumers of records see."""

import os
from typing import Any

import pytest

from control_plane.stream_operations import split_shard
from data_plane.stored import in_flight
from tests.conformance.client_calls import error
from tests.conformance.in_process import InProcessServer
from tests.conformance.kinesis_queue import (
    STREAM,
    STREAM_ARN,
    KinesisQueue,
    codes,
    put,
    texts,
    without_waiting,
)

WORDS = [f"w{number:03}" for number in range(1, 151)]
TWICE = {"DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 2}}
NEVER = {"DeadLetterConfiguration": {"TargetType": "NONE"}}
INVALID = "InvalidArgumentException"


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    without_waiting(server)
    client = server.kinesis()
    client.create_stream(StreamName=STREAM)
    return client


@pytest.fixture
def queue(server: InProcessServer, kinesis: Any) -> KinesisQueue:
    assert kinesis
    return KinesisQueue(server)


@pytest.fixture
def strict(server: InProcessServer, kinesis: Any) -> KinesisQueue:
    """A queue whose records are dead letters after two receives."""
    assert kinesis
    return KinesisQueue(server, "strict", QueueAttributes=TWICE)


def change_shards(kinesis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split the stream's first shard and merge its last two, as its owner cannot.

    A stream with queues is on demand, where that is the service's to do.
    """
    monkeypatch.setattr(split_shard, "check_provisioned", lambda _definition: None)
    first, *_, third, fourth = kinesis.list_shards(StreamName=STREAM)["Shards"]
    keys = first["HashKeyRange"]
    middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
    kinesis.split_shard(
        StreamName=STREAM, ShardToSplit=first["ShardId"], NewStartingHashKey=str(middle)
    )
    kinesis.merge_shards(
        StreamName=STREAM, ShardToMerge=third["ShardId"], AdjacentShardToMerge=fourth["ShardId"]
    )


def killed(queue: KinesisQueue, *words: str) -> list[Any]:
    """Put up to ten records, receive them as often as they may be, and let them die."""
    put(queue.kinesis, *words)
    return kill(queue, *words)


def kill(queue: KinesisQueue, *words: str) -> list[Any]:
    """Let those die that there are."""
    for _ in range(2):
        records = queue.receive()
        assert texts(records) == sorted(words)
        assert queue.hide(0, *records)["Failed"] == []
    return records


# Receiving and acknowledging


def test_each_record_is_delivered_and_is_gone_when_acknowledged(
    queue: KinesisQueue, kinesis: Any
) -> None:
    put(kinesis, *WORDS)
    assert queue.drained() == WORDS
    assert queue.receive() == []
    put(kinesis, "late")
    assert queue.drained() == ["late"]


def test_a_record_says_what_was_put(queue: KinesisQueue, kinesis: Any) -> None:
    data = b"\xff\x00tide"
    kinesis.put_record(StreamName=STREAM, Data=data, PartitionKey="ann")
    (record,) = queue.receive()
    assert record["Data"] == data
    assert record["PartitionKey"] == "ann"
    assert record["ReceiveCount"] == 1
    assert record["RecordId"].isalnum()
    assert record["ApproximateArrivalTimestamp"] <= record["FirstReceiveTimestamp"]


def test_empty_and_big_records_come_whole(queue: KinesisQueue, kinesis: Any) -> None:
    data = [b"", os.urandom(900_000), "tide \u00e9\n".encode()]
    for number, one in enumerate(data):
        kinesis.put_record(StreamName=STREAM, Data=one, PartitionKey=str(number))
    found: list[bytes] = []
    while len(found) < len(data):
        records = queue.receive()
        assert records
        queue.acknowledge(*records)
        found += [record["Data"] for record in records]
    assert sorted(found) == sorted(data)


def test_a_record_that_was_put_without_a_key_has_none(
    server: InProcessServer, kinesis: Any, queue: KinesisQueue
) -> None:
    kinesis.update_stream_record_distribution_strategy(
        StreamARN=STREAM_ARN, RecordDistributionStrategy="AUTO"
    )
    server.clock.advance(6)
    kinesis.put_record(StreamName=STREAM, Data=b"x")
    (record,) = queue.receive()
    assert "PartitionKey" not in record


def test_what_is_not_acknowledged_comes_again(
    server: InProcessServer, queue: KinesisQueue, kinesis: Any
) -> None:
    put(kinesis, "a", "b")
    first = queue.receive()
    assert queue.receive() == []
    server.clock.advance(30)
    again = queue.receive()
    assert [record["ReceiveCount"] for record in again] == [2, 2]
    assert {one["RecordId"] for one in again} == {one["RecordId"] for one in first}
    assert {one["FirstReceiveTimestamp"] for one in again} == {
        one["FirstReceiveTimestamp"] for one in first
    }


def test_several_queues_read_a_stream_each_by_itself(
    server: InProcessServer, kinesis: Any, queue: KinesisQueue
) -> None:
    other = KinesisQueue(server, "other")
    put(kinesis, "a")
    (here,), (there,) = queue.receive(), other.receive()
    assert here["RecordId"] == there["RecordId"]
    queue.acknowledge(here)
    assert codes(queue.acknowledge(there)) == [INVALID], "a handle of another queue"
    assert other.acknowledge(there)["Failed"] == []


def test_visibility_counts_from_now(
    server: InProcessServer, queue: KinesisQueue, kinesis: Any
) -> None:
    put(kinesis, "a")
    (record,) = queue.receive(VisibilityTimeoutSeconds=5)
    server.clock.advance(4)
    assert queue.hide(60, record) == {
        "Successful": [{"ReceiptHandle": record["ReceiptHandle"]}],
        "Failed": [],
    }
    server.clock.advance(50)
    assert queue.receive() == []
    server.clock.advance(10)
    assert queue.data() == ["a"]


def test_a_receive_waits_for_what_comes(server: InProcessServer, queue: KinesisQueue) -> None:
    started_us = server.clock.now_us()
    assert queue.receive(WaitTimeSeconds=20) == []
    assert 20 <= (server.clock.now_us() - started_us) / 1e6 < 23
    started_us = server.clock.now_us()
    assert queue.kinesis.receive_queue_records(QueueARN=queue.arn)["QueueRecords"] == []
    assert 9 <= (server.clock.now_us() - started_us) / 1e6 < 12


def test_a_handle_is_good_until_its_record_is_received_again(
    server: InProcessServer, queue: KinesisQueue, kinesis: Any
) -> None:
    put(kinesis, "a", "b")
    first, second = queue.receive()
    server.clock.advance(31)
    assert queue.acknowledge(first)["Failed"] == []
    assert queue.acknowledge(first)["Failed"] == [], "again"
    assert codes(queue.hide(5, first)) == [INVALID]
    (again,) = queue.receive()
    assert codes(queue.acknowledge(second)) == [INVALID]
    assert codes(queue.hide(5, second)) == [INVALID]
    assert queue.acknowledge(again)["Failed"] == []
    assert queue.receive() == []


def test_entries_succeed_and_fail_by_themselves(queue: KinesisQueue, kinesis: Any) -> None:
    put(kinesis, "a", "b")
    records = queue.receive()
    wrong = {"ReceiptHandle": "nothing"}
    answer = queue.acknowledge(records[0], wrong, records[1])
    assert answer["Successful"] == [
        {"ReceiptHandle": record["ReceiptHandle"]} for record in records
    ]
    assert answer["Failed"] == [
        {
            "ReceiptHandle": "nothing",
            "ErrorCode": INVALID,
            "ErrorMessage": "The receipt handle is not one of this queue.",
        }
    ]
    assert queue.receive() == []


def test_what_the_stream_forgets_is_gone(
    server: InProcessServer, queue: KinesisQueue, strict: KinesisQueue
) -> None:
    killed(strict, "a")
    (record,) = queue.receive(VisibilityTimeoutSeconds=43_200)
    server.clock.advance(24 * 3_600)
    assert queue.receive() == []
    assert codes(queue.acknowledge(record)) == ["ResourceNotFoundException"]
    assert strict.receive(dead=True) == []


def test_no_more_are_in_flight_than_may_be(
    queue: KinesisQueue, kinesis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "IN_FLIGHT_MAX", 20)
    monkeypatch.setattr(in_flight, "IN_FLIGHT_UNSEEN_MAX", 10)
    put(kinesis, *WORDS[:40])
    held = [record for _ in range(4) for record in queue.receive()]
    assert len(held) == 20
    queue.acknowledge(*held[:10])
    assert len(queue.receive()) == 10


# Shards


def test_records_of_parents_and_children_all_come(
    queue: KinesisQueue, kinesis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(kinesis, *WORDS[:50])
    held = queue.receive()
    queue.acknowledge(*held[:5])
    change_shards(kinesis, monkeypatch)
    put(kinesis, *WORDS[50:100])
    left = sorted(set(WORDS[:100]) - set(texts(held)))
    assert queue.drained() == left, "none waits for what is in flight of a parent"
    queue.hide(0, *held[5:])
    assert queue.drained() == texts(held[5:])


def test_two_front_ends_share_a_queue(server: InProcessServer, kinesis: Any) -> None:
    here = KinesisQueue(server)
    there = here.through(without_waiting(server.another()))
    put(kinesis, *WORDS)
    found: list[str] = []
    for turn in range(40):
        consumer = (here, there)[turn % 2]
        records = consumer.receive()
        found += texts(records)
        if records:
            assert consumer.acknowledge(*records)["Failed"] == []
    assert sorted(found) == WORDS


# Dead letters


def test_a_record_dies_when_its_last_receive_ends(
    server: InProcessServer, strict: KinesisQueue, kinesis: Any
) -> None:
    put(kinesis, "a")
    for count in (1, 2):
        (record,) = strict.receive()
        assert record["ReceiveCount"] == count
        assert strict.receive(dead=True) == [], "it may still be acknowledged"
        server.clock.advance(30)
    assert strict.receive() == []
    (dead,) = strict.receive(dead=True)
    assert (dead["Data"], dead["PartitionKey"], dead["ReceiveCount"]) == (b"a", "a", 3)
    assert dead["RecordId"] == record["RecordId"]
    assert dead["FirstReceiveTimestamp"] == record["FirstReceiveTimestamp"]
    assert strict.receive(dead=True) == [], "it is in flight"
    server.clock.advance(30)
    (again,) = strict.receive(dead=True)
    assert again["ReceiveCount"] == 4
    assert strict.receive() == []
    assert strict.acknowledge(again, dead=True)["Failed"] == []
    server.clock.advance(31)
    assert strict.receive(dead=True) == []
    assert strict.receive() == []


def test_a_record_that_is_shown_dies_at_once(strict: KinesisQueue) -> None:
    killed(strict, "a")
    assert strict.receive() == []
    assert strict.data(dead=True) == ["a"]


def test_the_last_receive_may_acknowledge(strict: KinesisQueue, kinesis: Any) -> None:
    put(kinesis, "a")
    strict.hide(0, *strict.receive())
    (last,) = strict.receive()
    assert strict.acknowledge(last)["Failed"] == []
    assert strict.receive(dead=True) == []


def test_a_restored_record_begins_anew(server: InProcessServer, strict: KinesisQueue) -> None:
    killed(strict, "a")
    (dead,) = strict.receive(dead=True)
    assert strict.restore(dead)["Failed"] == []
    assert strict.restore(dead)["Failed"] == [], "a restore that is repeated"
    assert strict.receive(dead=True) == []
    for count in (1, 2):
        (record,) = strict.receive()
        assert record["ReceiveCount"] == count
        assert codes(strict.restore(dead)) == [INVALID], "it lives by another handle"
        strict.hide(0, record)
    assert strict.receive() == []
    server.clock.advance(1)
    assert strict.data(dead=True) == ["a"]


def test_handles_are_of_one_kind(strict: KinesisQueue) -> None:
    (last,) = killed(strict, "a")
    assert codes(strict.acknowledge(last)) == [INVALID]
    assert codes(strict.hide(5, last)) == [INVALID]
    for wrong in (strict.restore(last), strict.acknowledge(last, dead=True)):
        assert codes(wrong) == [INVALID]
    (dead,) = strict.receive(dead=True)
    assert codes(strict.acknowledge(dead)) == [INVALID]
    assert codes(strict.hide(5, dead)) == [INVALID]
    assert strict.restore(dead)["Failed"] == []
    assert codes(strict.acknowledge(dead, dead=True)) == [INVALID]
    assert codes(strict.hide(5, dead, dead=True)) == [INVALID]
    (alive,) = strict.receive()
    assert codes(strict.acknowledge(alive, dead=True)) == [INVALID]
    assert codes(strict.hide(5, alive, dead=True)) == [INVALID]
    assert codes(strict.restore(alive)) == [INVALID]
    assert strict.acknowledge(alive)["Failed"] == []


def test_dead_letters_are_hidden_and_shown(server: InProcessServer, strict: KinesisQueue) -> None:
    killed(strict, "a")
    (dead,) = strict.receive(dead=True)
    strict.hide(100, dead, dead=True)
    server.clock.advance(90)
    assert strict.receive(dead=True) == []
    assert strict.hide(0, dead, dead=True)["Failed"] == []
    assert strict.data(dead=True) == ["a"]
    assert strict.receive() == []


def test_dead_letters_hold_up_nobody(strict: KinesisQueue, kinesis: Any) -> None:
    dead = texts(killed(strict, *WORDS[:10]))
    put(kinesis, *WORDS[10:40])
    assert strict.drained() == sorted(set(WORDS[:40]) - set(dead))
    assert strict.data(dead=True) == dead


def test_where_nothing_dies_records_come_again(server: InProcessServer, kinesis: Any) -> None:
    queue = KinesisQueue(server, QueueAttributes=NEVER)
    put(kinesis, "a")
    for count in range(1, 9):
        (record,) = queue.receive()
        assert record["ReceiveCount"] == count
        queue.hide(0, record)
    assert queue.receive(dead=True) == []


def test_a_change_of_the_count_holds_from_the_next_receive_on(
    server: InProcessServer, kinesis: Any
) -> None:
    queue = KinesisQueue(server, QueueAttributes=NEVER)
    put(kinesis, "a")
    for _ in range(3):
        queue.hide(0, *queue.receive())
    queue.kinesis.update_queue(QueueARN=queue.arn, QueueAttributes=TWICE)
    (record,) = queue.receive()
    assert record["ReceiveCount"] == 4
    queue.hide(0, record)
    assert queue.receive() == []
    queue.kinesis.update_queue(QueueARN=queue.arn, QueueAttributes=NEVER)
    assert queue.receive() == [], "a dead letter stays one"
    (dead,) = queue.receive(dead=True)
    queue.hide(0, dead, dead=True)
    assert queue.receive() == []
    queue.restore(*queue.receive(dead=True))
    assert queue.data() == ["a"]


def test_a_record_in_its_last_allowed_receive_dies_though_more_are_allowed_meanwhile(
    strict: KinesisQueue, kinesis: Any
) -> None:
    put(kinesis, "a")
    strict.hide(0, *strict.receive())
    (record,) = strict.receive()
    more = {"DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 9}}
    kinesis.update_queue(QueueARN=strict.arn, QueueAttributes=more)
    strict.hide(0, record)
    assert strict.receive() == []
    assert strict.data(dead=True) == ["a"]


def test_another_front_end_finds_dead_letters(server: InProcessServer, kinesis: Any) -> None:
    here = KinesisQueue(server, QueueAttributes=TWICE)
    there = here.through(without_waiting(server.another()))
    put(kinesis, *WORDS[:11])
    (first,) = there.receive(1)  # It has read them all, and knows of no other lease.
    there.acknowledge(first)
    dead = sorted(set(WORDS[:11]) - set(texts([first])))
    kill(here, *dead)
    found = there.receive(dead=True)
    assert texts(found) == dead
    assert there.restore(*found)["Failed"] == []
    server.clock.advance(1)
    assert here.drained() == dead


def test_what_was_acknowledged_never_comes_back(
    server: InProcessServer, strict: KinesisQueue, kinesis: Any
) -> None:
    killed(strict, *WORDS[:10])
    put(kinesis, *WORDS[10:30])
    held = strict.receive(dead=True)
    assert len(held) == 10
    strict.acknowledge(*held[:5], dead=True)
    strict.restore(*held[:5])
    strict.restore(*held[5:])
    fresh = strict.through(without_waiting(server.another()))
    server.clock.advance(31)
    assert fresh.drained() == sorted(set(WORDS[:30]) - set(texts(held[:5])))
    assert fresh.receive(dead=True) == []


def test_a_deleted_queue_delivers_nothing(queue: KinesisQueue, kinesis: Any) -> None:
    put(kinesis, "a", "b")
    (held,) = queue.receive(1)
    kinesis.delete_queue(QueueARN=queue.arn)
    for call, more in (
        (kinesis.receive_queue_records, {}),
        (kinesis.receive_dead_letter_queue_records, {}),
        (
            kinesis.acknowledge_queue_records,
            {"Entries": [{"ReceiptHandle": held["ReceiptHandle"]}]},
        ),
    ):
        refused = error(call, QueueARN=queue.arn, **more)
        assert refused[0] == "ResourceNotFoundException"
