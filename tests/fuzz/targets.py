"""What is fuzzed: each target reads bytes, and raises where something must not have happened."""

import base64
import json
from collections.abc import Callable, Generator
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from control_plane.core import access_policy, move_task
from control_plane.operations.paging import last_listed, next_token
from data_plane.core import browsing, receipt_handle
from data_plane.core.caller import Caller
from data_plane.core.errors import MALFORMED_INPUT, VALIDATION, Fault, RefusedError
from data_plane.core.sealing import TokenSeal
from data_plane.policy.evaluate import Request, decide
from data_plane.policy.language import Kind, compile_policy
from data_plane.protocol import cbor, kinesis_json
from data_plane.protocol.constraints import checker
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.operation import Call
from data_plane.protocol.shapes import Structure
from data_plane.protocol.stream_shapes import SHAPES
from tests.conformance.in_process import ACCOUNT, REGION
from tests.conformance.raw_calls import encode_form, form_fields
from tests.conformance.signing import FORM, Verifier, form_call, json_call, signed
from tests.fuzz import stream_calls
from tests.fuzz.served import FuzzedServer
from tests.property.request_corpus import ARNS, POLICY, REDRIVE, Corpus
from tests.unit.data_plane.wire import ORDERS
from tests.unit.repeatable import SECRET

Bytes = Callable[[bytes], None]


class Target(NamedTuple):
    """Something to fuzz: how inputs look, and what is to hold of each."""

    seeds: list[bytes]
    run: Bytes


def _attempt(read: Callable[[], Any]) -> tuple[Fault | None, Any]:
    """The fault that it is refused with, or what is read."""
    try:
        return None, read()
    except RefusedError as refusal:
        return refusal.fault, None


# The verifier of signatures: nothing is let in but what was signed.


def _to_octets(request: HttpRequest) -> bytes:
    head = [f"{request.method} {request.path}?{request.query}"]
    head += [f"{name}: {text}" for name, text in request.headers.items()]
    return "\n".join(head).encode("latin-1") + b"\n\n" + request.body


def _to_request(octets: bytes) -> HttpRequest:
    head, _, body = octets.partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    method, _, target = first.partition(" ")
    path, _, query = target.partition("?")
    named = (line.partition(": ") for line in lines)
    headers = {name.lower(): text for name, _, text in named}
    return HttpRequest(method, path, query, headers, body)


def _meaning(request: HttpRequest) -> tuple[object, ...]:
    """What a signature stands for: whatever is accepted has that of a seed."""
    query = sorted(parse_qsl(request.query, keep_blank_values=True))
    target = request.headers.get("x-amz-target", "").strip()
    return request.method, request.path, query, target, request.body


def verifier() -> Target:
    """The stage that authenticates, alone, with requests that botocore signed."""
    form = b"Action=SendMessage&MessageBody=hello"
    requests = [
        json_call("SendMessage", b'{"QueueUrl":"q","MessageBody":"hello"}'),
        form_call(f"/{ACCOUNT}/orders", form),
        signed("GET", f"/{ACCOUNT}/orders", form.decode()),
        signed("GET", f"/{ACCOUNT}/orders", form.decode(), expires_s=60),
        signed("POST", "/", "", {"content-type": FORM, "x-amz-a": " a  b "}, form, token="token"),
    ]
    meanings = [_meaning(request) for request in requests]
    verify = Verifier().verify

    def run(octets: bytes) -> None:
        request = _to_request(octets)
        fault, _ = _attempt(lambda: verify(request))
        if fault is not None:
            assert 400 <= fault.status < 500
        else:
            assert _meaning(request) in meanings, request

    return Target([_to_octets(request) for request in requests], run)


# The front end: whatever is signed is answered.


@cache
def _server() -> FuzzedServer:
    return FuzzedServer()


def _corpus(protocol: str) -> list[tuple[str, object]]:
    operations = {operation.name: operation for operation in _server().operations}
    handle = receipt_handle.encode(ORDERS, 0, 0, b"b" * 10, 0, 1, b"t" * 13, 9)
    queues = ("orders", "orders.fifo", "dead", "spare")
    handles = dict.fromkeys(queues, handle) | {"task": move_task.to_handle("id", ORDERS)}
    corpus = Corpus(Random(0), protocol, operations, handles)
    return [(action, corpus.valid(action)) for action in sorted(operations) for _ in range(2)]


def json_bodies() -> Target:
    """An action, a line feed and a body in AWS JSON."""
    seeds = [
        action.encode() + b"\n" + json.dumps(params).encode() for action, params in _corpus("json")
    ]

    def run(octets: bytes) -> None:
        action, _, body = octets.partition(b"\n")
        _server().json(action.decode("latin-1"), body)

    return Target(seeds, run)


def stream_bodies() -> Target:
    """An action of Kinesis, a line feed and a body in AWS JSON."""
    seeds = [
        action.encode() + b"\n" + stream_calls.written(params)
        for action, params in stream_calls.CALLS
    ]

    def run(octets: bytes) -> None:
        action, _, body = octets.partition(b"\n")
        _server().kinesis(action.decode("latin-1"), body)

    return Target(seeds, run)


def forms() -> Target:
    """A path, a line feed and a form of the Query protocol."""
    shapes = {operation.name: operation.input for operation in _server().operations}
    seeds = [
        b"/\n" + encode_form(form_fields(action, params, shapes[action]))
        for action, params in _corpus("query")
    ]

    def run(octets: bytes) -> None:
        path, _, body = octets.partition(b"\n")
        _server().form(path.decode("latin-1"), body)

    return Target(seeds, run)


# Tokens: nobody but a front end makes one.


def receipt_handles() -> Target:
    """Texts as receipt handles of one queue."""
    seeds = [
        receipt_handle.encode(ORDERS, lane, 0, b"b" * 10, index, 1, b"t" * 13, 9)
        for lane in range(3)
        for index in range(3)
    ]

    def run(octets: bytes) -> None:
        text = octets.decode(errors="surrogateescape")
        fault, handle = _attempt(lambda: receipt_handle.decode(text, ORDERS))
        if fault is not None:
            assert fault.code == "ReceiptHandleIsInvalid"
        else:
            assert text in seeds
            assert handle.text == text

    return Target([seed.encode() for seed in seeds], run)


def tokens() -> Target:
    """Texts as tokens of lists and of browsing, and as handles of move tasks."""
    seal = TokenSeal(SECRET, "lists")
    params: dict[str, str] = {}
    call = Call("", ACCOUNT, REGION, "", 0, params)
    page = next_token(seal, call, "queues ", "orders")
    position = browsing.to_token(ORDERS, b"position")
    task = move_task.to_handle("task", ORDERS)

    def run(octets: bytes) -> None:
        text = octets.decode(errors="surrogateescape")
        params["NextToken"] = text
        fault, last = _attempt(lambda: last_listed(seal, call, "queues ", malformed="x"))
        assert (fault, last) == (None, "orders") if text == page else last in {None, ""}
        assert fault is None or fault.code == "InvalidParameterValue"
        fault, found = _attempt(lambda: browsing.from_token(ORDERS, text))
        assert (fault, found) == (None, b"position") if text == position else fault is not None
        fault, handle = _attempt(lambda: move_task.read_handle(text))
        if fault is not None:
            assert fault.code == "InvalidParameterValue"
        elif text == task:
            assert handle == ("task", ORDERS.arn)

    return Target([page.encode(), position.encode(), task.encode()], run)


# Policies: whatever the text, a decision; and in doubt none that allows.

_BY_SOURCE = (
    '{"Version":"2012-10-17","Id":"i","Statement":[{"Sid":"a","Effect":"Deny","NotPrincipal":'
    '{"AWS":["arn:aws:iam::444455556666:user/eve"]},"NotAction":["sqs:Get*","SQS:Send?essage"],'
    '"NotResource":"arn:aws:sqs:*:*:${aws:username}","Condition":{"StringNotLikeIfExists":'
    '{"aws:username":["a*","${aws:userid}"]},"DateLessThan":{"aws:CurrentTime":'
    '"2026-01-01T00:00:00Z"},"IpAddress":{"aws:SourceIp":["10.0.0.0/8","2001:db8::/32"]},'
    '"Bool":{"aws:SecureTransport":"true"},"Null":{"aws:SourceArn":"true"},"NumericLessThan":'
    '{"aws:MultiFactorAuthAge":"1e3"},"ForAllValues:ArnLike":{"aws:SourceArn":"arn:aws:*"}}}]}'
)
_CALLERS = (
    Caller(ACCOUNT, access_key_id="AKIDROOT"),
    Caller("444455556666", access_key_id="AKIDOTHER"),
)


def policies() -> Target:
    """Texts as policies of both kinds, asked about some requests; and as a queue's attribute."""
    keys = {"aws:sourceip": ("10.1.2.3",), "aws:securetransport": ("true",)}

    def run(octets: bytes) -> None:
        text = octets.decode(errors="replace")  # half surrogate pairs are refused before
        compiled = [compile_policy(text, kind) for kind in Kind]
        for caller in _CALLERS:
            for action in ("sqs:sendmessage", "sqs:deletequeue"):
                request = Request(caller, action, ARNS[0], ACCOUNT, keys)
                for policy in compiled:
                    by_both = decide(request, [policy], compiled[1])
                    if by_both.explicit:
                        assert not by_both.allowed
        fault, _ = _attempt(lambda: access_policy.parse(text))
        assert fault is None or 400 <= fault.status < 500

    return Target([POLICY.encode(), REDRIVE.encode(), _BY_SOURCE.encode()], run)


# Calls of Kinesis: whatever is read can be written, and is the same when it is read again.

STREAM_CALLS: dict[str, dict[str, Any]] = {
    "PutRecords": {"StreamName": "s", "Records": [{"Data": b"abc", "PartitionKey": "k"}] * 2},
    "GetShardIterator": {"ShardId": "0", "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1_500},
    "ListShards": {"ShardFilter": {"Type": "AT_TIMESTAMP", "Timestamp": 7}, "MaxResults": 3},
    "AddTagsToStream": {"StreamName": "s", "Tags": {"a": "b"}},
    "DeleteStream": {"StreamName": "s", "EnforceConsumerDeletion": True},
}


def kinesis_calls() -> Target:
    """The decoders of both media types, and the check of bounds, without what is behind them."""
    shapes = {name: given for name, (given, _) in SHAPES.items()}
    seeds: list[bytes] = []
    for name, params in STREAM_CALLS.items():
        written = json.dumps(params, default=lambda data: base64.b64encode(data).decode())
        bodies = (written.encode(), cbor.encoder(shapes[name])(params))
        seeds += [name.encode() + b"\n" + body for body in bodies]

    def run(octets: bytes) -> None:
        name, _, body = octets.partition(b"\n")
        action = name.decode("latin-1") if name.decode("latin-1") in shapes else "PutRecords"
        shape, decode = shapes[action], _json_decoder(action)
        for written in (body, body + b" " * 300_000):
            fault, params = _attempt(partial(_finished_decoding, decode, written))
            _check_call(shape, fault, params)
        fault, params = _attempt(lambda: cbor.decoder(shape)(body))
        _check_call(shape, fault, params)

    return Target(seeds, run)


@cache
def _json_decoder(name: str) -> kinesis_json.Decode:
    return kinesis_json.decoder(SHAPES[name][0])


def _finished_decoding(decode: kinesis_json.Decode, body: bytes) -> Any:
    decoding = decode(body)
    while isinstance(decoding, Generator):
        try:
            next(decoding)
        except StopIteration as end:
            return end.value
    return decoding


def _check_call(shape: Structure, fault: Fault | None, params: Any) -> None:
    if fault is not None:
        assert fault is MALFORMED_INPUT
        return
    assert cbor.decoder(shape)(cbor.encoder(shape)(params)) == params
    fault, _ = _attempt(lambda: checker(shape)(params))
    assert fault in {None, VALIDATION}


TARGETS: dict[str, Callable[[], Target]] = {
    "verifier": verifier,
    "json": json_bodies,
    "forms": forms,
    "receipt-handles": receipt_handles,
    "tokens": tokens,
    "policies": policies,
    "kinesis": kinesis_calls,
    "streams": stream_bodies,
}
