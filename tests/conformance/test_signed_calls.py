"""Unmodified clients against a server that verifies, and what it tells those it refuses."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from data_plane.core.errors import (
    INCOMPLETE_SIGNATURE,
    INVALID_ADDRESS,
    INVALID_CLIENT_TOKEN,
    INVALID_SECURITY,
    MISSING_AUTHENTICATION_TOKEN,
    SIGNATURE_DOES_NOT_MATCH,
)
from data_plane.protocol.http import HttpRequest
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.raw_calls import (
    AUTHORIZATION,
    Reply,
    form_request,
    json_request,
    read_reply,
    url,
)
from tests.conformance.runners import NewRunner

FAULTS = (
    *(INCOMPLETE_SIGNATURE, INVALID_ADDRESS, INVALID_CLIENT_TOKEN, INVALID_SECURITY),
    *(MISSING_AUTHENTICATION_TOKEN, SIGNATURE_DOES_NOT_MATCH),
)
CODES = {fault.code for fault in FAULTS}
SIGNED_LONG_AGO = AUTHORIZATION.replace("=host,", "=host;x-amz-date,")
ODD = "a b+c%2F&=;/?#~\u00fc\u20ac\U0001f600\n\t'\"*()!"


class Verifying(InProcessServer):
    """A server with an account, and a key of its root."""

    def __init__(self, new_runner: NewRunner | None = None) -> None:
        super().__init__(new_runner, verifies=True)
        self.run(self.accounts.create_account("tests", ACCOUNT, {}))
        self.key = self.run(self.accounts.create_key(ACCOUNT))

    def signing_client(self, protocol: str, secret: str = "", region: str = REGION) -> Any:
        return self.client(protocol, self.key.id, region, secret=secret or self.key.secret)


@pytest.fixture
def server() -> Iterator[Verifying]:
    started = Verifying()
    yield started
    started.close()


PARAMS: dict[str, Any] = {
    "QueueName": "orders",
    "QueueUrl": url("orders"),
    "MessageBody": ODD,
    "ReceiptHandle": "x",
    "VisibilityTimeout": 0,
    "Attributes": {"VisibilityTimeout": "5"},
    "tags": {"k": "v"},
    "Tags": {"k": "v"},
    "TagKeys": ["k"],
    "Label": "l",
    "AWSAccountIds": [ACCOUNT],
    "Actions": ["SendMessage"],
    "SourceArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders",
    "TaskHandle": "x",
    "AttributeNames": ["All"],
}
ENTRIES = {
    "SendMessageBatch": [{"Id": "a", "MessageBody": ODD}],
    "DeleteMessageBatch": [{"Id": "a", "ReceiptHandle": "x"}],
    "ChangeMessageVisibilityBatch": [{"Id": "a", "ReceiptHandle": "x", "VisibilityTimeout": 0}],
}


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_every_operation_of_a_client_is_accepted(server: Verifying, protocol: str) -> None:
    client = server.signing_client(protocol)
    client.create_queue(QueueName="orders")
    operations = client.meta.service_model.operation_names
    assert len(operations) == 23
    refused = []
    for name in sorted(operations, key=lambda operation: operation == "DeleteQueue"):
        members = client.meta.service_model.operation_model(name).input_shape.members
        params = {member: PARAMS[member] for member in members if member in PARAMS}
        if name in ENTRIES:
            params["Entries"] = ENTRIES[name]
        try:
            client._make_api_call(name, params)
        except ClientError:
            refused.append(name)  # by the operation itself: there are no such messages and tasks
        assert server.served[-1].code not in CODES, name
        assert (server.served[-1].account, server.served[-1].region) == (ACCOUNT, REGION)
    assert len(refused) < 10, refused


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_a_message_round_trip(server: Verifying, protocol: str) -> None:
    client = server.signing_client(protocol)
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody=ODD)
    (message,) = client.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == ODD
    client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def test_a_presigned_address(server: Verifying) -> None:
    client = server.signing_client("query")
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    address = client.generate_presigned_url(
        "send_message",
        Params={"QueueUrl": queue, "MessageBody": ODD},
        ExpiresIn=60,
        HttpMethod="GET",
    )
    parts = urlsplit(address)
    request = HttpRequest("GET", parts.path, parts.query, {"host": parts.netloc}, b"")
    reply = read_reply(server.answer(request), "query")
    assert reply.status == 200, reply
    server.clock.advance(120)  # the client signs by its own clock, which may be later
    reply = read_reply(server.answer(request), "query")
    assert reply.code == "SignatureDoesNotMatch"
    assert reply.message.startswith("Signature expired: ")
    (message,) = client.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == ODD


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_a_wrong_secret(server: Verifying, protocol: str) -> None:
    client = server.signing_client(protocol, secret="wrong")
    with pytest.raises(ClientError) as refused:
        client.list_queues()
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_a_revoked_key(server: Verifying, protocol: str) -> None:
    client = server.signing_client(protocol)
    client.list_queues()
    server.run(server.accounts.revoke_key(ACCOUNT, server.key.id))
    with pytest.raises(ClientError) as refused:
        client.list_queues()
    assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"


def test_each_region_has_queues_of_its_own(server: Verifying) -> None:
    server.signing_client("json").create_queue(QueueName="orders")
    elsewhere = server.signing_client("json", region="us-west-2")
    assert "QueueUrls" not in elsewhere.list_queues()


@pytest.mark.parametrize("protocol", ["json", "query", "legacy-json"])
@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("", "MissingAuthenticationToken"),
        ("AWS a:b", "InvalidSecurity"),
        ("AWS4-HMAC-SHA256 Credential=a", "IncompleteSignature"),
        (AUTHORIZATION, "IncompleteSignature"),
        (AUTHORIZATION.replace("/sqs/", "/sns/"), "IncompleteSignature"),
        (SIGNED_LONG_AGO, "SignatureDoesNotMatch"),
    ],
)
def test_refusals_in_every_protocol(
    server: Verifying, protocol: str, authorization: str, code: str
) -> None:
    request = (
        json_request("ListQueues", {})
        if protocol == "json"
        else form_request(b"Action=ListQueues", {"accept": "application/json"})
        if protocol == "legacy-json"
        else form_request(b"Action=ListQueues")
    )
    headers = {**request.headers, "authorization": authorization}
    if authorization is SIGNED_LONG_AGO:
        headers["x-amz-date"] = "20260101T000000Z"
    if not authorization:
        del headers["authorization"]
    reply = read_reply(server.answer(replace(request, headers=headers)), protocol)
    assert reply == Reply(reply.status, code, reply.message)
    assert reply.message
    served = server.served[-1]
    assert (served.code, served.account, served.operation) == (code, "", "ListQueues")
    assert served.exception is None
