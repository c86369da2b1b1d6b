"""What the doors of Lambda could change on the way: addresses, signatures, sizes, time."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import pytest
from moto import mock_aws
from msgspec.structs import replace

from control_plane.serverless.clock import InvocationClock
from control_plane.serverless.doors import STOP_US, Doors
from control_plane.serverless.events import rest_request, url_request
from data_plane.core.caller import AccessKey, Caller
from data_plane.core.deadline import deadline_us
from data_plane.dynamodb.opening import connect
from data_plane.ports import CellUnavailableError
from data_plane.protocol.http import HttpRequest
from tests.conformance.alterations import alterations
from tests.conformance.door_events import carried, response_of, rest_event, url_event
from tests.conformance.doors import Context, Door, rest_door
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import ACCOUNT, ENDPOINT, InProcessServer
from tests.conformance.raw_calls import form_request, json_request, read_reply, url
from tests.conformance.runners import DOORS, BehindRest, NewRunner
from tests.conformance.signing import AWS_JSON, signed
from tests.conformance.test_altered_requests import CALLS, meaning, stages
from tests.conformance.test_signed_calls import Verifying

STAGE = "/prod"
EVERY = 3
"""Of the alterations every so manieth is tried here; test_altered_requests.py tries all."""
KNOCKS: dict[str, Callable[[HttpRequest], HttpRequest]] = {
    "rest": lambda request: rest_request(carried(rest_event(request))),
    "url": lambda request: url_request(carried(url_event(request))),
}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server(door: str) -> Iterator[InProcessServer]:
    with InProcessServer(DOORS[door]) as started:
        yield started


@pytest.mark.parametrize("original", CALLS, ids=lambda original: original.name)
def test_a_door_lets_no_altered_request_mean_something_else(door: str, original: Any) -> None:
    """Neither does it spoil what was signed."""
    knock = KNOCKS[door]
    intended = meaning(original.request, stages())
    assert meaning(knock(original.request), stages()) == intended
    refused = 0
    for altered in islice(alterations(original), None, None, EVERY):
        if not (altered.request.path + altered.request.query).isascii():
            continue  # No gateway takes that for an address.
        meant = meaning(knock(altered.request), stages())
        assert meant in (None, intended), altered.what
        refused += meant is None
    assert refused > 100 // EVERY


def test_a_length_that_is_signed_is_there_again(door: str) -> None:
    """Some SDKs sign it, and doors take it away."""
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "Content-Length": "2"}
    request = KNOCKS[door](signed("POST", "/", "", headers, b"{}"))
    assert "content-length" in request.headers["authorization"]
    assert meaning(request, stages()) is not None
    assert meaning(replace(request, body=b"{ }"), stages()) is None


def test_a_stage_leads_to_the_same_queues() -> None:
    """Queue URLs have it, too, and are taken with it and without it."""
    server = Verifying(BehindStage)
    server.endpoint = ENDPOINT + STAGE
    for protocol in ("json", "query"):
        client = server.signing_client(protocol)
        queue = client.create_queue(QueueName="orders")["QueueUrl"]
        assert queue == f"{ENDPOINT}{STAGE}/{ACCOUNT}/orders"
        client.send_message(QueueUrl=queue, MessageBody=protocol)
        client.send_message(QueueUrl=url("orders"), MessageBody=protocol)
        address = client.generate_presigned_url(
            "purge_queue", Params={"QueueUrl": queue}, HttpMethod="GET"
        )
        parts = urlsplit(address)
        if protocol == "query":
            assert parts.path.startswith(STAGE)
            presigned = HttpRequest("GET", parts.path, parts.query, {"host": parts.netloc}, b"")
            assert read_reply(server.answer(presigned), "query").status == 200
    elsewhere = f"{ENDPOINT}/other/{ACCOUNT}/orders"
    with pytest.raises(client.exceptions.ClientError, match="The specified queue does not exist"):
        client.send_message(QueueUrl=elsewhere, MessageBody="x")
    server.close()


class BehindStage(BehindRest):
    """A REST API without a domain of its own."""

    new_door: Callable[[Any], Door] | None = staticmethod(partial(rest_door, prefix=STAGE))


@pytest.mark.parametrize("path", [STAGE, f"{STAGE}/"])
def test_a_slash_behind_the_stage_counts_for_nothing(path: str) -> None:
    """Emulators differ about it; and whatever was signed, the request means the same."""
    server = Verifying(BehindStage)
    key = AccessKey(server.key.id, server.key.secret, Caller(ACCOUNT))
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": AWS_JSON}
    at_s = server.clock.now_us() / 1_000_000
    request = signed("POST", path, "", headers, b"{}", key=key, at_s=at_s)
    for told in (STAGE, f"{STAGE}/"):
        assert read_reply(server.answer(replace(request, path=told)), "json").status == 200
    elsewhere = read_reply(server.answer(replace(request, path="/")), "json")
    assert elsewhere.code == "SignatureDoesNotMatch"
    server.close()


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_every_method_gets_an_answer_of_sqs(server: InProcessServer, method: str) -> None:
    request = replace(json_request("ListQueues", {}), method=method)
    assert read_reply(server.answer(request), "json").code == "InvalidAction"


@pytest.mark.parametrize("path", ["/x", "/x/y/z", "/x/", f"/{ACCOUNT}/orders/more", "/favicon.ico"])
def test_unknown_paths_get_an_answer_of_sqs(server: InProcessServer, path: str) -> None:
    assert read_reply(server.answer(json_request("ListQueues", {}, path=path)), "json").code == (
        "InvalidAction"
    )
    response = server.answer(form_request(b"Action=ListQueues", path=path))
    assert (response.status, response.body) == (404, b"<UnknownOperationException/>")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "image/png", "?", ""])
def test_content_types_get_an_answer_of_sqs(server: InProcessServer, content_type: str) -> None:
    headers = {"content-type": content_type}
    assert read_reply(server.answer(json_request("ListQueues", {}, headers)), "json").status == 200
    reply = read_reply(server.answer(form_request(b"Action=ListQueues", headers)), "query")
    assert reply.code == ("MalformedInput" if content_type else "")


def test_a_request_has_the_name_that_its_door_gave_it(server: InProcessServer) -> None:
    """The doors answer with theirs in this header, whatever a function says."""
    request = json_request("ListQueues", {})
    response = server.answer(request)
    named = dict(response.headers)["x-amzn-requestid"]
    assert named == carried(rest_event(request))["requestContext"]["requestId"]
    assert server.served[-1].request_id == named


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_the_greatest_messages_pass(protocol: str) -> None:
    """Those that become longest on the way: each character has an escape of its own."""
    server = InProcessServer(BehindRest)
    sqs = server.client(protocol)
    queue = sqs.create_queue(QueueName=protocol)["QueueUrl"]
    for text in ('"', "\u00e9"):
        body = text * ((1 << 20) // len(text.encode()) - 400)
        sqs.send_message(QueueUrl=queue, MessageBody=body)
        (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
        assert message["Body"] == body
    server.close()


def test_a_receive_answers_what_lambda_takes(server: InProcessServer) -> None:
    """Ten messages of 300 KB would be more; those left out were not received."""
    sqs = server.client()
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    for number in range(5):
        sqs.send_message(QueueUrl=queue, MessageBody=str(number) * 300_000)
    counts = []
    for expected in (3, 2):
        received = sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["ApproximateReceiveCount"]
        )["Messages"]
        assert len(received) == expected
        counts += [message["Attributes"]["ApproximateReceiveCount"] for message in received]
    assert counts == ["1"] * 5


@pytest.mark.parametrize(("remaining_ms", "waited_s"), [(29_000, 20), (12_000, 3), (6_000, 0)])
def test_a_long_poll_ends_before_its_invocation(
    server: InProcessServer,
    monkeypatch: pytest.MonkeyPatch,
    remaining_ms: int,
    waited_s: int,
) -> None:
    url_of = server.client().create_queue(QueueName="orders")["QueueUrl"]
    request = json_request("ReceiveMessage", {"QueueUrl": url_of, "WaitTimeSeconds": 20})
    waits: list[int] = []

    async def receive(_queue: Any, *, until_us: int, **_: Any) -> list[Any]:
        waits.append(until_us - server.clock.now_us())
        return []

    monkeypatch.setattr(server.engine, "receive", receive)
    clock = InvocationClock(server.clock, server.clock.now_us)
    doors = Doors(server.front_end.answer, _nothing, clock, server.run)
    response = response_of(doors.answer_url(url_event(request), Context(remaining_ms)))
    assert response.body == b"{}"
    assert waited_s - 1 < waits[0] / 1_000_000 <= waited_s
    assert STOP_US >= 3_000_000


async def _nothing() -> None:
    pass


def test_an_invocation_that_is_almost_over_begins_nothing(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adapters begin nothing after the deadline that they find."""
    queue = server.client().create_queue(QueueName="orders")["QueueUrl"]
    left_s: list[float] = []

    async def send(*_: Any, **__: Any) -> list[Any]:
        until_us = deadline_us()
        assert until_us is not None
        left_s.append((until_us - server.clock.now_us()) / 1_000_000)
        raise CellUnavailableError

    monkeypatch.setattr(server.engine, "send", send)
    clock = InvocationClock(server.clock, server.clock.now_us)
    doors = Doors(server.front_end.answer, _nothing, clock, server.run)
    event = carried(url_event(json_request("SendMessage", {"QueueUrl": queue, "MessageBody": "x"})))
    for remaining_ms in (STOP_US // 1000, STOP_US // 1000 + 5_000, 60_000):
        assert doors.answer_url(event, Context(remaining_ms))["statusCode"] == 503
    assert left_s[0] <= 0
    assert 0 < left_s[1] <= 5
    assert 5 < left_s[2] <= 15


def test_nothing_is_begun_behind_a_late_answer(server: InProcessServer) -> None:
    """Else Lambda would end the invocation, and the answer would not get out."""
    left_s: list[float | None] = []

    async def close() -> None:
        until_us = deadline_us()
        left_s.append(None if until_us is None else (until_us - server.clock.now_us()) / 1_000_000)

    clock = InvocationClock(server.clock, server.clock.now_us)
    doors = Doors(server.front_end.answer, close, clock, server.run)
    event = carried(url_event(json_request("ListQueues", {})))
    for context in (Context(STOP_US // 1000), Context(60_000), None):
        assert doors.answer_url(event, context)["statusCode"] == 200
    assert left_s[0] is not None
    assert left_s[0] <= 0
    assert left_s[1] is not None
    assert left_s[1] > 50
    assert left_s[2] is None


@pytest.mark.parametrize("new_runner", DOORS.values(), ids=DOORS)
def test_messages_on_dynamodb(new_runner: NewRunner) -> None:
    with mock_aws():
        client = connect("", "us-east-1", connections_max=1)
        with serving_on_dynamodb(client, new_runner) as server:
            sqs = server.client()
            queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
            bodies = ["small", "big" * 1000]
            for body in bodies:
                sqs.send_message(QueueUrl=queue, MessageBody=body)
            received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
            assert sorted(message["Body"] for message in received) == sorted(bodies)
            for message in received:
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            assert "Messages" not in sqs.receive_message(QueueUrl=queue)
