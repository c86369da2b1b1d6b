"""Requests that carry a given text in one of all the places where a request has text."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from msgspec.structs import replace

from data_plane.protocol.http import HttpRequest
from data_plane.protocol.operation import Operation
from tests.conformance.raw_calls import AUTHORIZATION, Bench, form_request, json_request, url
from tests.property.request_corpus import QUEUES, REDRIVE, Corpus

SEEDS = 3
HEADERS = (
    *("accept", "authorization", "content-type", "cookie", "date", "host", "origin", "referer"),
    *("amz-sdk-invocation-id", "amz-sdk-request", "user-agent", "x-amz-content-sha256"),
    *("x-amz-date", "x-amz-security-token", "x-amz-target", "x-amzn-trace-id"),
    *("x-forwarded-for", "x-forwarded-proto", "x-request-id"),
)
CREDENTIALS = (
    "{}",
    "AWS4-HMAC-SHA256 {}",
    "AWS4-HMAC-SHA256 Credential={}",
    "AWS4-HMAC-SHA256 Credential={}/20260101/r/sqs/aws4_request, SignedHeaders=a, Signature=0",
    "AWS4-HMAC-SHA256 Credential=k/{}/eu-west-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
    "AWS4-HMAC-SHA256 Credential=k/20260101/{}/sqs/aws4_request, SignedHeaders=host, Signature=0",
    "AWS4-HMAC-SHA256 Credential=k/20260101/r/sqs/aws4_request, SignedHeaders={}, Signature=0",
    f"{AUTHORIZATION.removesuffix('00')}{{}}",
    "Basic {}",
)
PRESIGNED = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Security-Token",
    "X-Amz-Signature",
)


def opened(bench: Bench) -> dict[str, str]:
    """Make the queues that the requests are about; handles of messages and of a task."""
    for name in QUEUES:
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        fifo = name.endswith(".fifo")
        bench.ask("CreateQueue", QueueName=name, Attributes=attributes if fifo else {})
    redrive = {"RedrivePolicy": REDRIVE}
    bench.ask("SetQueueAttributes", QueueUrl=url("orders"), Attributes=redrive)
    task = bench.ask("StartMessageMoveTask", SourceArn=f"{_arn('dead')}")
    return {"task": task["TaskHandle"], **{name: bench.handle(name) for name in QUEUES[:3]}}


def _arn(name: str) -> str:
    return f"arn:aws:sqs:eu-west-1:111122223333:{name}"


def in_parameters(bench: Bench, handles: dict[str, str], text: str) -> Iterator[HttpRequest]:
    """Every operation, with the text in one of its parameters."""
    for action in sorted(bench.operations):
        operation: Operation = bench.operations[action]
        seen: set[str] = set()
        for seed in range(SEEDS):
            corpus = Corpus(Random(seed), bench.protocol, bench.operations, handles)
            params = corpus.valid(operation.name)
            if "WaitTimeSeconds" in params:
                params["WaitTimeSeconds"] = 0  # nobody is to wait for a message here
            for place, planted in planted_in(params, text):
                if place not in seen:
                    seen.add(place)
                    yield corpus.request(action, planted)


def planted_in(value: Any, text: str, place: str = "") -> Iterator[tuple[str, Any]]:
    """The value with the text in the place of one text in it, or of one key, after the other."""
    match value:
        case str():
            yield place, text
            yield f"{place}+", value + text
        case dict():
            for key, inner in value.items():
                for where, planted in planted_in(inner, text, f"{place}.{key}"):
                    yield where, {**value, key: planted}
                yield f"{place}.{key}!", {**value, text: inner}
        case list():
            for position, inner in enumerate(value):
                for where, planted in planted_in(inner, text, f"{place}."):
                    yield where, [*value[:position], planted, *value[position + 1 :]]


def around_parameters(protocol: str, text: str) -> Iterator[HttpRequest]:
    """A send, with the text in a header, the path, the query, the method or loose in the body."""
    request: Callable[[bytes], HttpRequest]
    if protocol == "json":
        request = lambda body: json_request("SendMessage", body)  # noqa: E731 - typed above
        valid = request(b'{"QueueUrl":"orders","MessageBody":"x"}')
    else:
        request = form_request
        valid = request(b"Action=SendMessage&QueueUrl=orders&MessageBody=x")
    for name in HEADERS:
        yield replace(valid, headers={**valid.headers, name: text})
    for form in CREDENTIALS:
        yield replace(valid, headers={**valid.headers, "authorization": form.format(text)})
    for name in PRESIGNED:
        yield replace(valid, query=f"{name}={text}")
        yield HttpRequest(
            "GET",
            "/",
            f"Action=SendMessage&QueueUrl=orders&MessageBody=x&{name}={text}",
            {"host": "x"},
            b"",
        )
    yield replace(valid, method=text)
    yield replace(valid, query=text)
    for path in ("/{}", "/111122223333/{}", "/{}/orders", "/{}/{}/{}"):
        yield replace(valid, path=path.format(text, text, text))
    for body in (b"%s", b'{"%s":1}', b'{"QueueUrl":"%s', b"Action=%s", b"%s=%s&Action=SendMessage"):
        planted = text.encode()
        yield request(body.replace(b"%s", planted))
    yield replace(valid, headers={**valid.headers, "x-amz-target": f"AmazonSQS.{text}"})
