"""DeleteMessage, ChangeMessageVisibility and their batches."""

from typing import Any

import pytest

from tests.unit.data_plane.wire import URL, Server, handle


def test_a_delete() -> None:
    server = Server()
    params = {"QueueUrl": URL, "ReceiptHandle": handle(4)}
    assert server.json("DeleteMessage", params) == (200, {})
    assert server.bag.deleted == [4]
    assert server.served[0].messages == 1


@pytest.mark.parametrize("action", ["DeleteMessage", "ChangeMessageVisibility"])
def test_a_handle_that_is_none(action: str) -> None:
    server = Server()
    status, answer = server.json(
        action, {"QueueUrl": URL, "ReceiptHandle": "garbage", "VisibilityTimeout": 1}
    )
    assert status == 404
    assert answer == {
        "__type": "com.amazonaws.sqs#ReceiptHandleIsInvalid",
        "message": 'The input receipt handle "garbage" is not a valid receipt handle.',
    }
    assert not server.bag.deleted
    assert not server.bag.changed


def test_a_refusal_of_the_store_is_the_answer() -> None:
    for action in ("DeleteMessage", "ChangeMessageVisibility"):
        params = {"QueueUrl": URL, "ReceiptHandle": handle(99), "VisibilityTimeout": 1}
        assert Server().json(action, params)[1]["message"] == "gone"


def test_the_engine_is_told_of_repeated_changes() -> None:
    server = Server()
    change = {"ReceiptHandle": handle(1), "VisibilityTimeout": 1}
    batch = {"QueueUrl": URL, "Entries": [{"Id": "one", **change}]}
    for attempt in (1, 2):
        headers = {"amz-sdk-invocation-id": "i", "amz-sdk-request": f"attempt={attempt}; max=3"}
        server.json("ChangeMessageVisibility", {"QueueUrl": URL, **change}, headers)
        server.json("ChangeMessageVisibilityBatch", batch, headers)
    assert server.bag.repeated == [False, False, True, True]


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("DeleteMessage", "ReceiptHandle"),
        ("ChangeMessageVisibility", "ReceiptHandle"),
        ("ChangeMessageVisibility", "VisibilityTimeout"),
        ("DeleteMessageBatch", "Entries"),
        ("ChangeMessageVisibilityBatch", "Entries"),
    ],
)
def test_required_parameters(action: str, name: str) -> None:
    params = {"QueueUrl": URL, "ReceiptHandle": handle(1), "VisibilityTimeout": 1}
    params.pop(name, None)
    status, answer = Server().json(action, params)
    said = "MessageHandle" if (action, name) == ("DeleteMessage", "ReceiptHandle") else name
    assert (status, answer["message"]) == (
        400,
        f"The request must contain the parameter {said}.",
    )


@pytest.mark.parametrize(
    ("timeout_s", "ok"), [(0, True), (43_200, True), (-1, False), (43_201, False)]
)
def test_limits_of_visibility(timeout_s: int, *, ok: bool) -> None:
    server = Server()
    params = {"QueueUrl": URL, "ReceiptHandle": handle(1), "VisibilityTimeout": timeout_s}
    status, answer = server.json("ChangeMessageVisibility", params)
    assert status == (200 if ok else 400)
    assert server.bag.changed == ([(1, timeout_s)] if ok else [])
    if not ok:
        assert answer["message"] == (
            f"Value {timeout_s} for parameter VisibilityTimeout is invalid. "
            "Reason: Must be >= 0 and <= 43200, if provided."
        )


def batch(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"QueueUrl": URL, "Entries": list(entries)}


def test_a_batch_of_deletes() -> None:
    server = Server()
    status, answer = server.json(
        "DeleteMessageBatch",
        batch(
            {"Id": "a", "ReceiptHandle": handle(1)},
            {"Id": "b", "ReceiptHandle": "garbage"},
            {"Id": "c", "ReceiptHandle": handle(99)},
            {"Id": "d", "ReceiptHandle": handle(2)},
        ),
    )
    assert status == 200
    assert answer["Successful"] == [{"Id": "a"}, {"Id": "d"}]
    assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [
        ("b", "ReceiptHandleIsInvalid"),
        ("c", "ReceiptHandleIsInvalid"),
    ]
    assert server.bag.deleted == [1, 99, 2]
    assert (server.served[0].messages, server.served[0].failed_entries) == (2, 2)


def test_a_batch_of_changes() -> None:
    server = Server()
    _, answer = server.json(
        "ChangeMessageVisibilityBatch",
        batch(
            {"Id": "a", "ReceiptHandle": handle(1), "VisibilityTimeout": 0},
            {"Id": "b", "ReceiptHandle": handle(2), "VisibilityTimeout": 43_201},
        ),
    )
    assert answer["Successful"] == [{"Id": "a"}]
    assert answer["Failed"][0]["Code"] == "InvalidParameterValue"
    assert server.bag.changed == [(1, 0)]


@pytest.mark.parametrize("action", ["DeleteMessageBatch", "ChangeMessageVisibilityBatch"])
def test_batches_name_their_entries_in_refusals(action: str) -> None:
    server = Server()
    assert server.json(action, batch())[1]["message"] == (
        f"There should be at least one {action}RequestEntry in the request."
    )
    assert server.json(
        action, batch({"Id": "a", "ReceiptHandle": "garbage", "VisibilityTimeout": 1})
    )[1].keys() == {"Failed"}
    assert not server.bag.deleted
    assert not server.bag.changed
