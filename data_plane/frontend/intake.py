"""The first stages: size and syntax of the request, then its protocol, operation and parameters."""

from collections.abc import Iterable, Mapping
from typing import Final

from data_plane.core.errors import (
    INVALID_ACTION,
    MALFORMED_INPUT,
    MALFORMED_QUERY,
    REQUEST_TOO_LARGE,
    RefusedError,
    request_too_large,
)
from data_plane.core.limits import (
    REQUEST_HEADER_BYTES_MAX,
    REQUEST_HEADERS_MAX,
    REQUEST_TARGET_BYTES_MAX,
)
from data_plane.frontend.exchange import JSON, LEGACY_JSON, QUERY, Exchange, Stage
from data_plane.frontend.settings import FrontEndSettings
from data_plane.protocol import aws_json, aws_query, query_xml
from data_plane.protocol.extension_shapes import extended_input
from data_plane.protocol.http import HttpRequest, path_inside
from data_plane.protocol.operation import Operation

_QUEUE_PATH_SEGMENTS: Final = 2
_NOT_ON_A_QUEUE: Final = frozenset({"CreateQueue", "ListQueues"})


def protocol_of(headers: Mapping[str, str]) -> str:
    """The protocol in which a request is to be answered, whatever else is wrong with it."""
    if "x-amz-target" in headers:
        return JSON
    if headers.get("content-type", "").lower().startswith("application/x-amz-json"):
        return JSON
    if "application/json" in headers.get("accept", ""):
        return LEGACY_JSON
    return QUERY


def check_size_and_syntax(settings: FrontEndSettings) -> Stage:
    """Refuse what is too big to look at, before it is parsed, and read the path."""

    async def stage(exchange: Exchange) -> None:
        request = exchange.request
        if request.refusal is not None:
            raise RefusedError(*request.refusal)
        if len(request.body) > settings.body_bytes_max:
            raise request_too_large(settings.body_bytes_max)
        if len(request.path) + len(request.query) > REQUEST_TARGET_BYTES_MAX:
            raise RefusedError(MALFORMED_QUERY, "The request's address is too long.")
        if not (request.path.isascii() and request.query.isascii()):
            raise RefusedError(MALFORMED_QUERY, "The request's address is not percent-encoded.")
        headers = request.headers
        if (
            len(headers) > REQUEST_HEADERS_MAX
            or sum(map(len, headers.values())) > REQUEST_HEADER_BYTES_MAX
        ):
            raise RefusedError(REQUEST_TOO_LARGE, "The request's headers are too long.")
        exchange.path_queue = _read_path(path_inside(request))

    return stage


def find_operation(operations: Iterable[Operation]) -> Stage:
    """Find the operation that the request names; of a Query request, read the form's fields."""
    by_name = {operation.name: operation for operation in operations}

    def find_json(exchange: Exchange) -> None:
        request = exchange.request
        prefix, _, name = request.headers.get("x-amz-target", "").rpartition(".")
        operation = by_name.get(name) if prefix == aws_json.TARGET_PREFIX else None
        if operation is None or request.method != "POST":
            raise RefusedError(INVALID_ACTION, "The operation is unknown.")
        exchange.operation = operation

    def find_query(exchange: Exchange) -> None:
        if exchange.request.method not in ("GET", "POST"):
            exchange.response = query_xml.UNKNOWN_OPERATION
            return
        exchange.fields = read_fields(exchange.request, exchange.request.query)
        action = exchange.fields.get("Action")
        if action is None:
            exchange.response = query_xml.UNKNOWN_OPERATION
            return
        operation = by_name.get(action)
        if operation is None or (exchange.path_queue and action in _NOT_ON_A_QUEUE):
            raise RefusedError(
                INVALID_ACTION, f"The action {action} is not valid for this endpoint."
            )
        exchange.operation = operation

    async def stage(exchange: Exchange) -> None:
        if exchange.path_queue is None and path_inside(exchange.request) != "/":
            if exchange.protocol == JSON:
                raise RefusedError(INVALID_ACTION, "The path is unknown.")
            exchange.response = query_xml.UNKNOWN_OPERATION
        elif exchange.protocol == JSON:
            find_json(exchange)
        else:
            find_query(exchange)

    return stage


def read_fields(request: HttpRequest, query: str) -> aws_query.Fields:
    """The fields of the request's form, and before them those of `query`. Raises RefusedError."""
    return aws_query.parse_fields(query, _form(request))


def decode_params(operations: Iterable[Operation]) -> Stage:
    """Decode the operation's parameters, from the bytes that were authenticated."""
    inputs = {
        operation.name: extended_input(operation.name, operation.input) for operation in operations
    }
    readers = {name: aws_json.reader(shape) for name, shape in inputs.items()}

    async def stage(exchange: Exchange) -> None:
        name = exchange.chosen.name
        if exchange.protocol == JSON:
            exchange.params = aws_json.decode(exchange.request.body, readers[name])
        else:
            exchange.params = aws_query.decode(exchange.fields, inputs[name])

    return stage


def _read_path(path: str) -> tuple[str, str] | None:
    """Account and name of `/<account>/<queue>`, not checked."""
    if path == "/":
        return None
    segments = path.strip("/").split("/")
    if len(segments) != _QUEUE_PATH_SEGMENTS:
        return None
    return segments[0], segments[1]


def _form(request: HttpRequest) -> bytes:
    """The body where it is a form; what else a GET or POST carries has no parameters."""
    content_type = request.headers.get("content-type", "").lower()
    if request.method == "GET" or not request.body:
        return b""
    if content_type and not content_type.startswith("application/x-www-form-urlencoded"):
        raise RefusedError(MALFORMED_INPUT, "The content type is not supported.")
    return request.body
