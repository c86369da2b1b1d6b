"""The protocols that clients may speak, as values: the stages ask no further which one it is."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Final

from data_plane.core.errors import (
    INVALID_ACTION,
    MALFORMED_QUERY,
    Fault,
    RefusedError,
)
from data_plane.core.limits import SMALL_BODY_BYTES_MAX
from data_plane.protocol import aws_json, aws_query, legacy_json, long_json, query_xml
from data_plane.protocol.http import HttpRequest, HttpResponse, path_inside, queue_path
from data_plane.protocol.operation import Operation, Params
from data_plane.protocol.service import Service, Services
from data_plane.protocol.shapes import Structure

Found = tuple[Service, Operation]

Slices = Generator[None, None, Params]
"""Decodes parameters and pauses after each slice: so others are served between them."""

Decode = Callable[[HttpRequest, str], Params | Slices]
"""The parameters of a request with this query string. Raises RefusedError."""

_SHOWN_CHARS: Final = 256
"""So much of what a stranger wrote is repeated in an answer."""


@dataclass(frozen=True, slots=True, eq=False)
class WireProtocol:
    """How requests name an operation and its parameters, and how answers are written.

    `name` is how logs and metrics call it, and `matches` says of a request's headers whether it is
    to be answered so. `find` answers None where the request names no operation at all, which is
    answered by UNKNOWN_OPERATION; it raises RefusedError for one that does not exist. `decoder`
    makes what decodes an operation's parameters. Those of one that `is_form` may stand in the query
    string, and are signed in an order of their own then.
    """

    name: str
    is_form: bool
    matches: Callable[[Mapping[str, str]], bool]
    find: Callable[[Services, HttpRequest], Found | None]
    decoder: Callable[[Operation, Structure], Decode]
    encode: Callable[[str, Service, Operation, Params], HttpResponse]
    encode_fault: Callable[[str, Service | None, Fault, str], HttpResponse]


UNKNOWN_OPERATION: Final = query_xml.UNKNOWN_OPERATION


def protocol_of(headers: Mapping[str, str]) -> WireProtocol:
    """The protocol in which a request is to be answered, whatever else is wrong with it."""
    for protocol in PROTOCOLS:
        if protocol.matches(headers):
            return protocol
    return QUERY


def _says_json(headers: Mapping[str, str]) -> bool:
    """By the content type, as Smithy's protocols are told apart; the target where that says none.

    There are clients that send a form with a header X-Amz-Target.
    """
    content_type = headers.get("content-type", "").lower()
    if content_type.startswith(aws_query.FORM_TYPE):
        return False
    return "x-amz-target" in headers or content_type.startswith("application/x-amz-json")


def _find_target(services: Services, request: HttpRequest) -> Found:
    prefix, _, name = request.headers.get("x-amz-target", "").rpartition(".")
    service = services.by_target_prefix.get(prefix)
    operation = service.operations.get(name) if service is not None else None
    if service is None or operation is None or request.method != "POST":
        raise RefusedError(INVALID_ACTION, "The operation is unknown.")
    return service, operation


def _json_decoder(_operation: Operation, shape: Structure) -> Decode:
    read = aws_json.reader(shape)

    def decode(request: HttpRequest, _query: str) -> Params | Slices:
        body = request.body
        if len(body) <= SMALL_BODY_BYTES_MAX:
            return aws_json.decode(body, read)
        return long_json.decode_in_slices(body, read)

    return decode


def _encode_json(
    request_id: str, _service: Service, _operation: Operation, output: Params
) -> HttpResponse:
    return aws_json.encode(request_id, output)


def _encode_json_fault(
    request_id: str, _service: Service | None, fault: Fault, message: str
) -> HttpResponse:
    return aws_json.encode_fault(request_id, fault, message)


def _find_action(services: Services, request: HttpRequest) -> Found | None:
    """By the field Action, and by Version where there is more than one service.

    Of a form the beginning is enough: its sender is not known yet.
    """
    if request.method not in ("GET", "POST"):
        return None
    form = aws_query.form_of(request)
    action = aws_query.find_field("Action", request.query, form)
    if action is None:
        aws_query.check_text(form)
        return None
    service = services.default
    if len(services.all) > 1:
        version = aws_query.find_field("Version", request.query, form)
        service = services.by_version.get(version or "", service)
    operation = service.operations.get(action)
    if operation is None or (operation.at_root and queue_path(path_inside(request)) is not None):
        raise RefusedError(
            INVALID_ACTION,
            f"The action {action[:_SHOWN_CHARS]} is not valid for this endpoint.",
        )
    return service, operation


def _form_decoder(operation: Operation, shape: Structure) -> Decode:
    def decode(request: HttpRequest, query: str) -> Slices:
        fields = yield from aws_query.parse_in_slices(query, aws_query.form_of(request))
        # What is done is what was found before its sender was known, or nothing is.
        if fields.get("Action") != operation.name:
            raise RefusedError(MALFORMED_QUERY, "The query string contains a syntax error.")
        return aws_query.decode(fields, shape)

    return decode


def _encode_xml(
    request_id: str, service: Service, operation: Operation, output: Params
) -> HttpResponse:
    return query_xml.encode(request_id, operation, output, service.xml_namespace)


def _encode_xml_fault(
    request_id: str, service: Service | None, fault: Fault, message: str
) -> HttpResponse:
    namespace = query_xml.NAMESPACE if service is None else service.xml_namespace
    return query_xml.encode_fault(request_id, fault, message, namespace)


def _encode_legacy(
    request_id: str, _service: Service, operation: Operation, output: Params
) -> HttpResponse:
    return legacy_json.encode(request_id, operation, output)


def _encode_legacy_fault(
    request_id: str, _service: Service | None, fault: Fault, message: str
) -> HttpResponse:
    return legacy_json.encode_fault(request_id, fault, message)


AWS_JSON: Final = WireProtocol(
    name="json",
    is_form=False,
    matches=_says_json,
    find=_find_target,
    decoder=_json_decoder,
    encode=_encode_json,
    encode_fault=_encode_json_fault,
)
LEGACY_JSON: Final = WireProtocol(
    name="query-json",
    is_form=True,
    matches=lambda headers: "application/json" in headers.get("accept", ""),
    find=_find_action,
    decoder=_form_decoder,
    encode=_encode_legacy,
    encode_fault=_encode_legacy_fault,
)
"""Query in, JSON out: for clients that say `Accept: application/json`."""

QUERY: Final = WireProtocol(
    name="query",
    is_form=True,
    matches=lambda _headers: True,
    find=_find_action,
    decoder=_form_decoder,
    encode=_encode_xml,
    encode_fault=_encode_xml_fault,
)
PROTOCOLS: Final = (AWS_JSON, LEGACY_JSON, QUERY)
"""The first that matches a request is its protocol; the last matches all."""
