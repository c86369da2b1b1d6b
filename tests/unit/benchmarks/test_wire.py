import json

import pytest

from tests.benchmarks import wire

URL = "http://127.0.0.1:9324/000000000000/q"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: "


def parts(request: wire.Request) -> tuple[dict[str, str], bytes]:
    head, _, body = bytes(request.raw).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST / HTTP/1.1"
    return dict(line.split(": ", 1) for line in lines[1:]), body


def test_request_tells_its_length_and_operation() -> None:
    headers, body = parts(wire.send_requests(9324, URL)[0])
    assert headers["X-Amz-Target"] == "AmazonSQS.SendMessage"
    assert int(headers["Content-Length"]) == len(body)
    params = json.loads(body)
    assert params["QueueUrl"] == URL
    assert len(params["MessageBody"]) == wire.BODY_BYTES


def test_requests_of_a_kind_have_different_bodies() -> None:
    requests = wire.send_requests(9324, URL)
    assert len({parts(request)[1] for request in requests}) == wire.VARIANTS


def test_naming_the_call_changes_its_id_alone() -> None:
    request = wire.send_requests(9324, URL)[0]
    before, body = parts(request)
    request.name_call(0xABC)
    after, same = parts(request)
    assert after["amz-sdk-invocation-id"].endswith("-000000000abc")
    assert len(after["amz-sdk-invocation-id"]) == 36
    assert {**before, "amz-sdk-invocation-id": ""} == {**after, "amz-sdk-invocation-id": ""}
    assert same == body


def test_stamping_a_batch_stamps_every_body() -> None:
    request = wire.send_batch_requests(9324, URL)[0]
    request.stamp(12_345)
    entries = json.loads(parts(request)[1])["Entries"]
    assert len(entries) == wire.BATCH
    assert {int(entry["MessageBody"][: wire.STAMP_DIGITS]) for entry in entries} == {12_345}


def test_standard_messages_have_no_group() -> None:
    for request in (wire.send_requests(9324, URL)[0], wire.send_batch_requests(9324, URL)[0]):
        request.name_call(1)
        assert b"MessageGroupId" not in request.raw
        assert b"MessageDeduplicationId" not in request.raw


def test_fifo_messages_take_turns_in_their_groups_and_are_no_duplicates() -> None:
    groups: list[str] = []
    ids: list[str] = []
    request = wire.send_batch_requests(9324, URL, message_groups=15)[0]
    for number in (30, 31, 32):
        request.name_call(number)
        headers, body = parts(request)
        assert int(headers["Content-Length"]) == len(body)
        entries = json.loads(body)["Entries"]
        groups += [entry["MessageGroupId"] for entry in entries]
        ids += [entry["MessageDeduplicationId"] for entry in entries]
    assert groups == [f"{group:06}" for group in (*range(15), *range(15))]
    assert len(set(ids)) == 3 * wire.BATCH


def test_a_single_fifo_message_has_the_group_whose_turn_it_is() -> None:
    request = wire.send_requests(9324, URL, message_groups=2)[0]
    seen = []
    for number in (4, 5):
        request.name_call(number)
        params = json.loads(parts(request)[1])
        seen.append((params["MessageGroupId"], params["MessageDeduplicationId"]))
    assert seen == [("000000", "000000000004-0"), ("000001", "000000000005-0")]


def test_deletes_carry_the_handles() -> None:
    deletes = wire.DeleteTemplate(9324, URL)
    headers, body = parts(deletes.delete_batch([b"one", b"two"]))
    assert headers["X-Amz-Target"] == "AmazonSQS.DeleteMessageBatch"
    assert int(headers["Content-Length"]) == len(body)
    assert [entry["ReceiptHandle"] for entry in json.loads(body)["Entries"]] == ["one", "two"]
    request = deletes.delete(b"three")
    request.name_call(7)
    headers, body = parts(request)
    assert headers["X-Amz-Target"] == "AmazonSQS.DeleteMessage"
    assert headers["amz-sdk-invocation-id"].endswith("-000000000007")
    assert json.loads(body) == {"QueueUrl": URL, "ReceiptHandle": "three"}


def test_response_size_is_unknown_until_the_head_is_complete() -> None:
    response = HEAD + b"5\r\n\r\nabcde"
    sizes = {wire.response_size(response[:end]) for end in range(len(HEAD) + 5)}
    assert sizes == {0}
    assert wire.response_size(response[: len(HEAD) + 5]) == len(response)
    assert wire.response_size(response) == len(response)


def test_response_is_taken_apart() -> None:
    response = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\nx: y\r\n\r\nabc"
    assert wire.response_size(response) == len(response)
    assert wire.response_status(response) == 400
    assert wire.response_body(response) == b"abc"


@pytest.mark.parametrize(
    ("head", "closes"), [("Connection: close", True), ("Connection: x", False)]
)
def test_a_response_may_end_its_connection(head: str, closes: bool) -> None:  # noqa: FBT001
    response = f"HTTP/1.1 200 OK\r\nContent-Length: 19\r\n{head}\r\n\r\n".encode()
    assert wire.says_close(response + b"\r\nconnection: close") is closes


@pytest.mark.parametrize("wrong", [b"junk\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n"])
def test_what_is_no_response_is_an_error(wrong: bytes) -> None:
    with pytest.raises(wire.ResponseError):
        wire.response_size(wrong)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_handles_and_stamps_are_found_however_json_is_spaced(separators: tuple[str, str]) -> None:
    messages = [{"ReceiptHandle": f"h{at}=", "Body": f"{at:020d} rest"} for at in range(3)]
    body = json.dumps({"Messages": messages}, separators=separators).encode()
    assert wire.receipt_handles(body) == [b"h0=", b"h1=", b"h2="]
    assert wire.stamps_ns(body) == [0, 1, 2]


def test_an_empty_receive_has_no_handles() -> None:
    assert wire.receipt_handles(HEAD + b"2\r\n\r\n{}") == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"Successful":[{"Id":"0"}]}', 0),
        (b'{"Successful":[{"Id":"0"}],"Failed":[]}', 0),
        (b'{"Failed": [], "Successful": []}', 0),
        (b'{"Failed":[{"Id":"0"}],"Successful":[]}', 1),
    ],
)
def test_failed_entries_are_noticed(body: bytes, expected: int) -> None:
    assert wire.count_failed(body) == expected
