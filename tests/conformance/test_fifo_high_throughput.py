"""FIFO queues in high-throughput mode: a limit by group, and partitions that clients never see."""

import itertools
from typing import Any

import pytest

from tests.conformance.fifo_calls import Fifo, by_group
from tests.conformance.in_process import InProcessServer

MODE = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
GROUPS = "abcdefghij"


@pytest.fixture
def fast(sqs: Any) -> Fifo:
    return Fifo(sqs, **MODE)


def test_every_group_keeps_its_order(fast: Fifo) -> None:
    bodies = [f"{group}{number}" for number in range(4) for group in GROUPS]
    for start in range(0, len(bodies), 10):
        answer = fast.send_batch(*({"MessageBody": body} for body in bodies[start : start + 10]))
        assert [entry["Id"] for entry in answer["Successful"]] == [str(n) for n in range(10)]
        assert "Failed" not in answer
    assert by_group(fast.drain()) == by_group(bodies)


def test_groups_are_held_each_by_itself(fast: Fifo, server: InProcessServer) -> None:
    for body in (f"{group}{number}" for number in range(2) for group in GROUPS):
        fast.send(body)
    held: list[dict[str, Any]] = []
    while received := fast.receive(3):
        held += received
    assert by_group([message["Body"] for message in held]).keys() == set(GROUPS)
    fast.delete(*held)
    first = by_group([message["Body"] for message in held])
    for group, bodies in by_group(fast.drain()).items():
        assert first[group] + bodies == [f"{group}0", f"{group}1"]
    server.clock.advance(31)
    assert fast.bodies() == []


def test_duplicates_are_found_within_their_group(fast: Fifo) -> None:
    first = {group: fast.send("x", group) for group in GROUPS}
    assert len({answer["MessageId"] for answer in first.values()}) == len(GROUPS)
    for group in GROUPS:
        again = fast.send("x", group)
        for name in ("MessageId", "SequenceNumber"):
            assert again[name] == first[group][name]
    entries = ({"MessageBody": "x", "MessageGroupId": group} for group in GROUPS)
    for group, entry in zip(GROUPS, fast.send_batch(*entries)["Successful"], strict=True):
        assert entry["MessageId"] == first[group]["MessageId"]
    assert fast.drain() == ["x"] * len(GROUPS)


def test_sequence_numbers_grow(fast: Fifo) -> None:
    numbers = [fast.send(f"{group}1")["SequenceNumber"] for group in GROUPS]
    assert all(first < second for first, second in itertools.pairwise(numbers))
    assert {len(number) for number in numbers} == {20}


def test_a_purge_empties_every_partition(fast: Fifo) -> None:
    for group in GROUPS:
        fast.send(f"{group}1")
    fast.sqs.purge_queue(QueueUrl=fast.url)
    assert fast.bodies() == []
    for group in GROUPS:
        fast.send(f"{group}1")
    assert sorted(fast.drain()) == [f"{group}1" for group in GROUPS]


@pytest.mark.parametrize("later", ["perMessageGroupId", "perQueue"])
def test_a_change_of_the_mode_keeps_messages_and_their_order(sqs: Any, later: str) -> None:
    earlier = "perQueue" if later == "perMessageGroupId" else "perMessageGroupId"
    fifo = Fifo(sqs, DeduplicationScope="messageGroup", FifoThroughputLimit=earlier)
    for group in GROUPS:
        fifo.send(f"{group}1")
    fifo.set(FifoThroughputLimit=later)
    for group in GROUPS:
        fifo.send(f"{group}2")
    first = fifo.receive(1)
    assert first[0]["Body"][1] == "1"
    rest = fifo.drain()
    assert first[0]["Body"] not in rest
    fifo.delete(*first)
    expected = {group: [f"{group}1", f"{group}2"] for group in GROUPS}
    found = by_group([first[0]["Body"], *rest, *fifo.drain()])
    assert found == expected
