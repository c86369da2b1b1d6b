"""The first stages: size and syntax of the request, then its operation and parameters."""

from collections.abc import Awaitable, Generator, Mapping

from data_plane.core.errors import (
    INVALID_ACTION,
    MALFORMED_QUERY,
    REQUEST_TOO_LARGE,
    RefusedError,
    request_too_large,
)
from data_plane.core.limits import (
    REQUEST_FORM_FIELDS_MAX,
    REQUEST_HEADER_BYTES_MAX,
    REQUEST_HEADERS_MAX,
    REQUEST_TARGET_BYTES_MAX,
)
from data_plane.core.turns import InTurns
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.settings import FrontEndSettings
from data_plane.protocol.http import path_inside, queue_path
from data_plane.protocol.operation import Params
from data_plane.protocol.service import Services
from data_plane.protocol.wire_protocols import Decode


def check_size_and_syntax(settings: FrontEndSettings) -> Stage:
    """Refuse what is too big to look at, before it is parsed, and read the path."""

    def stage(exchange: Exchange) -> None:
        request = exchange.request
        if request.refusal is not None:
            raise RefusedError(*request.refusal)
        if len(request.body) > settings.body_bytes_max:
            raise request_too_large(settings.body_bytes_max)
        if len(request.path) + len(request.query) > REQUEST_TARGET_BYTES_MAX:
            raise RefusedError(MALFORMED_QUERY, "The request's address is too long.")
        if request.query.count("&") >= REQUEST_FORM_FIELDS_MAX:
            raise RefusedError(MALFORMED_QUERY, "The query string contains a syntax error.")
        if not (request.path.isascii() and request.query.isascii()):
            raise RefusedError(MALFORMED_QUERY, "The request's address is not percent-encoded.")
        check_headers(request.headers)
        exchange.path_queue = queue_path(path_inside(request))

    return stage


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise RefusedError(REQUEST_TOO_LARGE) for too many headers, or too long ones."""
    size = sum(map(len, headers)) + sum(map(len, headers.values()))
    if len(headers) > REQUEST_HEADERS_MAX or size > REQUEST_HEADER_BYTES_MAX:
        raise RefusedError(REQUEST_TOO_LARGE, "The request's headers are too long.")


def find_operation(services: Services) -> Stage:
    """Find the operation that the request names, and refuse a body that is too long for it.

    Of a form nothing but the Action is read: its sender is not known yet.
    """

    def stage(exchange: Exchange) -> None:
        request, protocol = exchange.request, exchange.protocol
        is_known_path = exchange.path_queue is not None or path_inside(request) == "/"
        if not is_known_path and not protocol.at_any_path:
            if not protocol.is_form:
                raise RefusedError(INVALID_ACTION, "The path is unknown.")
            exchange.response = protocol.no_operation(request)
            return
        found = protocol.find(services, request)
        if found is None:
            exchange.response = protocol.no_operation(request)
            return
        exchange.service, exchange.operation = service, operation = found
        bytes_max = service.body_bytes_max[operation.name]
        if len(request.body) > bytes_max:
            raise request_too_large(bytes_max)

    return stage


def decode_params(in_turns: InTurns) -> Stage:
    """Decode the operation's parameters, from the bytes that were authenticated.

    What decodes them is made for the first request that needs it. Long bodies are decoded in
    slices; others have their turn between them.
    """
    decoders: dict[tuple[str, str, str], Decode] = {}

    def stage(exchange: Exchange) -> Awaitable[None] | None:
        request, signed = exchange.request, exchange.signed_query
        protocol, service, operation = exchange.protocol, exchange.served_by, exchange.chosen
        name = protocol.name, service.name, operation.name
        decode = decoders.get(name)
        if decode is None:
            made = protocol.decoder(operation, service.input_of(operation))
            decode = decoders[name] = made
        decoded = decode(request, request.query if signed is None else signed)
        if isinstance(decoded, Generator):
            return _keep_params(exchange, in_turns(decoded))
        exchange.params = decoded
        return None

    return stage


async def _keep_params(exchange: Exchange, decoding: Awaitable[Params]) -> None:
    exchange.params = await decoding
