"""What clients see of encryption, and that nothing they send can be read where it is stored.

Canaries are planted in every member of a message; then everything in a cell, and in the blobs
beside it, is searched for them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from data_plane.dynamodb.opening import connect
from data_plane.embedded.cell import EmbeddedCell
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, MasterKeysError
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.embedded_cell import SMALL
from tests.conformance.in_process import InProcessServer

CANARIES = {
    "body": "CANARY-body",
    "string value": "CANARY-string-value",
    "binary value": "CANARY-binary-value",
    "attribute name": "CANARY-attribute-name",
    "group": "CANARY-group",
    "deduplication id": "CANARY-deduplication-id",
    "trace header": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=CANARY;Sampled=1",
    "receive attempt": "CANARY-receive-attempt",
}
KMS = {"KmsMasterKeyId": "alias/theirs"}
OFF = {"SqsManagedSseEnabled": "false"}

Dump = Callable[[], bytes]


def message(**more: Any) -> dict[str, Any]:
    """A message with a canary in every member."""
    return {
        "MessageBody": CANARIES["body"],
        "MessageAttributes": {
            CANARIES["attribute name"]: {
                "DataType": "String",
                "StringValue": CANARIES["string value"],
            },
            "b": {"DataType": "Binary", "BinaryValue": CANARIES["binary value"].encode()},
        },
        "MessageSystemAttributes": {
            "AWSTraceHeader": {"DataType": "String", "StringValue": CANARIES["trace header"]}
        },
        "MessageGroupId": CANARIES["group"],
        **more,
    }


def plant(server: InProcessServer, attributes: Mapping[str, str]) -> None:
    """Let canaries pass through everything that stores messages."""
    sqs = server.client()
    dead = sqs.create_queue(QueueName="dead", Attributes=attributes)["QueueUrl"]
    redrive = (
        '{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:111122223333:dead","maxReceiveCount":1}'
    )
    url = sqs.create_queue(
        QueueName="standard", Attributes={**attributes, "RedrivePolicy": redrive}
    )["QueueUrl"]
    fifo = sqs.create_queue(
        QueueName="ordered.fifo", Attributes={**attributes, "FifoQueue": "true"}
    )["QueueUrl"]
    sqs.send_message(QueueUrl=url, **message())
    sqs.send_message(QueueUrl=url, **message(DelaySeconds=900))
    big = CANARIES["body"] + "incompressible".join(map(str, range(200)))
    sqs.send_message_batch(
        QueueUrl=url,
        Entries=[{"Id": "1", **message()}, {"Id": "2", **message(MessageBody=big)}],
    )
    dedup = {"MessageDeduplicationId": CANARIES["deduplication id"]}
    sqs.send_message(QueueUrl=fifo, **message(**dedup))
    received = {"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    got = sqs.receive_message(
        QueueUrl=fifo, ReceiveRequestAttemptId=CANARIES["receive attempt"], **received
    )["Messages"]
    assert got[0]["Body"] == CANARIES["body"]
    assert got[0]["Attributes"]["MessageDeduplicationId"] == CANARIES["deduplication id"]
    for _ in range(2):  # The second receive moves to the dead-letter queue.
        sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0, WaitTimeSeconds=0
        )
    moved = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10, **received)["Messages"]
    assert moved[0]["MessageAttributes"].keys() == {CANARIES["attribute name"], "b"}


@contextmanager
def in_memory(_directory: Path) -> Iterator[tuple[InProcessServer, Dump]]:
    server = InProcessServer()

    def dump() -> bytes:
        assert isinstance(server.cell, MemoryCell)
        return repr(server.cell.items()).encode()

    try:
        yield server, dump
    finally:
        server.close()


@contextmanager
def embedded(directory: Path) -> Iterator[tuple[InProcessServer, Dump]]:
    server = InProcessServer(new_cell=lambda clock, _: EmbeddedCell(directory, clock, SMALL))
    try:
        yield server, (directory / "data.mdb").read_bytes
        assert isinstance(server.cell, EmbeddedCell)
        server.run(server.cell.close())
    finally:
        server.close()


@contextmanager
def on_dynamodb(_directory: Path) -> Iterator[tuple[InProcessServer, Dump]]:
    with mock_aws():
        client = connect("", "us-east-1", connections_max=1)
        with serving_on_dynamodb(client) as server:

            def dump() -> bytes:
                (table,) = client.list_tables()["TableNames"]
                items = client.scan(TableName=table)["Items"]
                bodies = server.engine.bag._desk.bodies["a"]._blobs
                assert len(bodies._stored) >= 3  # type: ignore[attr-defined]
                return repr([items, bodies._stored]).encode()  # type: ignore[attr-defined]

            yield server, dump


@pytest.mark.parametrize("cell", [in_memory, embedded, on_dynamodb])
@pytest.mark.parametrize("attributes", [{}, KMS], ids=["managed", "KMS"])
def test_nothing_that_is_sent_can_be_read_where_it_is_stored(
    cell: Any, attributes: Mapping[str, str], tmp_path: Path
) -> None:
    with cell(tmp_path) as (server, dump):
        plant(server, attributes)
        stored = dump()
        assert len(stored) > 2000
        found = [member for member, canary in CANARIES.items() if canary.encode() in stored]
        assert found == []
        assert b"CANARY" not in stored


@pytest.mark.parametrize("cell", [in_memory, embedded, on_dynamodb])
def test_without_encryption_the_search_finds_what_is_stored(cell: Any, tmp_path: Path) -> None:
    with cell(tmp_path) as (server, dump):
        plant(server, OFF)
        stored = dump()
        found = {member for member, canary in CANARIES.items() if canary.encode() in stored}
        assert found == CANARIES.keys() - {"receive attempt"}


# What callers are told


@pytest.mark.parametrize("protocol", ["json", "query"])
@pytest.mark.parametrize(
    ("reason", "shape", "code"),
    [
        ("AccessDenied", "KmsAccessDenied", "KMS.AccessDeniedException"),
        ("Disabled", "KmsDisabled", "KMS.DisabledException"),
        ("InvalidKeyUsage", "KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException"),
        ("KMSInvalidState", "KmsInvalidState", "KMS.InvalidStateException"),
        ("NotFound", "KmsNotFound", "KMS.NotFoundException"),
        ("OptInRequired", "KmsOptInRequired", "KMS.OptInRequired"),
        ("Throttling", "KmsThrottled", "KMS.ThrottlingException"),
    ],
)
def test_refusals_of_kms_reach_the_client(
    server: InProcessServer, protocol: str, reason: str, shape: str, code: str
) -> None:
    sqs = server.client(protocol)
    url = sqs.create_queue(QueueName="q", Attributes=KMS)["QueueUrl"]
    fifo = sqs.create_queue(QueueName="q.fifo", Attributes={**KMS, "FifoQueue": "true"})["QueueUrl"]
    group = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    sqs.send_message(QueueUrl=url, MessageBody="a")
    sqs.send_message(QueueUrl=fifo, MessageBody="a", **group)
    server.clock.advance(301)
    server.master_keys.failure = MasterKeysError(reason, "The reason.")
    entries = [{"Id": "1", "MessageBody": "b"}]
    calls: list[Callable[[], Any]] = [
        lambda: sqs.send_message(QueueUrl=url, MessageBody="b"),
        lambda: sqs.send_message_batch(QueueUrl=url, Entries=entries),
        lambda: sqs.receive_message(QueueUrl=url),
        lambda: sqs.send_message(
            QueueUrl=fifo, MessageBody="b", **{**group, "MessageDeduplicationId": "e"}
        ),
        lambda: sqs.receive_message(QueueUrl=fifo),
    ]
    for call in calls:
        with pytest.raises(ClientError) as refusal:
            call()
        assert refusal.value.response["Error"]["Code"] == code
        assert refusal.value.response["Error"]["Message"] == "The reason."
        assert type(refusal.value).__name__ in {shape, "ClientError"}
    status = refusal.value.response["ResponseMetadata"]["HTTPStatusCode"]
    assert status == (403 if shape == "KmsOptInRequired" else 400)
    server.master_keys.failure = None
    for queue in (url, fifo):
        (got,) = sqs.receive_message(QueueUrl=queue, AttributeNames=["All"])["Messages"]
        assert (got["Body"], got["Attributes"]["ApproximateReceiveCount"]) == ("a", "1")


def test_while_kms_does_not_answer_calls_are_unavailable(server: InProcessServer) -> None:
    sqs = server.client()
    url = sqs.create_queue(QueueName="q", Attributes=KMS)["QueueUrl"]
    server.master_keys.failure = CellUnavailableError("KMS: away")
    with pytest.raises(ClientError) as refusal:
        sqs.send_message(QueueUrl=url, MessageBody="a")
    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503


def test_turning_encryption_on_or_off_affects_new_messages_only(server: InProcessServer) -> None:
    sqs = server.client()
    url = sqs.create_queue(QueueName="q", Attributes=OFF)["QueueUrl"]
    sent = []
    for attributes in (
        {"SqsManagedSseEnabled": "false"},
        {"SqsManagedSseEnabled": "true"},
        {"KmsMasterKeyId": "alias/one"},
        {"KmsMasterKeyId": "alias/two", "KmsDataKeyReusePeriodSeconds": "60"},
        {"KmsMasterKeyId": "", "SqsManagedSseEnabled": "false"},
    ):
        sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
        sent.append(str(attributes))
        sqs.send_message(QueueUrl=url, MessageBody=sent[-1])
    got: list[str] = []
    reader = server.another().client()
    while messages := reader.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        got += [one["Body"] for one in messages]
    assert sorted(got) == sorted(sent)
