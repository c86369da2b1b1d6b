"""Requests as bytes, prepared before the clock starts, and the least parsing of responses.

The requests have the form and the size of those that boto3 sends: AWS JSON 1.0, signed headers, the
id of the call, its attempt.
"""

import functools
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

ACCOUNT: Final = "000000000000"
BODY_BYTES: Final = 1024
BATCH: Final = 10
VARIANTS: Final = 128
"""Distinct requests of a kind. Equal bodies would flatter a store that compresses."""

STAMP_DIGITS: Final = 20
"""A body starts with the time of its sending, in nanoseconds of the monotonic clock."""

_CALL_DIGITS: Final = 12
_GROUP: Final = b"0" * 6
_GROUP_AT: Final = re.compile(b'"MessageGroupId":"(%b)' % _GROUP)
_ID_AT: Final = re.compile(b'"MessageDeduplicationId":"(%b)' % (b"0" * _CALL_DIGITS))
_HEAD: Final = (
    "POST / HTTP/1.1\r\n"
    "Host: 127.0.0.1:{port}\r\n"
    "Accept-Encoding: identity\r\n"
    "X-Amz-Target: {target}\r\n"
    "Content-Type: application/x-amz-json-{version}\r\n"
    "User-Agent: Boto3/1.44.5 md/Botocore#1.44.5 ua/2.1 os/linux#6.1 md/arch#x86_64"
    " lang/python#3.11.7 md/pyimpl#CPython m/b,Z,e cfg/retry-mode#standard Botocore/1.44.5\r\n"
    "X-Amz-Date: 20260101T000000Z\r\n"
    "Authorization: AWS4-HMAC-SHA256"
    " Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/{service}/aws4_request,"
    " SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={signature}\r\n"
    "amz-sdk-invocation-id: {call}\r\n"
    "amz-sdk-request: attempt=1; max=3\r\n"
    "Content-Length: {length}\r\n"
    "\r\n"
)
_HANDLE: Final = re.compile(rb'"ReceiptHandle" ?: ?"([^"]+)"')
_BODY_STAMP: Final = re.compile(rb'"Body" ?: ?"(\d{%d})' % STAMP_DIGITS)
_LENGTH: Final = b"content-length:"


class Service(NamedTuple):
    """How requests of a service are told: by their target, AWS JSON's version, the signing name."""

    target: str
    version: str
    signing_name: str


QUEUES: Final = Service("AmazonSQS", "1.0", "sqs")
STREAMS: Final = Service("Kinesis_20131202", "1.1", "kinesis")


class ResponseError(Exception):
    """The peer answered with what is no response, or closed the connection."""


@dataclass(slots=True)
class Request:
    """A request that is ready but for the id of the call and the stamps of its bodies.

    One to a FIFO queue with `message_groups` lacks those of its messages, and what tells each from
    its duplicates.
    """

    raw: bytearray
    call_at: int
    stamps_at: tuple[int, ...] = ()
    message_groups: int = 0
    groups_at: tuple[int, ...] = ()
    ids_at: tuple[int, ...] = ()

    def name_call(self, number: int) -> None:
        """Patch in an id that no other request has, and the groups whose turn it is."""
        digits = b"%012x" % number
        for at in (self.call_at, *self.ids_at):
            self.raw[at : at + _CALL_DIGITS] = digits
        for group, at in enumerate(self.groups_at, start=number * len(self.groups_at)):
            self.raw[at : at + len(_GROUP)] = b"%06d" % (group % self.message_groups)

    def stamp(self, sent_ns: int) -> None:
        """Patch the time of sending into every body."""
        digits = b"%020d" % sent_ns
        for at in self.stamps_at:
            self.raw[at : at + STAMP_DIGITS] = digits

    def with_head_part(self, start: int, end: int, part: bytes) -> "Request":
        """The same with another part of the head, before all that is patched in."""
        moved = len(part) - (end - start)
        return replace(
            self,
            raw=self.raw[:start] + part + self.raw[end:],
            call_at=self.call_at + moved,
            stamps_at=tuple(at + moved for at in self.stamps_at),
            groups_at=tuple(at + moved for at in self.groups_at),
            ids_at=tuple(at + moved for at in self.ids_at),
        )


def request(  # noqa: PLR0913 - what a request says
    port: int,
    operation: str,
    params: object,
    seed: int = 0,
    message_groups: int = 0,
    *,
    service: Service = QUEUES,
) -> Request:
    """Build a request; `seed` chooses the parts that look random."""
    source = random.Random(f"{operation} {seed}")
    body = json.dumps(params, separators=(",", ":")).encode()
    head = _HEAD.format(
        port=port,
        target=f"{service.target}.{operation}",
        version=service.version,
        service=service.signing_name,
        signature=f"{source.getrandbits(256):064x}",
        call=f"{source.getrandbits(32):08x}-{source.getrandbits(16):04x}-4000-8000-" + "0" * 12,
        length=len(body),
    ).encode()
    call_at = head.index(b"amz-sdk-request") - len(b"\r\n") - _CALL_DIGITS
    stamps = tuple(len(head) + found.start() for found in re.finditer(rb"0{20}", body))
    groups = tuple(len(head) + found.start(1) for found in _GROUP_AT.finditer(body))
    ids = tuple(len(head) + found.start(1) for found in _ID_AT.finditer(body))
    return Request(bytearray(head + body), call_at, stamps, message_groups, groups, ids)


def _message(seed: int, at: int, message_groups: int) -> dict[str, str]:
    """Member `at` of what is sent together, as parameters. With groups it is for a FIFO queue."""
    message = {"MessageBody": message_bodies(seed)[at]}
    if message_groups:
        message["MessageGroupId"] = _GROUP.decode()
        message["MessageDeduplicationId"] = f"{0:0{_CALL_DIGITS}}-{at}"
    return message


@functools.cache
def message_bodies(seed: int) -> list[str]:
    """What a batch has to say."""
    source = random.Random(seed)
    return [message_body(source) for _ in range(BATCH)]


def message_body(source: random.Random) -> str:
    """Return 1 KB such as applications send: text that compresses, but not to nothing."""
    words = ("order", "customer", "amount", "currency", "created", "status", "address", "item")
    parts = ["0" * STAMP_DIGITS]
    size = STAMP_DIGITS
    while size < BODY_BYTES:
        part = f" {source.choice(words)}={source.getrandbits(48):x}"
        parts.append(part)
        size += len(part)
    return "".join(parts)[:BODY_BYTES]


def send_requests(port: int, queue_url: str, message_groups: int = 0) -> list[Request]:
    """SendMessage of 1 KB; with groups, to a FIFO queue."""
    return [
        request(
            port,
            "SendMessage",
            {"QueueUrl": queue_url, **_message(seed, 0, message_groups)},
            seed,
            message_groups,
        )
        for seed in range(VARIANTS)
    ]


def send_batch_requests(port: int, queue_url: str, message_groups: int = 0) -> list[Request]:
    """SendMessageBatch of 10 messages of 1 KB; with groups, to a FIFO queue."""
    requests = []
    for seed in range(VARIANTS):
        entries = [{"Id": str(at), **_message(seed, at, message_groups)} for at in range(BATCH)]
        params = {"QueueUrl": queue_url, "Entries": entries}
        requests.append(request(port, "SendMessageBatch", params, seed, message_groups))
    return requests


def receive_request(
    port: int, queue_url: str, *, count: int, wait_s: int = 0, visibility_s: int | None = None
) -> Request:
    """ReceiveMessage with the attributes that clients usually ask for."""
    params = {
        "QueueUrl": queue_url,
        "MaxNumberOfMessages": count,
        "WaitTimeSeconds": wait_s,
        "MessageSystemAttributeNames": ["ApproximateReceiveCount", "SentTimestamp"],
    }
    if visibility_s is not None:
        params["VisibilityTimeout"] = visibility_s
    return request(port, "ReceiveMessage", params)


class DeleteTemplate:
    """Builds deletions; only the receipt handles and the id of the call differ between them."""

    def __init__(self, port: int, queue_url: str) -> None:
        self._one = self._head(port, "DeleteMessage")
        self._many = self._head(port, "DeleteMessageBatch")
        url = json.dumps(queue_url).encode()
        self._start = b'{"QueueUrl":' + url

    @staticmethod
    def _head(port: int, operation: str) -> bytes:
        raw = bytes(request(port, operation, None).raw)
        return raw[: raw.index(b"Content-Length")]

    def delete(self, handle: bytes) -> Request:
        """DeleteMessage."""
        body = self._start + b',"ReceiptHandle":"' + handle + b'"}'
        return self._request(self._one, body)

    def delete_batch(self, handles: Sequence[bytes]) -> Request:
        """DeleteMessageBatch."""
        entries = b",".join(
            b'{"Id":"%d","ReceiptHandle":"%s"}' % (at, handle) for at, handle in enumerate(handles)
        )
        return self._request(self._many, self._start + b',"Entries":[' + entries + b"]}")

    @staticmethod
    def _request(head: bytes, body: bytes) -> Request:
        call_at = head.index(b"amz-sdk-request") - len(b"\r\n") - _CALL_DIGITS
        return Request(
            bytearray(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)), call_at
        )


def response_size(received: bytes | bytearray) -> int:
    """Bytes of the first response in what was received: head and body; 0 while the head is partial.

    Raises:
        ResponseError: it is no HTTP/1.1 response with a Content-Length.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return 0
    if not received.startswith(b"HTTP/1.1 "):
        raise ResponseError(f"not a response: {bytes(received[:80])!r}")
    head = received[:end].lower()
    at = head.find(_LENGTH)
    if at < 0:
        raise ResponseError(f"a response without Content-Length: {bytes(head)!r}")
    line_end = head.find(b"\r\n", at)
    length = head[at + len(_LENGTH) : line_end if line_end >= 0 else end]
    return end + 4 + int(length)


def says_close(received: bytes | bytearray) -> bool:
    """Whether the connection ends with this response, whose head is complete."""
    return received.find(b"onnection: close", 0, received.index(b"\r\n\r\n")) >= 0


def response_status(received: bytes | bytearray) -> int:
    """Return the status code."""
    return int(received[9:12])


def response_body(received: bytes | bytearray) -> bytes:
    """Return what follows the head."""
    return bytes(received[received.index(b"\r\n\r\n") + 4 :])


def receipt_handles(received: bytes | bytearray) -> list[bytes]:
    """Return the receipt handles in a response of ReceiveMessage."""
    return _HANDLE.findall(received)


def stamps_ns(received: bytes | bytearray) -> list[int]:
    """Return when the messages in a response of ReceiveMessage were sent (see STAMP_DIGITS)."""
    return [int(digits) for digits in _BODY_STAMP.findall(received)]


def count_failed(received: bytes | bytearray) -> int:
    """Return 1 if a response of a batch reports failed entries, else 0."""
    at = received.find(b'"Failed"')
    return int(at >= 0 and not received[at + 8 :].lstrip(b": ").startswith(b"[]"))
