"""Requests as the doors hand them over, put together as they were sent."""

from base64 import b64decode
from typing import Any

import pytest

from control_plane.serverless.events import (
    rest_request,
    rest_time_us,
    result,
    url_request,
    url_time_us,
)
from data_plane.core.errors import MALFORMED_HTTP_REQUEST
from data_plane.protocol.http import HttpResponse

REST: dict[str, Any] = {
    # As recorded from AWS, with a stage.
    "resource": "/{proxy+}",
    "path": "/111122223333/orders",
    "httpMethod": "POST",
    "headers": {"Host": "abc.execute-api.eu-west-1.amazonaws.com"},
    "multiValueHeaders": {
        "Host": ["abc.execute-api.eu-west-1.amazonaws.com"],
        "Content-Type": ["application/x-amz-json-1.0"],
        "X-Amz-Target": ["AmazonSQS.ListQueues"],
        "X-Forwarded-Proto": ["https"],
        "tEsT-HEADeR": ["a", "b"],
    },
    "queryStringParameters": {"email": "test+alias@gmail.com", "plus": "c d"},
    "multiValueQueryStringParameters": {
        "email": ["test+alias@gmail.com"],
        "plus": ["a b", "c d"],
        "empty": [""],
    },
    "pathParameters": {"proxy": "111122223333/orders"},
    "stageVariables": None,
    "requestContext": {
        "resourcePath": "/{proxy+}",
        "httpMethod": "POST",
        "path": "/prod/111122223333/orders",
        "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
        "requestTimeEpoch": 1_790_000_000_123,
        "identity": {"sourceIp": "203.0.113.7"},
    },
    "body": "e30=",
    "isBase64Encoded": True,
}
URL: dict[str, Any] = {
    "version": "2.0",
    "rawPath": "/111122223333/orders",
    "rawQueryString": "a=b%20c&a=d+e&f",
    "cookies": ["k=v", "l=w"],
    "headers": {
        "host": "abc.lambda-url.eu-west-1.on.aws",
        "x-forwarded-proto": "https",
        "x-twice": "a,b",
    },
    "requestContext": {
        "http": {"method": "PUT", "path": "/", "sourceIp": "2001:db8::7"},
        "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
        "timeEpoch": 1_790_000_000_123,
    },
    "body": "{}",
    "isBase64Encoded": False,
}


def rest(context: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {**REST, **members, "requestContext": {**REST["requestContext"], **(context or {})}}


def test_a_request_of_a_rest_api() -> None:
    request = rest_request(REST)
    assert (request.method, request.path, request.prefix) == (
        "POST",
        "/prod/111122223333/orders",
        "/prod",
    )
    assert request.query == "email=test%2Balias%40gmail.com&plus=a%20b&plus=c%20d&empty="
    assert request.headers == {
        "host": "abc.execute-api.eu-west-1.amazonaws.com",
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "AmazonSQS.ListQueues",
        "x-forwarded-proto": "https",
        "test-header": "a,b",
        "content-length": "2",
    }
    assert (request.body, request.client, request.secure) == (b"{}", "203.0.113.7", True)
    assert request.request_id == "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    assert request.refusal is None
    assert rest_time_us(REST) == 1_790_000_000_123_000


def test_a_request_to_a_function_url() -> None:
    request = url_request(URL)
    assert (request.method, request.path, request.prefix) == ("PUT", "/111122223333/orders", "")
    assert request.query == "a=b%20c&a=d+e&f"
    assert request.headers == {
        "host": "abc.lambda-url.eu-west-1.on.aws",
        "x-forwarded-proto": "https",
        "x-twice": "a,b",
        "cookie": "k=v; l=w",
        "content-length": "2",
    }
    assert (request.body, request.client, request.secure) == (b"{}", "2001:db8::7", True)
    assert url_time_us(URL) == 1_790_000_000_123_000


@pytest.mark.parametrize(
    ("path", "proxy", "prefix"),
    [
        ("/prod", None, "/prod"),
        ("/prod/", None, "/prod"),
        ("/", None, ""),
        ("/111122223333/orders", "111122223333/orders", ""),
        ("/111122223333/orders/", "111122223333/orders", ""),
        ("/a/b/111122223333/orders", "111122223333/orders", "/a/b"),
        ("/prod/%31/x", "%31/x", "/prod"),
        ("/prod/1/x", "%31/x", ""),
        ("//x", "x", ""),
    ],
)
def test_what_leads_to_the_service(path: str, proxy: str | None, prefix: str) -> None:
    resource = "/{proxy+}" if proxy else "/"
    parameters = {"proxy": proxy} if proxy else None
    request = rest_request(rest({"path": path}, resource=resource, pathParameters=parameters))
    assert (request.path, request.prefix) == (path, prefix)


def test_emulators_that_say_less() -> None:
    event = rest(
        {"requestId": "abc", "requestTimeEpoch": None, "identity": {}},
        multiValueHeaders=None,
        multiValueQueryStringParameters=None,
        body=None,
        isBase64Encoded=False,
    )
    request = rest_request(event)
    assert request.headers == {"host": "abc.execute-api.eu-west-1.amazonaws.com"}
    assert request.query == "email=test%2Balias%40gmail.com&plus=c%20d"
    assert (request.body, request.client, request.request_id) == (b"", "", "")
    assert rest_time_us(event) == 0


def test_an_emulator_without_tls() -> None:
    headers = {"Host": ["h"], "X-Forwarded-Proto": ["http"]}
    assert not rest_request(rest(multiValueHeaders=headers)).secure


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"Host": ["a"], "Authorization": ["x", "y"]}, "The header authorization is repeated."),
        ({"Host": ["a"], "X-Amz-Target": ["x", "x"]}, "The header x-amz-target is repeated."),
        ({"Host": ["a"], "X-Amz-Date": ["\u00fc"]}, "The header x-amz-date is not ASCII."),
        ({"Host": ["a b"]}, "The Host header names no host."),
        ({}, "The request has no Host header."),
    ],
)
def test_what_the_server_refuses_is_refused_here(headers: dict[str, list[str]], words: str) -> None:
    request = rest_request(rest(multiValueHeaders=headers))
    assert request.refusal == (MALFORMED_HTTP_REQUEST, words)
    assert request.body == b""


def test_headers_that_decide_nothing_may_be_of_any_kind() -> None:
    headers = {"Host": ["a"], "User-Agent": ["\u00fc"], "X-Odd": ["a", "b"]}
    request = rest_request(rest(multiValueHeaders=headers))
    assert request.refusal is None
    assert request.headers == {"host": "a", "x-odd": "a,b", "content-length": "2"}


def test_a_body_that_is_no_unicode_is_for_the_protocols_to_refuse() -> None:
    assert url_request({**URL, "body": "\ud800"}).body == b"\xed\xa0\x80"


def test_a_response() -> None:
    response = HttpResponse(
        403, (("content-type", "text/xml"), ("x-a", "1"), ("x-a", "2")), "<\u00fc/>".encode()
    )
    assert result(response) == {
        "statusCode": 403,
        "headers": {"content-type": "text/xml", "x-a": "1,2"},
        "body": "<\u00fc/>",
        "isBase64Encoded": False,
    }


def test_a_body_of_bytes_is_taken_as_it_is() -> None:
    """`chalice local` hands them on."""
    event = {
        "requestContext": {"httpMethod": "POST", "path": "/"},
        "headers": {"host": "127.0.0.1:8000"},
        "body": b"{\xff}",
    }

    assert rest_request(event).body == b"{\xff}"


@pytest.mark.parametrize("body", [b"\xa1\x62id\x01", b"\xbf\xff"], ids=["CBOR", "open CBOR"])
def test_an_answer_that_is_no_text_goes_out_in_base64(body: bytes) -> None:
    """SDKs for Java speak of streams in CBOR."""
    told = result(HttpResponse(200, (), body))
    assert told["isBase64Encoded"] is True
    assert b64decode(told["body"]) == body
