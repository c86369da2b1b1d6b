"""Events as API Gateway and function URLs make them of requests, and their answers from results.

The forms are those of events recorded from AWS: what is decoded, dropped, joined or put in base64.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from data_plane.protocol.http import HttpRequest, HttpResponse

PAYLOAD_BYTES_MAX = 6_291_556
"""What Lambda takes as an event, and as a result."""

_REQUEST_ID = "5f1b3a52-8a3e-4d2c-9a44-0d6d1f0c1c5e"
_DROPPED = {
    *("connection", "content-length", "content-md5", "expect", "max-forwards", "server", "te"),
    *("proxy-authenticate", "transfer-encoding", "trailer", "upgrade", "www-authenticate"),
}
"""Headers that a REST API hands to no function."""
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript")
"""Bodies of these come to a function URL as text, all others in base64."""


def rest_event(request: HttpRequest, *, prefix: str = "", time_ms: int = 0) -> dict[str, Any]:
    """The event of a REST API for which every type is binary.

    `prefix` is what of the request's path leads to the API: its stage, or a base path.
    """
    inside = request.path.removeprefix(prefix)
    proxy = inside.strip("/")
    query: dict[str, list[str]] = {}
    # A mapping of JSON has no order.
    for name, text in sorted(parse_qsl(request.query, keep_blank_values=True), reverse=True):
        query.setdefault(name, []).insert(0, text)
    headers = {name.title(): text for name, text in _passed(request).items()}
    resource = "/{proxy+}" if proxy else "/"
    return {
        "resource": resource,
        "path": inside or "/",
        "httpMethod": request.method,
        "headers": headers,
        "multiValueHeaders": {name: [text] for name, text in headers.items()},
        "queryStringParameters": {name: texts[-1] for name, texts in query.items()} or None,
        "multiValueQueryStringParameters": query or None,
        "pathParameters": {"proxy": proxy} if proxy else None,
        "stageVariables": None,
        "requestContext": {
            "resourcePath": resource,
            "httpMethod": request.method,
            "path": request.path,
            "stage": "prod",
            "protocol": "HTTP/1.1",
            "requestId": _REQUEST_ID,
            "requestTimeEpoch": time_ms,
            "identity": {"sourceIp": request.client, "userAgent": "tests"},
            "domainName": request.headers.get("host"),
        },
        "body": base64.b64encode(request.body).decode() or None,
        "isBase64Encoded": bool(request.body),
    }


def url_event(request: HttpRequest, *, time_ms: int = 0) -> dict[str, Any]:
    """The event of a function URL."""
    headers = _passed(request)
    cookies = headers.pop("cookie", "")
    body, encoded = _text_or_base64(request)
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": headers,
        **({"cookies": cookies.split("; ")} if cookies else {}),
        "requestContext": {
            "accountId": "anonymous",
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": "HTTP/1.1",
                "sourceIp": request.client,
                "userAgent": "tests",
            },
            "requestId": _REQUEST_ID,
            "routeKey": "$default",
            "stage": "$default",
            "timeEpoch": time_ms,
        },
        **({"body": body} if request.body else {}),
        "isBase64Encoded": encoded,
    }


def carried(document: Mapping[str, Any]) -> Any:
    """An event or a result as it comes out on the other side of Lambda."""
    text = json.dumps(document)
    assert len(text) <= PAYLOAD_BYTES_MAX, "Lambda would not take it"
    return json.loads(text)


def response_of(result: Mapping[str, Any]) -> HttpResponse:
    """The response that a door sends for a function's result."""
    body = result.get("body") or ""
    raw = base64.b64decode(body) if result.get("isBase64Encoded") else body.encode()
    return HttpResponse(result["statusCode"], tuple(result["headers"].items()), raw)


def _passed(request: HttpRequest) -> dict[str, str]:
    """Headers as a function sees them; those of the doors are added.

    A trace that came in goes on; else the door begins one, which nobody follows.
    """
    trace = request.headers.get("x-amzn-trace-id", "Root=1-62ecd163-5f302e550dcde3b12402207d")
    return {
        **{name: text for name, text in request.headers.items() if name not in _DROPPED},
        "x-amzn-trace-id": trace,
        "x-forwarded-for": request.client,
        "x-forwarded-port": "443" if request.secure else "80",
        "x-forwarded-proto": "https" if request.secure else "http",
    }


def _text_or_base64(request: HttpRequest) -> tuple[str, bool]:
    if request.headers.get("content-type", "").startswith(_TEXT_TYPES):
        return request.body.decode(errors="replace"), False
    return base64.b64encode(request.body).decode(), True
