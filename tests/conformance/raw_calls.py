"""Requests as no SDK would send them, and the answers to them, in both protocols.

The same parameters become a request of either protocol; an answer of either becomes status, code
and message. Reading an answer checks its form, too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus
from xml.etree import ElementTree as ET

from data_plane.core import errors
from data_plane.core.errors import Fault
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.operation import Operation
from data_plane.protocol.query_xml import NAMESPACE
from data_plane.protocol.shapes import ListOf, MapOf, Shape, Structure
from tests.conformance.in_process import ACCOUNT, ENDPOINT, REGION, InProcessServer
from tests.conformance.runners import NewRunner

PROTOCOLS = ("json", "query")
HOST = ENDPOINT.partition("://")[2]
AUTHORIZATION = (
    f"AWS4-HMAC-SHA256 Credential={ACCOUNT}/20260101/{REGION}/sqs/aws4_request, "
    "SignedHeaders=host, Signature=00"
)
_FAULTS = {
    fault.code: fault
    for fault in vars(errors).values()
    if isinstance(fault, Fault) and fault.namespace != errors.OF_KINESIS
}
_XMLNS = f"{{{NAMESPACE}}}"


@dataclass(frozen=True)
class Reply:
    """An answer: `code` and `message` are "" where the request succeeded."""

    status: int
    code: str = ""
    message: str = ""
    result: Any = field(default=None, compare=False)


def refused(code: str, message: str) -> Reply:
    """The refusal with this code, which says the status."""
    return Reply(_FAULTS[code].status, code, message)


def url(queue: str) -> str:
    """The address of a queue of the caller."""
    return f"{ENDPOINT}/{ACCOUNT}/{queue}"


def json_request(
    action: str, body: object, headers: Mapping[str, str] | None = None, path: str = "/"
) -> HttpRequest:
    """A request in AWS JSON; a body of bytes is sent as it is."""
    sent = {
        "host": HOST,
        "authorization": AUTHORIZATION,
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": f"AmazonSQS.{action}",
    }
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpRequest("POST", path, "", {**sent, **(headers or {})}, encoded, "127.0.0.1")


def form_request(
    form: bytes, headers: Mapping[str, str] | None = None, path: str = "/"
) -> HttpRequest:
    """A request in the Query protocol."""
    sent = {
        "host": HOST,
        "authorization": AUTHORIZATION,
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
    }
    return HttpRequest("POST", path, "", {**sent, **(headers or {})}, form, "127.0.0.1")


def form_fields(action: str, params: Any, shape: Structure) -> list[tuple[str, str]]:
    """The fields that a client of the Query protocol makes of parameters, wrong ones included."""
    fields = [("Action", action), ("Version", "2012-11-05")]

    def write(value: Any, shape: Shape, name: str) -> None:
        match shape, value:
            case Structure(), dict():
                for member, inner in shape.members.items():
                    if member in value:
                        flat = inner.query_name if isinstance(inner, ListOf | MapOf) else member
                        write(value[member], inner, f"{name}.{flat}".lstrip("."))
            case ListOf(), list():
                if not value:
                    fields.append((name, ""))
                for number, member in enumerate(value, start=1):
                    write(member, shape.member, f"{name}.{number}")
            case MapOf(), dict():
                for number, (key, member) in enumerate(value.items(), start=1):
                    fields.append((f"{name}.{number}.{shape.query_key}", key))
                    write(member, shape.value, f"{name}.{number}.{shape.query_value}")
            case _, bool():
                fields.append((name, str(value).lower()))
            case _, None:
                pass
            case _:
                fields.append((name, str(value)))

    write(params, shape, "")
    return fields


def encode_form(fields: list[tuple[str, str]]) -> bytes:
    """Fields as the body of a form. What is no Unicode is written as the bytes it stands for."""
    pairs = (
        f"{quote_plus(name, errors='surrogatepass')}={quote_plus(value, errors='surrogatepass')}"
        for name, value in fields
    )
    return "&".join(pairs).encode()


def read_reply(response: HttpResponse, protocol: str) -> Reply:
    """What an answer says; fails where its form is not that of the protocol."""
    headers = dict(response.headers)
    assert len(headers) == len(response.headers), "a header is repeated"
    assert headers["x-amzn-requestid"]
    if protocol == "json":
        return _read_json(response, headers)
    if protocol == "legacy-json":
        return _read_legacy_json(response, headers)
    assert headers["content-type"] == "text/xml"
    root = ET.fromstring(response.body)  # noqa: S314 - our own document
    if response.status == 200:
        assert root.tag.startswith(_XMLNS), root.tag
        assert root.tag.endswith("Response"), root.tag
        return Reply(200, result=root)
    assert root.tag == f"{_XMLNS}ErrorResponse"
    code = root.findtext(f"{_XMLNS}Error/{_XMLNS}Code", "")
    message = root.findtext(f"{_XMLNS}Error/{_XMLNS}Message", "")
    fault = _FAULTS[code]
    assert root.findtext(f"{_XMLNS}Error/{_XMLNS}Type") == (
        "Sender" if fault.sender else "Receiver"
    )
    assert root.findtext(f"{_XMLNS}RequestId") == headers["x-amzn-requestid"]
    assert fault.status == response.status
    return Reply(response.status, code, message)


def _read_json(response: HttpResponse, headers: Mapping[str, str]) -> Reply:
    assert headers["content-type"] == "application/x-amz-json-1.0"
    document = json.loads(response.body)
    assert isinstance(document, dict)
    if response.status == 200:
        assert "__type" not in document
        return Reply(200, result=document)
    code, _, side = headers["x-amzn-query-error"].partition(";")
    fault = _FAULTS[code]
    assert document.keys() == {"__type", "message"}
    assert document["__type"] == headers["x-amzn-errortype"] == fault.namespace + fault.shape
    assert side == ("Sender" if fault.sender else "Receiver")
    assert fault.status == response.status
    return Reply(response.status, code, document["message"])


def _read_legacy_json(response: HttpResponse, headers: Mapping[str, str]) -> Reply:
    """The rendering of Query that clients ask for with `Accept: application/json`."""
    assert headers["content-type"] == "application/json"
    document = json.loads(response.body)
    if response.status == 200:
        (name,) = document
        assert name.endswith("Response")
        return Reply(200, result=document[name])
    assert document.keys() == {"Error", "RequestId"}
    error = document["Error"]
    assert error.keys() == {"Code", "Message", "Type"}
    assert _FAULTS[error["Code"]].status == response.status
    return Reply(response.status, error["Code"], error["Message"])


class Bench:
    """A server whose state tests compare, called in one of the protocols."""

    def __init__(self, protocol: str, new_runner: NewRunner | None = None) -> None:
        self.protocol = protocol
        self.server = InProcessServer(new_runner)
        self.operations: dict[str, Operation] = {
            operation.name: operation for operation in self.server.operations
        }

    def call(self, action: str, params: Mapping[str, Any]) -> Reply:
        """Call an operation in the bench's protocol."""
        return self.send(self.request(action, params))

    def request(self, action: str, params: Mapping[str, Any]) -> HttpRequest:
        """The request of a call in the bench's protocol."""
        if self.protocol == "json":
            return json_request(action, params)
        shape = self.operations[action].input
        return form_request(encode_form(form_fields(action, params, shape)))

    def send(self, request: HttpRequest) -> Reply:
        """Send a request of the bench's protocol."""
        return read_reply(self.server.answer(request), self.protocol)

    def ask(self, action: str, **params: Any) -> dict[str, Any]:
        """Call an operation that succeeds; its output."""
        reply = read_reply(self.server.answer(json_request(action, params)), "json")
        assert reply.status == 200, reply
        return dict(reply.result)

    def handle(self, queue: str) -> str:
        """A message's receipt handle, its message in flight."""
        fifo = {"MessageGroupId": "handles", "MessageDeduplicationId": "handles"}
        extra = fifo if queue.endswith(".fifo") else {}
        self.ask("SendMessage", QueueUrl=url(queue), MessageBody="x", **extra)
        received = self.ask("ReceiveMessage", QueueUrl=url(queue), VisibilityTimeout=300)
        return str(received["Messages"][0]["ReceiptHandle"])

    def state(self) -> dict[str, Any]:
        """All that a refused request must not have changed."""
        state = {}
        for address in self.ask("ListQueues").get("QueueUrls", []):
            named = {"QueueUrl": address, "AttributeNames": ["All"]}
            attributes = self.ask("GetQueueAttributes", **named)["Attributes"]
            arn = attributes["QueueArn"]
            state[address] = (
                attributes,
                self.ask("ListQueueTags", QueueUrl=address),
                self.ask("ListMessageMoveTasks", SourceArn=arn, MaxResults=10),
            )
        return state

    def close(self) -> None:
        """Stop the server."""
        self.server.end()
