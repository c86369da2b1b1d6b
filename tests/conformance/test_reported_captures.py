"""Captures of what Amazon SQS answers that pedrosakuma/aws2azure keeps, and what is answered here.

Its files are tests/Aws2Azure.Conformance/fixtures/sqs/CASE/STEP.aws.golden: status, content type
and elements of an answer, down to its result. Values are not kept, nor is the order.
"""

import json
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from data_plane.core.caller import AccessKey, Caller
from data_plane.protocol.http import HttpResponse
from tests.conformance.in_process import ACCOUNT, InProcessServer
from tests.conformance.raw_calls import encode_form, form_request, url
from tests.conformance.signing import AWS_JSON, FORM, signed

US_PER_S = 1_000_000
QUEUE = {"QueueUrl": url("orders")}
DELAY = {"Attribute.1.Name": "DelaySeconds", "Attribute.1.Value": "0"}
RECEIVE = ("ReceiveMessage", {**QUEUE, "MaxNumberOfMessages": "1"})
STEPS = [
    ("CreateQueue", {"QueueName": "orders"}, "a result"),
    ("TagQueue", {**QUEUE, "Tag.1.Key": "k", "Tag.1.Value": "v"}, ""),
    ("ListQueueTags", QUEUE, "a result"),
    ("UntagQueue", {**QUEUE, "TagKey.1": "k"}, ""),
    ("ListQueueTags", QUEUE, "an empty result"),
    ("GetQueueUrl", {"QueueName": "orders"}, "a result"),
    ("GetQueueAttributes", {**QUEUE, "AttributeName.1": "All"}, "a result"),
    ("SetQueueAttributes", {**QUEUE, **DELAY}, ""),
    ("SendMessage", {**QUEUE, "MessageBody": "hello"}, "a result"),
    (*RECEIVE, "a result"),
    ("ListQueues", {"MaxResults": "1"}, "a result"),
    ("PurgeQueue", QUEUE, ""),
    (*RECEIVE, "an empty result"),
    ("DeleteQueue", QUEUE, ""),
]
"""Actions, their fields, and what the document that answers them has beside its metadata."""


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    started = InProcessServer(verifies=True)
    started.run(started.accounts.create_account("tests", ACCOUNT, {}))
    yield started
    started.close()


def test_documents() -> None:
    server = InProcessServer()
    for action, fields, expected in STEPS:
        form = encode_form([("Action", action), ("Version", "2012-11-05"), *fields.items()])
        response = server.answer(form_request(form))
        assert (response.status, dict(response.headers)["content-type"]) == (200, "text/xml")
        root = ET.fromstring(response.body)  # noqa: S314 - our own document
        assert names_in(root) == [
            f"{action}Response",
            *([f"{action}Result"] if expected else []),
            "ResponseMetadata",
        ]
        if expected:
            assert (len(root[0]) == 0) == (expected == "an empty result"), action
    server.close()


def names_in(root: ET.Element) -> list[str]:
    """The names of an element and of what it has in it, without their namespace."""
    return [element.tag.rpartition("}")[2] for element in (root, *root)]


@pytest.mark.parametrize("known", [True, False])
def test_refusals_of_forms(server: InProcessServer, *, known: bool) -> None:
    """query-invalid-signature, query-unrecognized-client."""
    response = wrongly_signed(server, FORM, b"Action=ListQueues&Version=2012-11-05", known=known)
    assert (response.status, dict(response.headers)["content-type"]) == (403, "text/xml")
    root = ET.fromstring(response.body)  # noqa: S314 - our own document
    assert names_in(root) == ["ErrorResponse", "Error", "RequestId"]
    assert names_in(root[0]) == ["Error", "Type", "Code", "Message", "Detail"]
    code = "SignatureDoesNotMatch" if known else "InvalidClientTokenId"
    assert (root[0][0].text, root[0][1].text, root[0][3].text) == ("Sender", code, None)


@pytest.mark.parametrize("known", [True, False])
def test_refusals_of_json(server: InProcessServer, *, known: bool) -> None:
    """json-invalid-signature, json-unrecognized-client: 403 as well, which it is not elsewhere."""
    response = wrongly_signed(server, AWS_JSON, b"{}", known=known)
    assert (response.status, dict(response.headers)["content-type"]) == (403, AWS_JSON)
    document = json.loads(response.body)
    assert sorted(document) == ["__type", "message"]
    code = "InvalidSignatureException" if known else "UnrecognizedClientException"
    assert document["__type"] == f"com.amazon.coral.service#{code}"


def wrongly_signed(
    server: InProcessServer, content_type: str, body: bytes, *, known: bool
) -> HttpResponse:
    """The answer to ListQueues under a key that there is, or is not, with another secret."""
    key_id = server.run(server.accounts.create_key(ACCOUNT)).id if known else "AKIAUNKNOWN"
    headers = {"Content-Type": content_type}
    if content_type == AWS_JSON:
        headers["X-Amz-Target"] = "AmazonSQS.ListQueues"
    return server.answer(
        signed(
            headers=headers,
            body=body,
            key=AccessKey(key_id, "another secret", Caller(ACCOUNT)),
            at_s=server.clock.now_us() / US_PER_S,
        )
    )
