from typing import Any

import pytest

from tests.unit.data_plane.wire import ACCOUNT, URL, FakeBag, Server, queue_with

INVOCATION = {"amz-sdk-invocation-id": "i-1", "amz-sdk-request": "attempt=1; max=6"}
RETRY = {"amz-sdk-invocation-id": "i-1", "amz-sdk-request": "attempt=2; max=6"}


def entries(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"QueueUrl": URL, "Entries": list(messages)}


def test_a_plain_message() -> None:
    server = Server()
    status, answer = server.json("SendMessage", {"QueueUrl": URL, "MessageBody": "hello"})
    assert status == 200
    assert answer == {
        "MessageId": "00000000-0000-0000-0000-000000000000",
        "MD5OfMessageBody": "5d41402abc4b2a76b9719d911017c592",
    }
    assert server.bag.messages[0].sender == ACCOUNT
    assert server.bag.outgoing[0].delay_s is None
    assert (server.served[0].messages, server.served[0].bytes) == (1, 5)


def test_everything_a_message_can_have() -> None:
    server = Server()
    status, answer = server.json(
        "SendMessage",
        {
            "QueueUrl": URL,
            "MessageBody": "hello",
            "DelaySeconds": 7,
            "MessageGroupId": "tenant-1",
            "MessageAttributes": {
                "DummyName": {"DataType": "String", "StringValue": "dummy value"}
            },
            "MessageSystemAttributes": {
                "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}
            },
        },
    )
    assert status == 200
    assert answer["MD5OfMessageAttributes"] == "ceb4493d294c7939e5ef8d20ee169e02"
    assert len(answer["MD5OfMessageSystemAttributes"]) == 32
    (sent,) = server.bag.outgoing
    assert (sent.delay_s, sent.group, sent.trace_header) == (7, "tenant-1", "Root=1")
    assert server.served[0].bytes == sent.size == 5 + 9 + 6 + 11


TRACE = "Root=1-3152b799-8954dae64eda91bc9a23a7e8;Parent=7fa8c0f79203be72;Sampled=1"
OWN = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=own"}}


def test_messages_belong_to_the_trace_of_their_call_or_to_their_own() -> None:
    server = Server()
    params = {"QueueUrl": URL, "MessageBody": "x"}
    headers = {"x-amzn-trace-id": TRACE}
    for given in ({}, {"MessageSystemAttributes": OWN}):
        status, answer = server.json("SendMessage", {**params, **given}, headers)
        assert status == 200
        assert ("MD5OfMessageSystemAttributes" in answer) is bool(given)
    batch = entries(
        {"Id": "1", "MessageBody": "b"},
        {"Id": "2", "MessageBody": "b", "MessageSystemAttributes": OWN},
    )
    assert len(server.json("SendMessageBatch", batch, headers)[1]["Successful"]) == 2
    assert server.json("SendMessage", params)[0] == 200
    traces = [message.trace_header for message in server.bag.outgoing]
    assert traces == [TRACE, "Root=own", TRACE, "Root=own", ""]
    assert [served.bytes for served in server.served] == [1, 1, 2, 1]


def test_a_call_that_is_repeated_under_another_trace_is_the_same_call() -> None:
    server = Server()
    params = {"QueueUrl": URL, "MessageBody": "x"}
    for headers, trace in ((INVOCATION, TRACE), (RETRY, TRACE.replace("7", "8")), (RETRY, "")):
        server.json("SendMessage", params, {**headers, "x-amzn-trace-id": trace})
    assert len({call for call, _ in server.bag.sends}) == 1
    server.json("SendMessage", {**params, "MessageSystemAttributes": OWN}, RETRY)
    assert len({call for call, _ in server.bag.sends}) == 2


@pytest.mark.parametrize("params", [{}, {"MessageBody": ""}, {"MessageBody": None}])
def test_a_message_needs_a_body(params: dict[str, Any]) -> None:
    server = Server()
    status, answer = server.json("SendMessage", {"QueueUrl": URL, **params})
    assert status == 400
    assert answer == {
        "__type": "com.amazon.coral.service#MissingRequiredParameterException",
        "message": "The request must contain the parameter MessageBody.",
    }
    assert not server.bag.sends


@pytest.mark.parametrize("bytes_max", [1024, 1_048_576])
def test_the_queue_limits_the_size_of_messages(bytes_max: int) -> None:
    server = Server(queue=queue_with(message_bytes_max=bytes_max))
    attributes = {"n": {"DataType": "Binary", "BinaryValue": "AAAA"}}
    fits = "x" * (bytes_max - 1 - 6 - 3)
    params = {"QueueUrl": URL, "MessageBody": fits, "MessageAttributes": attributes}
    assert server.json("SendMessage", params)[0] == 200
    status, answer = server.json("SendMessage", {**params, "MessageBody": fits + "x"})
    assert status == 400
    assert answer["message"] == (
        f"One or more parameters are invalid. Reason: Message must be shorter than {bytes_max} "
        "bytes."
    )
    assert len(server.bag.sends) == 1


def test_repeated_calls_are_named_alike_and_others_are_not() -> None:
    server = Server()
    params = {"QueueUrl": URL, "MessageBody": "hello"}
    server.json("SendMessage", params)
    server.json("SendMessage", params, INVOCATION)
    server.json("SendMessage", params, RETRY)
    server.json("SendMessage", {**params, "MessageBody": "other"}, INVOCATION)
    server.json("SendMessage", params, {**INVOCATION, "amz-sdk-invocation-id": "i-2"})
    server.json("SendMessageBatch", entries({"Id": "a", "MessageBody": "hello"}), INVOCATION)
    unnamed, first, second, *others = server.bag.sends
    assert unnamed == (b"", False)
    assert first == (first[0], False)
    assert second == (first[0], True)
    assert len({call for call, _ in (first, *others)}) == 4
    assert {len(call) for call, _ in (first, *others)} == {16}


def test_a_batch_reports_each_entry_by_itself() -> None:
    server = Server(queue=queue_with(message_bytes_max=1024))
    status, answer = server.json(
        "SendMessageBatch",
        entries(
            {"Id": "good-1", "MessageBody": "a"},
            {"Id": "long", "MessageBody": "x" * 1025},
            {"Id": "odd", "MessageBody": "\x01"},
            {"Id": "good_2", "MessageBody": "\u00fc", "DelaySeconds": 900},
            {"Id": "late", "MessageBody": "b", "DelaySeconds": 901},
            {"Id": "none"},
            {"Id": "empty", "MessageBody": ""},
        ),
    )
    assert status == 200
    assert [entry["Id"] for entry in answer["Successful"]] == ["good-1", "good_2"]
    assert [entry["MessageId"][-1] for entry in answer["Successful"]] == ["0", "1"]
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [
        ("long", "InvalidParameterValue", True),
        ("odd", "InvalidMessageContents", True),
        ("late", "InvalidParameterValue", True),
        ("none", "MissingParameter", True),
        ("empty", "MissingParameter", True),
    ]
    assert answer["Failed"][0]["Message"] == (
        "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 "
        "bytes."
    )
    served = server.served[0]
    assert answer["Failed"][-1]["Message"] == (
        "The request must contain the parameter SendMessageBatchRequestEntry.7.MessageBody."
    )
    assert (served.messages, served.bytes, served.failed_entries) == (2, 3, 5)
    assert len(server.bag.sends) == 1


def test_empty_lists_are_left_out() -> None:
    server = Server()
    good, bad = {"Id": "a", "MessageBody": "a"}, {"Id": "b", "MessageBody": "\0"}
    assert "Failed" not in server.json("SendMessageBatch", entries(good))[1]
    assert "Successful" not in server.json("SendMessageBatch", entries(bad))[1]
    assert len(server.bag.sends) == 1


def good(number: int) -> dict[str, Any]:
    return {"Id": str(number), "MessageBody": "b"}


@pytest.mark.parametrize(
    ("batch", "shape", "message"),
    [
        (
            [],
            "EmptyBatchRequest",
            "There should be at least one SendMessageBatchRequestEntry in the request.",
        ),
        (
            [good(number) for number in range(11)],
            "TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 10. You have sent 11.",
        ),
        ([good(1), good(1)], "BatchEntryIdsNotDistinct", "Id 1 repeated."),
        (
            [{"Id": "a b", "MessageBody": "b"}],
            "InvalidBatchEntryId",
            (
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                "underscores. It can be at most 80 letters long."
            ),
        ),
        (
            [{"Id": "a" * 81, "MessageBody": "b"}],
            "InvalidBatchEntryId",
            (
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                "underscores. It can be at most 80 letters long."
            ),
        ),
        (
            [good(1), {"MessageBody": "b"}],
            "MissingRequiredParameterException",
            "The request must contain the parameter SendMessageBatchRequestEntry.2.Id.",
        ),
        (
            [
                {"Id": "a", "MessageBody": "x" * 1_048_576},
                {"Id": "b", "MessageBody": "y"},
            ],
            "BatchRequestTooLong",
            "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
        ),
    ],
)
def test_rules_of_whole_batches(batch: list[dict[str, Any]], shape: str, message: str) -> None:
    server = Server()
    status, answer = server.json("SendMessageBatch", {"QueueUrl": URL, "Entries": batch})
    assert status == 400
    assert answer["__type"].partition("#")[2] == shape
    assert answer["message"] == message
    assert not server.bag.sends


def test_batches_inside_the_limits() -> None:
    server = Server()
    batch = [{"Id": "a" * 79 + str(number), "MessageBody": "b"} for number in range(10)]
    assert len(server.json("SendMessageBatch", entries(*batch))[1]["Successful"]) == 10
    half = "x" * 524_288
    batch = [{"Id": "a", "MessageBody": half}, {"Id": "b", "MessageBody": half}]
    assert len(server.json("SendMessageBatch", entries(*batch))[1]["Successful"]) == 2


def test_entries_are_required() -> None:
    status, answer = Server().json("SendMessageBatch", {"QueueUrl": URL})
    assert (status, answer["message"]) == (
        400,
        "The request must contain the parameter Entries.",
    )
    assert FakeBag().sends == []
