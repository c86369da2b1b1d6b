"""What is wrong with batches as such, of all three operations, and what SQS answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.limit_cases import LEGACY
from tests.conformance.raw_calls import PROTOCOLS, Bench, refused, url

QUEUES = ("orders", "orders.fifo")
ACTIONS: dict[str, dict[str, Any]] = {
    "SendMessageBatch": {"MessageBody": "x"},
    "DeleteMessageBatch": {"ReceiptHandle": "x"},
    "ChangeMessageVisibilityBatch": {"ReceiptHandle": "x", "VisibilityTimeout": 0},
}
"""Operation -> what an entry has besides its id."""
BAD_ID = refused(
    f"{LEGACY}InvalidBatchEntryId",
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be "
    "at most 80 letters long.",
)


@pytest.fixture(scope="module", params=PROTOCOLS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(request.param)
    bench.ask("CreateQueue", QueueName="orders")
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    bench.ask("CreateQueue", QueueName="orders.fifo", Attributes=fifo)
    yield bench
    bench.close()


def batch(action: str, queue: str, ids: list[str | None]) -> dict[str, Any]:
    """A batch of entries with these ids, in which nothing else is wrong."""
    entry = ACTIONS[action]
    if queue.endswith(".fifo") and action == "SendMessageBatch":
        entry = {**entry, "MessageGroupId": "g"}
    entries = [entry if one is None else {**entry, "Id": one} for one in ids]
    return {"QueueUrl": url(queue), "Entries": entries}


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    "ids", [["a", "a"], ["a", "b", "a"], [*"abcdefghi", "a"], ["-_", "b", "-_"]], ids=str
)
def test_ids_that_are_repeated(bench: Bench, action: str, queue: str, ids: list[str]) -> None:
    """elixir-broadway/broadway_sqs #49 saw it of a delete."""
    before = bench.state()
    assert bench.call(action, batch(action, queue, [*ids])) == refused(
        f"{LEGACY}BatchEntryIdsNotDistinct", f"Id {ids[0]} repeated."
    )
    assert bench.state() == before


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("wrong", ["", " ", "a b", "a.b", "\u00fc", "\u0661", "a\n", "x" * 81])
def test_ids_that_are_none(bench: Bench, action: str, queue: str, wrong: str) -> None:
    before = bench.state()
    assert bench.call(action, batch(action, queue, ["a", wrong])) == BAD_ID
    assert bench.state() == before


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("action", ACTIONS)
def test_ids_that_are_missing(bench: Bench, action: str, queue: str) -> None:
    before = bench.state()
    assert bench.call(action, batch(action, queue, ["a", None])) == refused(
        "MissingParameter", f"The request must contain the parameter {action}RequestEntry.2.Id."
    )
    assert bench.state() == before


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("action", ACTIONS)
def test_capitals_make_another_id(bench: Bench, action: str, queue: str) -> None:
    assert bench.call(action, batch(action, queue, ["a", "A"])).status == 200


def failed(bench: Bench, action: str, params: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Id, code and message of the entries that a batch reports as failed."""
    result = bench.call(action, params).result
    names = ("Id", "Code", "Message")
    if bench.protocol == "json":
        return [tuple(entry[name] for name in names) for entry in result["Failed"]]
    found = result.iterfind(".//{*}BatchResultErrorEntry")
    return [tuple(entry.findtext(f"{{*}}{name}") for name in names) for entry in found]


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    ("action", "name", "value"),
    [
        ("DeleteMessageBatch", "ReceiptHandle", None),
        ("DeleteMessageBatch", "ReceiptHandle", ""),
        ("ChangeMessageVisibilityBatch", "ReceiptHandle", None),
        ("ChangeMessageVisibilityBatch", "ReceiptHandle", ""),
        ("ChangeMessageVisibilityBatch", "VisibilityTimeout", None),
    ],
)
def test_an_entry_without_a_member_fails_alone(
    bench: Bench, queue: str, action: str, name: str, value: str | None
) -> None:
    """The AWS SDK for Go left out timeouts of 0 until August 2024 (aws/aws-sdk-go-v2 #2250)."""
    params = batch(action, queue, ["a", "b"])
    del params["Entries"][1][name]
    if value is not None:
        params["Entries"][1][name] = value
    handle = 'The input receipt handle "x" is not a valid receipt handle.'
    missing = f"The request must contain the parameter {action}RequestEntry.2.{name}."
    assert failed(bench, action, params) == [
        ("a", "ReceiptHandleIsInvalid", handle),
        ("b", "MissingParameter", missing),
    ]


def test_an_entry_with_a_wrong_timeout_fails_alone(bench: Bench) -> None:
    params = batch("ChangeMessageVisibilityBatch", "orders", ["a", "b"])
    params["Entries"][0]["VisibilityTimeout"] = -1
    params["Entries"][1]["VisibilityTimeout"] = 43_201
    reason = "Must be >= 0 and <= 43200, if provided."
    assert failed(bench, "ChangeMessageVisibilityBatch", params) == [
        (
            name,
            "InvalidParameterValue",
            f"Value {timeout_s} for parameter VisibilityTimeout is invalid. Reason: {reason}",
        )
        for name, timeout_s in (("a", -1), ("b", 43_201))
    ]


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    ("action", "name"),
    [("SendMessageBatch", "DelaySeconds"), ("ChangeMessageVisibilityBatch", "VisibilityTimeout")],
)
def test_a_member_of_another_type_refuses_the_call(
    bench: Bench, queue: str, action: str, name: str
) -> None:
    """It is the request that cannot be read."""
    params = batch(action, queue, ["a", "b"])
    params["Entries"][1][name] = "soon"
    before = bench.state()
    assert bench.call(action, params) == refused(
        "MalformedInput", "STRING_VALUE can not be converted to an Integer"
    )
    assert bench.state() == before


@pytest.mark.parametrize("body", [{}, {"MessageBody": ""}])
def test_an_entry_without_a_body(bench: Bench, body: dict[str, str]) -> None:
    """On a standard queue it fails alone; on a FIFO queue the whole batch does, as ever."""
    message = "The request must contain the parameter SendMessageBatchRequestEntry.2.MessageBody."
    params = batch("SendMessageBatch", "orders", ["a"])
    params["Entries"].append({"Id": "b", **body})
    assert failed(bench, "SendMessageBatch", params) == [("b", "MissingParameter", message)]

    before = bench.state()
    params = batch("SendMessageBatch", "orders.fifo", ["a"])
    params["Entries"].append({"Id": "b", "MessageGroupId": "g", **body})
    assert bench.call("SendMessageBatch", params) == refused("InvalidParameterValue", message)
    assert bench.state() == before
