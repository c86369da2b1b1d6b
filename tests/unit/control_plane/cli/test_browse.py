import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate

DELAYED = {
    "MessageId": "0a1b2c3d-0000-4000-8000-000000000001",
    "State": "delayed",
    "VisibleTimestamp": "1790000060000",
    "Body": "two\nlines \x1b[31m" + "x" * 100,
    "Attributes": {"SentTimestamp": "1790000000000", "ApproximateReceiveCount": "0"},
    "MessageAttributes": {"b": {"DataType": "Binary", "BinaryValue": b"\0\xff"}},
}
VISIBLE = {
    "MessageId": "0a1b2c3d-0000-4000-8000-000000000002",
    "State": "visible",
    "Body": "plain",
    "Attributes": {"SentTimestamp": "1790000000000", "ApproximateReceiveCount": "12"},
}


class FakeClient:
    """Stands in for an extended client; its pages are as a test sets them."""

    def __init__(self) -> None:
        self.pages: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.failure: Exception | None = None

    def get_paginator(self, operation: str) -> "FakeClient":
        assert operation == "tidegate_browse_messages"
        return self

    def paginate(self, **options: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(options)
        if self.failure is not None:
            raise self.failure
        yield from self.pages


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()
    monkeypatch.setattr("tidegate_sdk.client", lambda *_names, **_options: fake)
    return fake


def browse(*arguments: str) -> Result:
    return CliRunner().invoke(tidegate, ["queue", "browse", *arguments], prog_name="tidegate")


def test_a_table_of_messages(client: FakeClient) -> None:
    client.pages = [{"Messages": [VISIBLE]}, {}, {"Messages": [DELAYED]}]
    result = browse("orders")
    assert result.exit_code == 0
    header, visible, delayed = result.stdout.splitlines()
    assert header.split() == ["STATE", "UNTIL", "RECEIVED", "SENT", "ID", "BODY"]
    assert visible.split() == [
        "visible",
        "12",
        "2026-09-21T14:13:20Z",
        VISIBLE["MessageId"],
        "plain",
    ]
    assert delayed.split()[:2] == ["delayed", "2026-09-21T14:14:20Z"]
    assert delayed.endswith("two·lines ·[31m" + "x" * 44 + "…")
    assert client.asked == [{"QueueUrl": "orders", "PaginationConfig": {"PageSize": 100}}]


def test_whole_messages_as_json(client: FakeClient) -> None:
    client.pages = [{"Messages": [DELAYED]}]
    result = browse("orders", "--json")
    (line,) = result.stdout.splitlines()
    attributes = {"b": {"DataType": "Binary", "BinaryValue": "AP8="}}
    assert json.loads(line) == {**DELAYED, "MessageAttributes": attributes}


def test_a_limit_says_that_there_are_more(client: FakeClient) -> None:
    client.pages = [{"Messages": [VISIBLE, VISIBLE, VISIBLE]}]
    result = browse("orders", "--limit", "2")
    assert len(result.stdout.splitlines()) == 3
    assert result.stderr == "tidegate: there are more than 2; --limit shows more\n"
    assert client.asked[0]["PaginationConfig"] == {"PageSize": 3}
    assert browse("orders", "--limit", "3").stderr == ""
    assert browse("orders", "--limit", "0").exit_code == 2


NOT_THERE = 'Could not connect to the endpoint URL: "http://x" (is a server there? see --endpoint)'


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (
            ClientError({"Error": {"Code": "x", "Message": "no such\nqueue"}}, "x"),
            "tidegate: no such queue\n",
        ),
        (
            EndpointConnectionError(endpoint_url="http://x"),
            f"tidegate: {NOT_THERE}\n",
        ),
    ],
)
def test_a_refusal_is_one_line(client: FakeClient, failure: Exception, line: str) -> None:
    client.failure = failure
    result = browse("orders")
    assert (result.exit_code, result.stderr, result.stdout) == (1, line, "")
