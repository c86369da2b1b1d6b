"""FIFO queues: what is a duplicate, for how long, and what its sender is told."""

import hashlib
from typing import Any

import pytest

from tests.conformance.fifo_calls import Fifo
from tests.conformance.in_process import InProcessServer

DEDUP_ID = ["MessageDeduplicationId"]


def told(answer: Any) -> tuple[str, str]:
    return answer["MessageId"], answer["SequenceNumber"]


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@pytest.fixture
def by_id(sqs: Any) -> Fifo:
    return Fifo(sqs, ContentBasedDeduplication="false")


@pytest.fixture
def by_content(sqs: Any) -> Fifo:
    return Fifo(sqs)


def test_a_duplicate_is_told_what_the_first_was_told(by_id: Fifo) -> None:
    first = by_id.send("a1", dedup="d")
    by_id.send("a2", dedup="e")
    second = by_id.send("a3", dedup="d")
    assert told(second) == told(first)
    # SDKs compare the digest with the body they sent.
    assert second["MD5OfMessageBody"] == md5("a3")
    assert by_id.drain() == ["a1", "a2"]


def test_content_is_the_body_alone(by_content: Fifo) -> None:
    attributes = {"n": {"DataType": "Number", "StringValue": "1"}}
    first = by_content.send("a1")
    assert told(by_content.send("a1", MessageAttributes=attributes)) == told(first)
    assert told(by_content.send("a2")) != told(first)
    received = by_content.receive(MessageSystemAttributeNames=DEDUP_ID)
    assert [message["Attributes"]["MessageDeduplicationId"] for message in received] == [
        hashlib.sha256(body).hexdigest() for body in (b"a1", b"a2")
    ]


def test_a_given_id_counts_instead_of_the_content(by_content: Fifo) -> None:
    first = by_content.send("a1", dedup="d")
    assert told(by_content.send("a1")) != told(first)
    assert told(by_content.send("a2", dedup="d")) == told(first)
    content = hashlib.sha256(b"a3").hexdigest()
    given = by_content.send("a4", dedup=content)
    assert told(by_content.send("a3")) == told(given)
    assert by_content.drain() == ["a1", "a1", "a4"]


def test_the_window_is_five_minutes_from_the_first(by_id: Fifo, server: InProcessServer) -> None:
    first = by_id.send("a1", dedup="d")
    for _ in range(2):
        server.clock.advance(149)
        assert told(by_id.send("a1", dedup="d")) == told(first)
    server.clock.advance(3)
    later = by_id.send("a1", dedup="d")
    assert told(later) > told(first) or later["MessageId"] != first["MessageId"]
    assert later["SequenceNumber"] > first["SequenceNumber"]
    assert by_id.drain() == ["a1", "a1"]
    assert told(by_id.send("a1", dedup="d")) == told(later)


def test_what_was_deleted_is_remembered(by_id: Fifo) -> None:
    first = by_id.send("a1", dedup="d")
    assert by_id.drain() == ["a1"]
    assert told(by_id.send("a1", dedup="d")) == told(first)
    assert by_id.bodies() == []


def test_what_is_in_flight_is_remembered(by_id: Fifo) -> None:
    first = by_id.send("a1", dedup="d")
    (held,) = by_id.receive()
    assert told(by_id.send("a1", dedup="d")) == told(first)
    by_id.delete(held)
    assert by_id.bodies() == []


def test_a_duplicate_is_one_in_any_group_of_the_queue(by_id: Fifo) -> None:
    first = by_id.send("a1", dedup="d")
    assert told(by_id.send("b1", dedup="d")) == told(first)
    assert by_id.drain() == ["a1"]


def test_with_the_scope_of_groups_it_is_one_within_its_group(sqs: Any) -> None:
    fifo = Fifo(sqs, DeduplicationScope="messageGroup")
    first, other = fifo.send("x", "a"), fifo.send("x", "b")
    assert told(first) != told(other)
    assert told(fifo.send("x", "a")) == told(first)
    assert told(fifo.send("x", "b")) == told(other)
    received = fifo.receive(MessageSystemAttributeNames=["MessageGroupId"])
    assert sorted(message["Attributes"]["MessageGroupId"] for message in received) == ["a", "b"]


def test_duplicates_within_one_batch(by_id: Fifo) -> None:
    entries = [
        {"MessageBody": body, "MessageDeduplicationId": dedup}
        for body, dedup in (("a1", "d"), ("a2", "e"), ("a3", "d"), ("b1", "e"))
    ]
    answer = by_id.send_batch(*entries)
    assert "Failed" not in answer
    first, second, *duplicates = answer["Successful"]
    assert [told(entry) for entry in duplicates] == [told(first), told(second)]
    assert [entry["MD5OfMessageBody"] for entry in duplicates] == [md5("a3"), md5("b1")]
    assert by_id.drain() == ["a1", "a2"]


def test_a_batch_of_duplicates_and_others(by_id: Fifo) -> None:
    first = by_id.send("a1", dedup="d")
    answer = by_id.send_batch(
        {"MessageBody": "a2", "MessageDeduplicationId": "e"},
        {"MessageBody": "a1", "MessageDeduplicationId": "d"},
        {"MessageBody": "a3", "MessageDeduplicationId": "f"},
    )
    assert told(answer["Successful"][1]) == told(first)
    assert by_id.drain() == ["a1", "a2", "a3"]
    again = by_id.send_batch({"MessageBody": "a1", "MessageDeduplicationId": "d"})
    assert told(again["Successful"][0]) == told(first)


def test_a_purge_forgets(by_id: Fifo) -> None:
    first = by_id.send("a1", dedup="d")
    by_id.sqs.purge_queue(QueueUrl=by_id.url)
    again = by_id.send("a1", dedup="d")
    assert again["MessageId"] != first["MessageId"]
    assert again["SequenceNumber"] > first["SequenceNumber"]
    assert told(by_id.send("a1", dedup="d")) == told(again)
    assert by_id.drain() == ["a1"]


@pytest.mark.parametrize("purged", [False, True])
def test_a_front_end_that_just_started_knows(
    by_id: Fifo, server: InProcessServer, *, purged: bool
) -> None:
    sent = [by_id.send(f"a{number}", dedup=f"d{number}") for number in range(3)]
    assert by_id.drain() == ["a0", "a1", "a2"]
    if purged:
        by_id.sqs.purge_queue(QueueUrl=by_id.url)
    fresh = by_id.through(server.another().client("json"))
    answers = [fresh.send(f"a{number}", dedup=f"d{number}") for number in range(3)]
    same = [told(answer) == told(first) for answer, first in zip(answers, sent, strict=True)]
    assert same == [not purged] * 3
    assert fresh.drain() == (["a0", "a1", "a2"] if purged else [])


def test_the_way_of_deduplication_can_be_changed(by_id: Fifo) -> None:
    by_id.set(ContentBasedDeduplication="true")
    first = by_id.send("a1")
    assert told(by_id.send("a1")) == told(first)
