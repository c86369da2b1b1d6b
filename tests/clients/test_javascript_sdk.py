"""The AWS SDK for JavaScript v3 on Node, unmodified, against a real server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.spoiling_proxy import cut_first_answer, spoiling_proxy
from tests.integration.server_process import ServerProcess

LEGACY = "AWS.SimpleQueueService."
CODES = {
    "QueueDoesNotExist": (f"{LEGACY}NonExistentQueue", 400),
    "QueueNameExists": ("QueueAlreadyExists", 400),
    "QueueDeletedRecently": (f"{LEGACY}QueueDeletedRecently", 400),
    "PurgeQueueInProgress": (f"{LEGACY}PurgeQueueInProgress", 403),
    "EmptyBatchRequest": (f"{LEGACY}EmptyBatchRequest", 400),
    "TooManyEntriesInBatchRequest": (f"{LEGACY}TooManyEntriesInBatchRequest", 400),
    "BatchEntryIdsNotDistinct": (f"{LEGACY}BatchEntryIdsNotDistinct", 400),
    "InvalidBatchEntryId": (f"{LEGACY}InvalidBatchEntryId", 400),
    "BatchRequestTooLong": (f"{LEGACY}BatchRequestTooLong", 400),
    "InvalidMessageContents": ("InvalidMessageContents", 400),
    "ReceiptHandleIsInvalid": ("ReceiptHandleIsInvalid", 404),
    "InvalidAttributeName": ("InvalidAttributeName", 400),
    "InvalidAttributeValue": ("InvalidAttributeValue", 400),
}
"""Class of the exception -> code and status."""

Scenario = Callable[..., dict[str, Any]]


@pytest.fixture
def run(node: Callable[..., dict[str, Any]], server: ServerProcess, queue_name: str) -> Scenario:
    """Run a scenario on an empty queue; what it saw."""

    def run_scenario(name: str, endpoint: str = server.url) -> dict[str, Any]:
        return node("javascript_sdk.cjs", name, endpoint, queue_name, DIRECT_ENDPOINT=server.url)

    return run_scenario


def test_a_message_comes_back_as_it_was_sent(run: Scenario) -> None:
    seen = run("round_trip")
    assert seen["received"] == 1
    assert seen["same_id"]
    assert seen["same_body"]
    assert seen["received_attributes"] == seen["sent_attributes"]
    assert set(seen["sent_attributes"]) >= {"text", "bytes"}
    assert len(set(seen["md5_of_attributes"])) == 1, seen["md5_of_attributes"]
    assert seen["system_attributes"]["ApproximateReceiveCount"] == "1"
    assert seen["left"] == ["0", "0"]


def test_the_sdk_refuses_answers_whose_digest_is_wrong(
    run: Scenario, server: ServerProcess
) -> None:
    """So the answers that it takes everywhere else have the right ones."""

    def spoil(body: bytes) -> bytes:
        answer = json.loads(body)
        parts = [answer, *answer.get("Successful", []), *answer.get("Messages", [])]
        for part in parts:
            for name in ("MD5OfMessageBody", "MD5OfBody"):
                if name in part:
                    part[name] = "0" * 32
        return json.dumps(answer).encode()

    with spoiling_proxy(server.port, spoil) as proxy:
        seen = run("spoiled_digests", proxy.url)
    assert seen["send"]["message"] == "InvalidChecksumError"
    assert seen["batch"]["message"].startswith("Invalid MD5 checksum on messages: ")
    assert seen["receive"]["message"].startswith("Invalid MD5 checksum on messages: ")


def test_batches_and_their_failed_entries(run: Scenario) -> None:
    seen = run("batches")
    good = [at for at in range(10) if at != 3]
    assert seen["sent"] == [f"id-{at}" for at in good]
    assert seen["refused"] == [["id-3", True, "InvalidParameterValue"]]
    assert seen["received"] == [f"body {at}" for at in good]
    assert seen["changed"] == 9
    assert seen["deleted"] == 9
    assert seen["not_deleted"] == [["wrong", True, "ReceiptHandleIsInvalid"]]


def test_a_long_poll_ends_with_the_first_message(run: Scenario) -> None:
    assert run("long_poll") == {
        "before": {"waiting": True, "messages": "0"},
        "same_id": True,
        "body": "at last",
    }


def test_visibility(run: Scenario) -> None:
    assert run("visibility") == {
        "hidden": 0,
        "counts": ["1", "2"],
        "same_id": True,
        "same_handle": False,
    }


def test_fifo_queues(run: Scenario) -> None:
    seen = run("fifo")
    first, other, duplicate, second, again, third = seen["sent"]
    assert duplicate == again == first
    numbers = [number for _, number in (first, other, second, third)]
    assert numbers == sorted(set(numbers))
    assert all(len(number) == 20 for number in numbers)
    assert seen["received"] == [
        [body, body[0], number]
        for body, (_, number) in zip(
            ("a1", "a2", "a3", "b1"), (first, second, third, other), strict=True
        )
    ]
    assert seen["held"] == 0
    assert seen["no_group"]["code"] == "MissingParameter"


def test_dead_letters(run: Scenario, queue_name: str) -> None:
    assert run("dead_letters") == {
        "received": [1, 0],
        "same_id": True,
        "source": queue_name,
        "sources": [queue_name],
    }


def test_errors_are_instances_of_their_classes(run: Scenario) -> None:
    seen = run("errors")
    assert {name: (error["code"], error["status"]) for name, error in seen.items()} == CODES
    assert {name: error["class"] for name, error in seen.items()} == {name: name for name in CODES}
    assert all(error["of_the_service"] for error in seen.values())
    assert {error["fault"] for error in seen.values()} == {"client"}
    assert {error["attempts"] for error in seen.values()} == {1}
    assert seen["QueueDoesNotExist"]["message"] == "The specified queue does not exist."


def test_a_call_whose_answer_was_lost_is_repeated_and_sends_once(
    run: Scenario, server: ServerProcess
) -> None:
    with spoiling_proxy(server.port, cut_first_answer()) as proxy:
        seen = run("retry", proxy.url)
    assert seen["attempts"] == 2
    assert seen["received"] == [seen["sent"]]
    first, second = proxy.seen[:2]
    assert first["amz-sdk-invocation-id"] == second["amz-sdk-invocation-id"]


def test_pages_attributes_and_tags(run: Scenario) -> None:
    seen = run("queues")
    assert [len(page) for page in seen["pages"]] == [4, 4, 2]
    assert sorted(at for page in seen["pages"] for at in page) == [str(at) for at in range(10)]
    assert seen["visibility"] == "77"
    assert seen["tags"] == {"team": "orders"}
