"""The deployed functions over HTTP, through API Gateway and through a function URL, with boto3."""

import random
import time
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.conformance.client_calls import error, nothing, one
from tests.rehearsal.deployment.conftest import Rehearsal
from tests.rehearsal.deployment.deployed import sqs_client
from tests.rehearsal.emulators import REGION

pytestmark = pytest.mark.xdist_group("deployment")

_NUMBERS = count()


def new_queue(sqs: Any, suffix: str = "", **attributes: str) -> str:
    """The URL of a queue that nobody had before: names of deleted ones are taken for a minute."""
    name = f"orders-{next(_NUMBERS)}{suffix}"
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def test_a_message_is_sent_received_and_deleted(sqs: Any) -> None:
    queue = new_queue(sqs)
    attributes = {"trace": {"DataType": "Binary", "BinaryValue": b"\0\xff"}}
    sent = sqs.send_message(
        QueueUrl=queue, MessageBody="first \N{SNOWMAN}", MessageAttributes=attributes
    )
    message = one(sqs, queue, MessageAttributeNames=["All"])
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "first \N{SNOWMAN}")
    assert message["MessageAttributes"] == attributes
    assert nothing(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    sqs.purge_queue(QueueUrl=queue)
    assert sqs.get_queue_url(QueueName=queue.rpartition("/")[2])["QueueUrl"] == queue


def test_a_batch(sqs: Any) -> None:
    queue = new_queue(sqs)
    entries = [{"Id": str(n), "MessageBody": f"number {n}"} for n in range(10)]
    assert len(sqs.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]) == 10
    handles: dict[str, str] = {}
    while len(handles) < 10:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        handles |= {m["Body"]: m["ReceiptHandle"] for m in answer["Messages"]}
    assert set(handles) == {entry["MessageBody"] for entry in entries}
    deletions = [{"Id": str(n), "ReceiptHandle": h} for n, h in enumerate(handles.values())]
    assert len(sqs.delete_message_batch(QueueUrl=queue, Entries=deletions)["Successful"]) == 10


def test_a_fifo_queue(sqs: Any) -> None:
    queue = new_queue(sqs, ".fifo", FifoQueue="true", ContentBasedDeduplication="true")
    for body in ("first", "second", "first"):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId="group")
    received = one_by_one(sqs, queue)
    assert received == ["first", "second"]


def one_by_one(sqs: Any, queue: str) -> list[str]:
    """Bodies as they come, each deleted before the next is asked for."""
    bodies = []
    while messages := sqs.receive_message(QueueUrl=queue).get("Messages"):
        bodies.append(messages[0]["Body"])
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=messages[0]["ReceiptHandle"])
    return bodies


def test_a_long_poll_returns_early(sqs: Any) -> None:
    """A deployment that says a second answers before a message is due, which is no time measured.

    A poll of all the 20 s that are asked for would find it: it began after the message was sent.
    """

    def ends_before_it_is_due() -> bool:
        queue = new_queue(sqs)
        sqs.send_message(QueueUrl=queue, MessageBody="due within the poll", DelaySeconds=15)
        began_s = time.monotonic()
        messages = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages")
        assert messages or time.monotonic() - began_s >= 1, "it did not wait"
        return not messages

    # Where nothing ran for the 15 s between the two calls, the next try says it.
    assert any(ends_before_it_is_due() for _ in range(10))


def test_a_body_too_big_for_an_item_lies_in_the_bucket(sqs: Any, rehearsal: Rehearsal) -> None:
    bucket = rehearsal.deployed.the("AWS::S3::Bucket", "bodies")
    storage = rehearsal.deployed.aws("s3")

    def objects() -> int:
        return int(storage.list_objects_v2(Bucket=bucket).get("KeyCount", 0))

    queue, before = new_queue(sqs), objects()
    body = random.Random(4).randbytes(200_000).hex()
    sqs.send_message(QueueUrl=queue, MessageBody=body)
    assert objects() == before + 1
    assert one(sqs, queue)["Body"] == body


def test_signatures_are_verified(sqs: Any, rehearsal: Rehearsal, door: str) -> None:
    queue = new_queue(sqs)
    key_id, secret = rehearsal.access_key
    forged = sqs_client(rehearsal.door(door), (key_id, secret[::-1]))
    code, _, status = error(forged.send_message, QueueUrl=queue, MessageBody="forged")
    assert (code, status) == ("SignatureDoesNotMatch", 403)
    stranger = sqs_client(rehearsal.door(door), ("AKIAIOSFODNN7EXAMPLE", secret))
    code, _, status = error(stranger.list_queues)
    assert (code, status) == ("InvalidClientTokenId", 403)
    assert nothing(sqs, queue)


def test_a_presigned_address_and_an_altered_one(sqs: Any, rehearsal: Rehearsal, door: str) -> None:
    queue = new_queue(sqs)
    parts = urlencode(
        {"Action": "SendMessage", "MessageBody": "pre signed", "Version": "2012-11-05"}
    )
    address = f"{rehearsal.door(door)}000000000000/{queue.rpartition('/')[2]}?{parts}"
    request = AWSRequest("GET", address.replace("+", "%20"))
    SigV4QueryAuth(Credentials(*rehearsal.access_key), "sqs", REGION, expires=60).add_auth(request)
    signed = str(request.url)
    with urllib3.PoolManager() as pool:
        altered = pool.request("GET", signed.replace("pre%20signed", "altered"), retries=False)
        assert (altered.status, b"SignatureDoesNotMatch" in altered.data) == (403, True)
        answer = pool.request("GET", signed, retries=False)
        assert (answer.status, b"<SendMessageResult>" in answer.data) == (200, True), answer.data
    assert one(sqs, queue)["Body"] == "pre signed"


def test_a_server_on_the_same_table_is_one_more_door(
    sqs: Any, rehearsal: Rehearsal, tmp_path: Path
) -> None:
    """Front ends of two kinds: each finds what the other was sent, and nobody gets it twice."""
    server = rehearsal.server(tmp_path / "log")
    server.start()
    try:
        long_lived = server.client(attempts=3)
        queue = new_queue(sqs, VisibilityTimeout="3600")
        sqs.send_message(QueueUrl=queue, MessageBody="by the function")
        name = queue.rpartition("/")[2]
        there = long_lived.get_queue_url(QueueName=name)["QueueUrl"]
        long_lived.send_message(QueueUrl=there, MessageBody="by the server")
        taken: list[str] = []
        for client, url in ((long_lived, there), (sqs, queue)):
            answer = client.receive_message(QueueUrl=url, WaitTimeSeconds=1)
            (message,) = answer["Messages"]
            taken.append(message["Body"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        assert sorted(taken) == ["by the function", "by the server"]
        assert nothing(long_lived, there)
        assert nothing(sqs, queue)
    finally:
        server.kill()
