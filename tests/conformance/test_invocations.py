"""What an invocation leaves behind, and what it pays for that, in requests to DynamoDB.

A sandbox may never run again. So what other sandboxes count is compared, not what it remembers.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane.serverless import closing
from control_plane.serverless.closing import Closing
from data_plane.dynamodb.cell import DynamoCell
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import OneAfterTheOther

PERIOD_S = 3600
"""What is written now and then is written so often here, however slow the machine is."""

BODY = "x" * 100


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    for period in ("FLUSH_PERIOD_US", "SWEEP_PERIOD_US"):
        monkeypatch.setattr(closing, period, PERIOD_S * 1_000_000)


class Sandbox:
    """A front end that is called, one invocation after the other."""

    def __init__(self, server: InProcessServer) -> None:
        self.server = server
        assert isinstance(server.cell, DynamoCell)
        self.cell = server.cell
        # The server sees it through the same offload, whose threads take turns.
        self.closing = Closing(server.engine, {"a": self.cell}, {}, server.clock)
        self._client = server.client()
        self.url = ""

    def invoke(self, action: str, **params: Any) -> tuple[Any, Counter[str]]:
        """The answer, and the requests that the invocation made."""
        before = self.cell.counters.requests.copy()
        if self.url:
            params.setdefault("QueueUrl", self.url)
        answer = getattr(self._client, action)(**params)
        self.server.run(self.closing.close())
        return answer, self.cell.counters.requests - before

    def counted(self) -> tuple[int, int]:
        """Messages visible and in flight, as this sandbox counts them."""
        answer, _ = self.invoke("get_queue_attributes", AttributeNames=["All"])
        attributes = answer["Attributes"]
        return (
            int(attributes["ApproximateNumberOfMessages"]),
            int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        )

    def another(self) -> "Sandbox":
        sandbox = Sandbox(self.server.another())
        sandbox.url = self.url
        return sandbox


@pytest.fixture
def sandbox(dynamodb: Any) -> Iterator[Sandbox]:
    with serving_on_dynamodb(dynamodb, OneAfterTheOther) as server:
        opened = Sandbox(server)
        opened.url = opened.invoke("create_queue", QueueName="orders")[0]["QueueUrl"]
        yield opened


def test_what_a_sandbox_sent_counts_for_others_when_it_has_answered(sandbox: Sandbox) -> None:
    for _ in range(3):
        sandbox.invoke("send_message", MessageBody=BODY)
    assert sandbox.another().counted() == (3, 0)


def test_what_a_sandbox_deleted_counts_for_others_when_it_has_answered(sandbox: Sandbox) -> None:
    for _ in range(3):
        sandbox.invoke("send_message", MessageBody=BODY)
    consumer = sandbox.another()
    while messages := consumer.invoke("receive_message")[0].get("Messages"):
        consumer.invoke("delete_message", ReceiptHandle=messages[0]["ReceiptHandle"])
    sandbox.server.clock.advance(31)
    assert sandbox.another().counted() == (0, 0)


def test_what_is_in_flight_is_written_now_and_then_or_right_again_by_itself(
    sandbox: Sandbox,
) -> None:
    for _ in range(2):
        sandbox.invoke("send_message", MessageBody=BODY)
    consumer = sandbox.another()
    consumer.invoke("receive_message", VisibilityTimeout=PERIOD_S * 2)
    assert sandbox.another().counted() == (1, 1)
    consumer.invoke("receive_message", VisibilityTimeout=PERIOD_S * 2)
    assert sandbox.another().counted() == (1, 1)
    sandbox.server.clock.advance(PERIOD_S)
    consumer.invoke("receive_message")
    assert sandbox.another().counted() == (0, 2)
    sandbox.server.clock.advance(PERIOD_S + 60)  # what is in flight is counted by parts of a minute
    assert sandbox.another().counted() == (2, 0)


def test_what_the_counters_of_an_invocation_cost(sandbox: Sandbox) -> None:
    """One write for a send, one for a delete of messages of the same minute, else next to none."""
    sandbox.server.clock.advance(60 - sandbox.server.clock.now_us() / 1_000_000 % 60)
    sandbox.invoke("receive_message")  # opens the lane; what is written now and then is due later
    _, requests = sandbox.invoke("send_message", MessageBody=BODY)
    assert requests == {"put_item": 1, "update_item": 1}
    entries = [{"Id": str(i), "MessageBody": BODY} for i in range(9)]
    _, requests = sandbox.invoke("send_message_batch", Entries=entries)
    assert requests == {"put_item": 1, "update_item": 1}
    received, requests = sandbox.invoke("receive_message", MaxNumberOfMessages=10)
    assert (requests["put_item"], requests["update_item"]) == (0, 1)
    deletes = [
        {"Id": str(i), "ReceiptHandle": message["ReceiptHandle"]}
        for i, message in enumerate(received["Messages"])
    ]
    assert len(deletes) == 10
    _, requests = sandbox.invoke("delete_message_batch", Entries=deletes)
    assert requests == {"update_item": 2}
    _, requests = sandbox.invoke("receive_message")
    assert (requests["put_item"], requests["update_item"]) == (0, 0)


def test_an_answer_stands_where_its_closing_fails(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise ArithmeticError

    monkeypatch.setattr(sandbox.cell, "flush", fail)
    sandbox.invoke("send_message", MessageBody=BODY)
    assert "closing an invocation" in caplog.text
    monkeypatch.undo()
    sandbox.invoke("receive_message")
    assert sum(sandbox.another().counted()) == 1
