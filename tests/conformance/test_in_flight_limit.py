"""What a client is told when too many messages of a standard queue are in flight."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from data_plane.stored import in_flight


def test_a_receive_over_the_limit_is_refused(sqs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "IN_FLIGHT_MAX", 20)
    monkeypatch.setattr(in_flight, "IN_FLIGHT_UNSEEN_MAX", 10)
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    for _ in range(3):
        entries = [{"Id": str(at), "MessageBody": "x"} for at in range(10)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    for _ in range(2):
        received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        assert len(received) == 10
    with pytest.raises(ClientError) as refused:
        sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)
    assert refused.value.response["Error"]["Code"] == "OverLimit"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    sqs.delete_message(QueueUrl=url, ReceiptHandle=received[0]["ReceiptHandle"])
    assert len(sqs.receive_message(QueueUrl=url)["Messages"]) == 1
