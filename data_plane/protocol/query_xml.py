"""The Query protocol's answers: XML documents in their service's namespace."""

import base64
import re
from collections.abc import Iterator
from typing import Any, Final

from data_plane.core.errors import Fault, queue_does_not_exist
from data_plane.protocol.http import HttpResponse
from data_plane.protocol.operation import Operation, Params
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure

NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
"""That of SQS."""
_DECLARATION: Final = '<?xml version="1.0"?>'
_CONTENT_TYPE_HEADER: Final = ("content-type", "text/xml")
_ESCAPES: Final = str.maketrans(
    # A parser turns a bare carriage return into a line feed, which would break the body's MD5. It
    # is written as SQS does: parsers of SDKs know this spelling, and not all know decimals.
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#xD;"}
)
_NO_SUCH_QUEUE: Final = queue_does_not_exist()
_not_xml = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

UNKNOWN_OPERATION: Final = HttpResponse(
    404, (_CONTENT_TYPE_HEADER,), b"<UnknownOperationException/>"
)
"""The answer where a request names no action at all."""


def encode(
    request_id: str, operation: Operation, output: Params, namespace: str = NAMESPACE
) -> HttpResponse:
    """A successful answer."""
    name = operation.name
    parts = [_DECLARATION, f'<{name}Response xmlns="{namespace}">']
    if operation.output.members:
        result = "".join(_structure(output, operation.output))
        # As SQS writes it: there are clients that look for this text.
        parts.append(f"<{name}Result>{result}</{name}Result>" if result else f"<{name}Result/>")
    parts.append(
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{name}Response>"
    )
    return _response(200, request_id, "".join(parts))


def encode_fault(
    request_id: str, fault: Fault, message: str, namespace: str = NAMESPACE
) -> HttpResponse:
    """A refusal, under its legacy code."""
    document = (
        f'{_DECLARATION}<ErrorResponse xmlns="{namespace}"><Error>'
        f"<Type>{side(fault)}</Type><Code>{fault.code}</Code>"
        f"<Message>{_text(wording(fault, message))}</Message><Detail/></Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    return _response(fault.status, request_id, document)


def side(fault: Fault) -> str:
    """Who is at fault, in the protocol's word."""
    return "Sender" if fault.sender else "Receiver"


def wording(fault: Fault, message: str) -> str:
    """The message as this protocol has it: one of them differs from AWS JSON's."""
    if message == _NO_SUCH_QUEUE.message and fault is _NO_SUCH_QUEUE.fault:
        return message.removesuffix(".") + " for this wsdl version."
    return message


def _response(status: int, request_id: str, document: str) -> HttpResponse:
    return HttpResponse(
        status, (("x-amzn-requestid", request_id), _CONTENT_TYPE_HEADER), document.encode()
    )


def _structure(value: Params, structure: Structure) -> Iterator[str]:
    for name, shape in structure.members.items():
        if name in value:
            yield from _member(value[name], shape, name)


def _member(value: Any, shape: Shape, name: str) -> Iterator[str]:
    match shape:
        case Scalar():
            yield f"<{name}>{_text(_scalar(value))}</{name}>"
        case Structure():
            yield f"<{name}>"
            yield from _structure(value, shape)
            yield f"</{name}>"
        case ListOf():
            for member in value:
                yield from _member(member, shape.member, shape.query_name)
        case MapOf():
            for key, member in value.items():
                yield f"<{shape.query_name}><{shape.query_key}>{_text(key)}</{shape.query_key}>"
                yield from _member(member, shape.value, shape.query_value)
                yield f"</{shape.query_name}>"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _text(text: str) -> str:
    return _not_xml.sub("\ufffd", text).translate(_ESCAPES)
