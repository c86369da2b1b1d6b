"""Delays and visibility timeouts up to the retention, through the SDK's extended clients."""

from typing import Any

import pytest

from tests.conformance.client_calls import error, nothing, one
from tests.conformance.in_process import InProcessServer

DAY_S = 86_400
RETENTION_S = 4 * DAY_S


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Any:
    return server.client(request.param, extended=True)


@pytest.fixture
def url(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName="orders")["QueueUrl"])


def test_a_message_can_be_delayed_for_days(server: InProcessServer, sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="later", TidegateDelaySeconds=3 * DAY_S)
    server.clock.advance(3 * DAY_S - 60)
    assert nothing(sqs, url)
    server.clock.advance(61)
    assert one(sqs, url)["Body"] == "later"


def test_entries_of_a_batch_can_be_delayed_each(
    server: InProcessServer, sqs: Any, url: str
) -> None:
    answer = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "now", "MessageBody": "now"},
            {"Id": "plain", "MessageBody": "plain", "DelaySeconds": 900},
            {"Id": "days", "MessageBody": "days", "TidegateDelaySeconds": DAY_S},
            {"Id": "late", "MessageBody": "late", "TidegateDelaySeconds": RETENTION_S},
        ],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["now", "plain", "days"]
    (failed,) = answer["Failed"]
    assert (failed["Id"], failed["Code"]) == ("late", "InvalidParameterValue")
    bodies = []
    for seconds in (0, 901, DAY_S):
        server.clock.advance(seconds)
        bodies.append(one(sqs, url, TidegateVisibilityTimeout=2 * DAY_S)["Body"])
    assert bodies == ["now", "plain", "days"]


NOT_WITHIN = f"Must be >= 0 and < {RETENTION_S}, the queue's MessageRetentionPeriod."


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"TidegateDelaySeconds": -1}, NOT_WITHIN),
        ({"TidegateDelaySeconds": RETENTION_S}, NOT_WITHIN),
        (
            {"TidegateDelaySeconds": 5, "DelaySeconds": 5},
            "It cannot be given with DelaySeconds.",
        ),
        ({"DelaySeconds": 901}, "DelaySeconds must be >= 0 and <= 900."),
    ],
)
def test_wrong_delays_are_refused(sqs: Any, url: str, options: dict[str, int], reason: str) -> None:
    name, value = next(iter(options.items()))
    found = error(sqs.send_message, QueueUrl=url, MessageBody="x", **options)
    message = f"Value {value} for parameter {name} is invalid. Reason: {reason}"
    assert found == ("InvalidParameterValue", message, 400)
    assert nothing(sqs, url)


def test_a_received_message_can_be_hidden_for_days(
    server: InProcessServer, sqs: Any, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="held")
    one(sqs, url, TidegateVisibilityTimeout=3 * DAY_S)
    server.clock.advance(3 * DAY_S - 60)
    assert nothing(sqs, url)
    server.clock.advance(61)
    assert one(sqs, url)["Body"] == "held"


def test_a_visibility_can_be_changed_beyond_twelve_hours(
    server: InProcessServer, sqs: Any, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="held")
    handle = one(sqs, url, VisibilityTimeout=43_200)["ReceiptHandle"]
    change = {"QueueUrl": url, "ReceiptHandle": handle}
    server.clock.advance(3_600)
    code, _, _ = error(sqs.change_message_visibility, **change, VisibilityTimeout=43_200)
    assert code == "InvalidParameterValue"  # thirteen hours in total
    sqs.change_message_visibility(**change, TidegateVisibilityTimeout=2 * DAY_S)
    server.clock.advance(DAY_S)
    sqs.change_message_visibility(**change, TidegateVisibilityTimeout=3_600)
    server.clock.advance(3_500)
    assert nothing(sqs, url)
    server.clock.advance(200)
    assert one(sqs, url)["Body"] == "held"


def test_twelve_hours_are_counted_from_the_receive_in_whole_seconds(
    server: InProcessServer, sqs: Any, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="held")
    change = {"QueueUrl": url, "ReceiptHandle": one(sqs, url)["ReceiptHandle"]}
    server.clock.advance(0.01)
    sqs.change_message_visibility(**change, VisibilityTimeout=43_200)
    server.clock.advance(1)
    code, _, _ = error(sqs.change_message_visibility, **change, VisibilityTimeout=43_200)
    assert code == "InvalidParameterValue"


def test_a_batch_of_changes_may_have_both(server: InProcessServer, sqs: Any, url: str) -> None:
    for body in "abc":
        sqs.send_message(QueueUrl=url, MessageBody=body)
    held = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    handles = {message["Body"]: message["ReceiptHandle"] for message in held}
    answer = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "a", "ReceiptHandle": handles["a"], "TidegateVisibilityTimeout": DAY_S},
            {"Id": "b", "ReceiptHandle": handles["b"], "VisibilityTimeout": 43_201},
            {"Id": "c", "ReceiptHandle": handles["c"], "VisibilityTimeout": 60},
        ],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["a", "c"]
    assert [entry["Id"] for entry in answer["Failed"]] == ["b"]
    server.clock.advance(61)
    again = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert sorted(message["Body"] for message in again) == ["b", "c"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "MissingParameter"),
        ({"TidegateVisibilityTimeout": -1}, "InvalidParameterValue"),
        ({"TidegateVisibilityTimeout": RETENTION_S + 1}, "InvalidParameterValue"),
        ({"TidegateVisibilityTimeout": 1, "VisibilityTimeout": 1}, "InvalidParameterValue"),
        ({"VisibilityTimeout": 43_201}, "InvalidParameterValue"),
    ],
)
def test_wrong_visibility_timeouts_are_refused(
    sqs: Any, url: str, options: dict[str, int], code: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    handle = one(sqs, url)["ReceiptHandle"]
    call = sqs.change_message_visibility
    assert error(call, QueueUrl=url, ReceiptHandle=handle, **options)[0] == code
    if options:
        assert error(sqs.receive_message, QueueUrl=url, **options)[0] == code
