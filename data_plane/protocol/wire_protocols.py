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
from data_plane.protocol import (
    aws_json,
    aws_query,
    cbor,
    kinesis_json,
    kinesis_wire,
    legacy_json,
    long_json,
    query_xml,
)
from data_plane.protocol.http import HttpRequest, HttpResponse, path_inside, queue_path
from data_plane.protocol.operation import Operation, Params
from data_plane.protocol.service import Service, Services
from data_plane.protocol.shapes import Structure

Found = tuple[Service, Operation]

Slices = Generator[None, None, Params]
"""Decodes parameters and pauses after each slice: so others are served between them."""

Decode = Callable[[HttpRequest, str], Params | Slices]
"""The parameters of a request with this query string. Raises RefusedError."""

_SPEAKS_JSON: Final = "AmazonSQS"
"""Whose calls are in AWS JSON 1.0 whatever they say."""
_SHOWN_CHARS: Final = 256
"""So much of what a stranger wrote is repeated in an answer."""


def _as_it_is(fault: Fault, _headers: Mapping[str, str]) -> Fault:
    """SQS's names are those of the table."""
    return fault


def _unknown_operation(_request: HttpRequest) -> HttpResponse:
    return query_xml.UNKNOWN_OPERATION


@dataclass(frozen=True, slots=True, eq=False)
class WireProtocol:
    """How requests name an operation and its parameters, and how answers are written.

    `name` is how logs and metrics call it, and `matches` says of a request's headers whether it is
    to be answered so. `find` answers None where the request names no operation at all, which is
    answered by `no_operation`; it raises RefusedError for one that does not exist. `decoder`
    makes what decodes an operation's parameters. Those of one that `is_form` may stand in the query
    string, and are signed in an order of their own then. `spell` gives a fault that all services
    share the name and status that it has for a request with these headers. `at_any_path` requests
    may name an operation.
    """

    name: str
    is_form: bool
    matches: Callable[[Mapping[str, str]], bool]
    find: Callable[[Services, HttpRequest], Found | None]
    decoder: Callable[[Operation, Structure], Decode]
    encode: Callable[[str, Service, Operation, Params], HttpResponse]
    encode_fault: Callable[[str, Service | None, Fault, str], HttpResponse]
    spell: Callable[[Fault, Mapping[str, str]], Fault] = _as_it_is
    no_operation: Callable[[HttpRequest], HttpResponse] = _unknown_operation
    at_any_path: bool = False


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
    if headers.get("x-amz-target", "").startswith(_SPEAKS_JSON):
        return True
    if kinesis_wire.says_kinesis(headers):
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


def _find_in_kinesis(services: Services, request: HttpRequest) -> Found | None:
    if not kinesis_wire.can_name_operation(request):
        return None
    if not kinesis_wire.is_target(request.headers):
        raise RefusedError(INVALID_ACTION, "The operation is unknown.")
    return _find_target(services, request)


def _kinesis(
    name: str,
    media: str,
    matches: Callable[[Mapping[str, str]], bool],
    decoder_of: Callable[[Structure], Callable[[bytes], Params | Slices]],
    encoder_of: Callable[[Structure], Callable[[Params], bytes]],
) -> WireProtocol:
    """A protocol of Kinesis. What encodes is made when a shape is met first."""
    encoders: dict[int, tuple[Structure, Callable[[Params], bytes]]] = {}

    def encoder(shape: Structure) -> Callable[[Params], bytes]:
        made = encoders.get(id(shape))
        if made is None:  # With the shape, so that its id stays its own.
            made = encoders[id(shape)] = (shape, encoder_of(shape))
        return made[1]

    def decoder(_operation: Operation, shape: Structure) -> Decode:
        decode = decoder_of(shape)
        return lambda request, _query: decode(request.body)

    def encode(
        request_id: str, _service: Service, operation: Operation, output: Params
    ) -> HttpResponse:
        return kinesis_wire.answer(request_id, media, encoder(operation.output)(output))

    def encode_fault(
        request_id: str, _service: Service | None, fault: Fault, message: str
    ) -> HttpResponse:
        return kinesis_wire.refusal(request_id, media, fault, message)

    return WireProtocol(
        name=name,
        is_form=False,
        matches=matches,
        find=_find_in_kinesis,
        decoder=decoder,
        encode=encode,
        encode_fault=encode_fault,
        spell=kinesis_wire.spell,
        no_operation=kinesis_wire.no_operation,
        at_any_path=True,
    )


AWS_JSON: Final = WireProtocol(
    name="json",
    is_form=False,
    matches=_says_json,
    find=_find_target,
    decoder=_json_decoder,
    encode=_encode_json,
    encode_fault=_encode_json_fault,
)
KINESIS_CBOR: Final = _kinesis(
    "cbor",
    kinesis_wire.CBOR,
    lambda headers: kinesis_wire.media_type(headers) == kinesis_wire.CBOR,
    cbor.decoder,
    cbor.encoder,
)
KINESIS_JSON: Final = _kinesis(
    "json-1.1",
    kinesis_wire.JSON,
    kinesis_wire.says_kinesis,
    kinesis_json.decoder,
    kinesis_json.encoder,
)
LEGACY_JSON: Final = WireProtocol(
    name="query-json",
    is_form=True,
    matches=lambda headers: "application/json" in headers.get("accept", "").lower(),
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
PROTOCOLS: Final = (AWS_JSON, KINESIS_CBOR, KINESIS_JSON, LEGACY_JSON, QUERY)
"""The first that matches a request is its protocol; the last matches all."""
