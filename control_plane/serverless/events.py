"""Events of API Gateway and of function URLs as HTTP requests, and responses as their results.

A signature is over what the client sent, so the request is put together as it was sent. What the
doors change on the way, and how that is undone, is listed in docs/architecture.md, *Functions*:

* API Gateway's REST API (payload 1.0) leaves the path encoded, with the stage or base path that
  the client used in `requestContext.path` alone. It decodes the query (a plus sign as a space);
  the canonical query of a signature is sorted and encoded in one way, so it can be made again.
* A function URL (payload 2.0) leaves path and query as they were, joins repeated headers by commas
  and takes cookies out of them.
* Both drop or replace headers of the connection; of these some SDKs sign Content-Length, which is
  the length of the body.
"""

import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from data_plane.core.errors import Fault, RefusedError
from data_plane.http.screening import check_host, check_readable, combine
from data_plane.protocol.http import HttpRequest, HttpResponse

_ROOT: Final = "/"
_US_PER_MS: Final = 1_000
_is_uuid: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch

Event = Mapping[str, Any]
"""JSON as Lambda hands it over."""


class _Address(NamedTuple):
    """What a request is for, as HttpRequest has it."""

    method: str
    path: str
    query: str
    prefix: str = ""


def rest_request(event: Event) -> HttpRequest:
    """The request in an event of a REST API. Raises LookupError, TypeError for another event."""
    context = event["requestContext"]
    path = context["path"]
    address = _Address(context["httpMethod"], path, _encoded_query(event), _prefix(path, event))
    headers = _several(event, "multiValueHeaders", "headers")
    return _request(event, address, headers, context.get("identity", {}).get("sourceIp") or "")


def rest_time_us(event: Event) -> int:
    """When the request came to API Gateway; 0 where the event does not say."""
    return int(event["requestContext"].get("requestTimeEpoch") or 0) * _US_PER_MS


def url_request(event: Event) -> HttpRequest:
    """The request in an event of a function URL. Raises LookupError for another event."""
    http = event["requestContext"]["http"]
    headers = [(name.lower(), text) for name, text in (event.get("headers") or {}).items()]
    if event.get("cookies"):
        headers.append(("cookie", "; ".join(event["cookies"])))
    address = _Address(http["method"], event["rawPath"], event.get("rawQueryString") or "")
    return _request(event, address, headers, http.get("sourceIp") or "")


def url_time_us(event: Event) -> int:
    """When the request came to the function URL; 0 where the event does not say."""
    return int(event["requestContext"].get("timeEpoch") or 0) * _US_PER_MS


def result(response: HttpResponse) -> dict[str, Any]:
    """The response as a function's result, which both doors take.

    Bodies are text, but for CBOR, which begins with no byte that a text begins with. API Gateway
    would hand out base64 as it is to whoever sends no Accept header.
    """
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    try:
        body, is_encoded = response.body.decode(), False
    except UnicodeDecodeError:
        body, is_encoded = binascii.b2a_base64(response.body, newline=False).decode(), True
    return {
        "statusCode": response.status,
        "headers": headers,
        "body": body,
        "isBase64Encoded": is_encoded,
    }


def _request(
    event: Event, address: _Address, headers: Sequence[tuple[str, str]], client: str
) -> HttpRequest:
    body = _body(event)
    readable = [(name, text) for name, text in headers if text.isascii()]
    combined: dict[str, str] = {}
    refusal: tuple[Fault, str] | None = None
    try:
        combined = combine(readable)
        check_readable((name for name, _ in headers), combined)
        check_host(combined, "1.1", None)
    except RefusedError as error:
        combined = combined or dict(readable)
        refusal = (error.fault, error.message)
    if body:
        combined.setdefault("content-length", str(len(body)))
    request_id = event["requestContext"].get("requestId") or ""
    return HttpRequest(
        method=address.method,
        path=address.path,
        query=address.query,
        headers=combined,
        body=b"" if refusal else body,
        client=client,
        # AWS's doors speak TLS alone; an emulator says what it speaks.
        secure=combined.get("x-forwarded-proto", "https").lower() == "https",
        refusal=refusal,
        prefix=address.prefix,
        request_id=request_id if _is_uuid(request_id) else "",
    )


def _body(event: Event) -> bytes:
    body = event.get("body") or ""
    if event.get("isBase64Encoded"):
        return binascii.a2b_base64(body)
    if isinstance(body, bytes):
        return body  # by `chalice local`
    # What is no Unicode is for the protocols to refuse.
    text: str = body
    return text.encode(errors="surrogatepass")


def _several(event: Event, several: str, single: str) -> list[tuple[str, str]]:
    """Names in lower case with each of their values."""
    values = event.get(several)
    if values is None:
        values = {name: [text] for name, text in (event.get(single) or {}).items()}
    return [(name.lower(), text) for name, texts in values.items() for text in texts]


def _encoded_query(event: Event) -> str:
    values = event.get("multiValueQueryStringParameters")
    if values is None:
        single = event.get("queryStringParameters") or {}
        values = {name: [text] for name, text in single.items()}
    return "&".join(
        f"{_encoded(name)}={_encoded(text)}" for name, texts in values.items() for text in texts
    )


def _encoded(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _prefix(path: str, event: Event) -> str:
    """What of the path leads to the API: its stage, or the base path of a domain of its own."""
    end = path.rstrip("/")
    if event.get("resource") == _ROOT:
        return end
    inside = (event.get("pathParameters") or {}).get("proxy") or event.get("path") or ""
    inside = inside.strip("/")
    if not inside:
        return end
    return end.removesuffix("/" + inside).rstrip("/") if end.endswith("/" + inside) else ""
