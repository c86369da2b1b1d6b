"""Kinesis beside SQS: its requests, answers and refusals on the wire."""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace as replaced
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from botocore.parsers import create_parser
from msgspec.structs import replace

from data_plane.core.caller import AccessKey, Caller
from data_plane.core.errors import INTERNAL_FAILURE, STREAM_NOT_FOUND, RefusedError
from data_plane.core.limits import PUT_BODY_BYTES_MAX, SMALL_BODY_BYTES_MAX
from data_plane.core.quotas import UNLIMITED, Quotas
from data_plane.core.token_bucket import Rate
from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.served import Served
from data_plane.frontend.settings import FrontEndSettings
from data_plane.http.overload import Overload, OverloadSettings
from data_plane.operations.catalog import message_operations
from data_plane.protocol import cbor
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.kinesis import kinesis
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.shapes import STRING, Structure
from data_plane.protocol.sqs import sqs
from data_plane.protocol.stream_shapes import SHAPES, WAIT
from tests.conformance.signing import ACCOUNT, KEY, FixedClock, KnownKeys, signed
from tests.unit.data_plane.wire import FakeBag, run

JSON = "application/x-amz-json-1.1"
CBOR = "application/x-amz-cbor-1.1"
USER_KEY = AccessKey("AKIDUSER", "hers", Caller(ACCOUNT, "ann", "", "AKIDUSER"))
REFUSAL = Structure({"__type": STRING, "message": STRING, "Message": STRING})


class Site:
    """A front end of SQS and Kinesis; operations on streams answer what is set."""

    def __init__(self, media: str) -> None:
        self.media = self.content_type = media
        self.served: list[Served] = []
        self.calls: list[Call] = []
        self.output: Params = {}
        self.failure: Exception | None = None
        self.quotas = UNLIMITED
        operations = [
            Operation(
                name,
                given,
                answered,
                self._perform,
                on_queue=False,
                wait_member=WAIT if name == "GetRecords" else "",
            )
            for name, (given, answered) in SHAPES.items()
        ]
        keys = KnownKeys({key.id: key for key in (KEY, USER_KEY)})
        self.front_end = FrontEnd(
            (sqs(message_operations(FakeBag())), kinesis(operations)),
            self,
            FixedClock(),
            self,
            FrontEndSettings(long_poll_s_max=5),
            self.served.append,
            quotas=self,
            credentials=keys,
        )

    async def _perform(self, call: Call) -> Params:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure
        return self.output

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    async def find(self, _account: str, _region: str, _name: str) -> None:
        return None

    async def find_quotas(self, _account: str) -> Quotas:
        return self.quotas

    def body(self, action: str, params: Mapping[str, Any]) -> bytes:
        if self.media == CBOR:
            return cbor.encoder(Structure(SHAPES[action][0].members or {"x": STRING}))(params)
        return json.dumps(params, default=lambda blob: base64.b64encode(blob).decode()).encode()

    def request(
        self,
        action: str,
        params: Mapping[str, Any],
        key: AccessKey = KEY,
        service: str = "kinesis",
        path: str = "/",
    ) -> HttpRequest:
        headers = {"X-Amz-Target": f"Kinesis_20131202.{action}", "Content-Type": self.content_type}
        body = self.body(action, params) if action in SHAPES else b"{}"
        return signed("POST", path, headers=headers, body=body, key=key, service=service)

    def answer(self, request: HttpRequest) -> HttpResponse:
        return run(self.front_end.answer(request))

    def call(self, action: str, params: Mapping[str, Any], **options: Any) -> HttpResponse:
        return self.answer(self.request(action, params, **options))

    def refused(self, response: HttpResponse, status: int = 400) -> dict[str, str]:
        """What a refusal says."""
        assert response.status == status
        if self.media == CBOR:
            return dict(cbor.decoder(REFUSAL)(response.body))
        told: dict[str, str] = json.loads(response.body)
        return told


@pytest.fixture(params=[JSON, CBOR])
def site(request: pytest.FixtureRequest) -> Site:
    return Site(request.param)


def test_a_call_is_answered_in_its_media_type(site: Site) -> None:
    site.output = {"ShardId": "shardId-000000000000", "SequenceNumber": "7"}
    response = site.call("PutRecord", {"StreamName": "s", "Data": b"\xff", "PartitionKey": "k"})
    headers = dict(response.headers)
    assert (response.status, headers["content-type"]) == (200, site.media)
    assert len(headers["x-amzn-requestid"]) == 36
    assert len(headers["x-amz-id-2"]) == 96
    assert site.calls[-1].params == {"StreamName": "s", "Data": b"\xff", "PartitionKey": "k"}
    assert (site.served[-1].operation, site.served[-1].code) == ("kinesis:PutRecord", "")
    if site.media == JSON:
        assert json.loads(response.body) == site.output
    site.output = {}
    assert site.call("DeleteStream", {"StreamName": "s"}).body == b""
    assert site.call("DescribeLimits", {}).status == 200


@pytest.mark.parametrize(
    "path", ["/any/where/at/all", "/a", "/a/b", "/queue/b", f"/{ACCOUNT}/orders"]
)
def test_parameters_of_the_media_type_and_any_path_are_tolerated(site: Site, path: str) -> None:
    site.content_type = f" {site.media.upper()} ; charset=utf-8"
    response = site.call("DescribeLimits", {}, path=path)
    assert (response.status, dict(response.headers)["content-type"]) == (200, site.media)


def test_refusals_have_short_types_and_their_messages(site: Site) -> None:
    site.failure = RefusedError(STREAM_NOT_FOUND, "Stream s under account 1 not found.")
    response = site.call("DescribeStream", {"StreamName": "s"})
    assert dict(response.headers)["content-type"] == site.media
    assert site.refused(response) == {
        "__type": "ResourceNotFoundException",
        "message": "Stream s under account 1 not found.",
    }
    assert site.served[-1].code == "ResourceNotFoundException"
    site.failure = RefusedError(INTERNAL_FAILURE, "It broke.")
    response = site.call("DescribeStream", {"StreamName": "s"})
    assert site.refused(response, 500) == {"__type": "InternalFailure"}


def test_bounds_of_parameters(site: Site) -> None:
    told = site.refused(site.call("DescribeStream", {}))
    assert told["__type"] == "ValidationException"
    assert told["message"].startswith("1 validation error detected: Value null at 'streamName' ")
    assert not site.calls


@pytest.mark.parametrize("stream_id", ["x", 7])
def test_what_is_reserved_for_future_use_is_ignored(site: Site, stream_id: str | int) -> None:
    headers = {"X-Amz-Target": "Kinesis_20131202.DescribeStream", "Content-Type": site.media}
    if site.media == JSON:
        body = json.dumps({"StreamName": "s", "StreamId": stream_id}).encode()
    else:
        told = b"\x61x" if stream_id == "x" else b"\x07"
        body = b"\xa2\x6aStreamName\x61s\x68StreamId" + told
    response = site.answer(signed("POST", headers=headers, body=body, service="kinesis"))
    assert response.status == 200
    assert site.calls[-1].params == {"StreamName": "s"}


def test_bodies_that_are_broken_and_members_of_other_types(site: Site) -> None:
    headers = {"X-Amz-Target": "Kinesis_20131202.DescribeStream", "Content-Type": site.media}
    for body in (b"", b"\xc1"):
        response = site.answer(signed("POST", headers=headers, body=body, service="kinesis"))
        assert site.refused(response) == {"__type": "SerializationException"}
    body = b'{"Limit":true}' if site.media == JSON else b"\xa1\x65Limit\xf5"
    response = site.answer(signed("POST", headers=headers, body=body, service="kinesis"))
    assert site.refused(response) == {
        "__type": "SerializationException",
        "Message": "class java.lang.Boolean can not be converted to an Integer",
    }


@pytest.mark.parametrize("target", ["Kinesis_20131202.Nothing", "Kinesis_20200101.PutRecord", ""])
def test_operations_that_are_not(site: Site, target: str) -> None:
    headers = {"Content-Type": site.media} | ({"X-Amz-Target": target} if target else {})
    response = site.answer(signed("POST", headers=headers, body=b"{}", service="kinesis"))
    assert site.refused(response) == {"__type": "UnknownOperationException"}


def test_other_media_types_and_methods_name_no_operation(site: Site) -> None:
    request = site.request("DescribeLimits", {})
    for media in ("application/json", "text/plain", ""):
        headers = {**request.headers, "content-type": media}
        response = site.answer(replace(request, headers=headers))
        assert (response.status, response.body) == (404, b"<UnknownOperationException/>\n")
    response = site.answer(replace(request, method="PUT"))
    assert response.status == 403
    assert b"<Message>Unable to determine service/operation name to be authorized" in response.body


def test_who_has_not_signed_or_may_not_is_told_with_400(site: Site) -> None:
    request = site.request("DescribeLimits", {})
    unsigned = {name: request.headers[name] for name in request.headers if name != "authorization"}
    told = site.refused(site.answer(replace(request, headers=unsigned)))
    assert told["__type"] == "MissingAuthenticationTokenException"
    told = site.refused(site.call("DescribeLimits", {}, key=replaced(KEY, secret="no")))
    assert told["__type"] == "InvalidSignatureException"
    told = site.refused(site.call("DescribeLimits", {}, key=replaced(KEY, id="AKIDNONE")))
    assert told["__type"] == "UnrecognizedClientException"
    told = site.refused(site.call("DescribeLimits", {}, service="sqs"))
    assert told["__type"] == "InvalidSignatureException"
    told = site.refused(site.call("DescribeLimits", {}, key=USER_KEY))
    assert told["__type"] == "AccessDeniedException"
    assert "kinesis:DescribeLimits" in told["message"]
    assert site.served[-1].code == "AccessDeniedException"


def test_throttling_is_told_as_of_a_shard_or_as_of_the_rest(site: Site) -> None:
    once = Rate(1, 1)
    site.quotas = replaced(UNLIMITED, account={"send": once, "receive": once, "control": once})
    for action, code in (
        ("PutRecord", "ProvisionedThroughputExceededException"),
        ("GetShardIterator", "ProvisionedThroughputExceededException"),
        ("ListStreams", "LimitExceededException"),
    ):
        site.call(action, {})
        response = site.call(action, {})
        assert site.refused(response)["__type"] == code
        assert "retry-after" in dict(response.headers)
        assert site.served[-1].code == code
        unread = site.front_end.refuse_unread(site.request(action, {}).headers)
        assert unread is not None
        assert site.refused(unread)["__type"] == code


def test_an_overloaded_server_says_so_in_the_same_form(site: Site) -> None:
    overload = Overload(OverloadSettings(), lambda: 0, site)
    told = site.refused(overload.refuse(site.request("PutRecord", {}).headers), 503)
    assert told == {"__type": "ServiceUnavailable", "message": "The service is busy. Try again."}


def test_bodies_have_the_length_of_their_operation(site: Site) -> None:
    record = {"Data": bytes(9 * 1_048_576), "PartitionKey": "k"}
    assert site.call("PutRecords", {"StreamName": "s", "Records": [record]}).status == 200
    assert site.calls[-1].params["Records"] == [record]
    response = site.call("ListStreams", {"NextToken": "x" * SMALL_BODY_BYTES_MAX})
    assert site.refused(response, 413)["__type"] == "RequestEntityTooLarge"
    request = site.request("PutRecords", {})
    request = replace(request, body=b"x" * (PUT_BODY_BYTES_MAX + 1))
    assert site.refused(site.answer(request), 413)["message"].endswith("15728640 bytes.")


def test_a_read_waits_as_long_as_it_may(site: Site) -> None:
    site.call("GetRecords", {"ShardIterator": "i", WAIT: 20})
    assert site.calls[-1].params[WAIT] == 5
    site.call("GetRecords", {"ShardIterator": "i"})
    assert WAIT not in site.calls[-1].params
    told = site.refused(site.call("GetRecords", {"ShardIterator": "i", WAIT: 21}))
    assert "at 'tidegateWaitTimeSeconds'" in told["message"]


def test_botocore_reads_answers_and_refusals() -> None:
    site = Site(JSON)
    model = botocore.session.get_session().get_service_model("kinesis")
    shape: Any = model.operation_model("GetRecords").output_shape
    record = {"SequenceNumber": "1", "Data": b"\xff", "ApproximateArrivalTimestamp": 1_500}
    site.output = {"Records": [record], "MillisBehindLatest": 7}

    def parsed() -> Any:
        response = site.call("GetRecords", {"ShardIterator": "i"})
        told = {
            "status_code": response.status,
            "headers": dict(response.headers),
            "body": response.body,
        }
        return create_parser("json").parse(told, shape)

    answer = parsed()
    assert answer["Records"] == [
        {
            "SequenceNumber": "1",
            "Data": b"\xff",
            "ApproximateArrivalTimestamp": datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
        }
    ]
    assert answer["MillisBehindLatest"] == 7
    site.failure = RefusedError(STREAM_NOT_FOUND, "Stream s under account 1 not found.")
    assert parsed()["Error"] == {
        "Code": "ResourceNotFoundException",
        "Message": "Stream s under account 1 not found.",
    }


def test_sqs_is_not_disturbed() -> None:
    site = Site(JSON)
    headers = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": JSON}
    response = site.answer(signed("POST", headers=headers, body=b"{}", service="sqs"))
    assert dict(response.headers)["content-type"] == "application/x-amz-json-1.0"
    # The Query protocol has no operations of Kinesis.
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"Action=ListStreams&Version=2013-12-02", b"Action=ListStreams&Version="):
        assert b"InvalidAction" in site.answer(signed("POST", headers=form, body=body)).body
