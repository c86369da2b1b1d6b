"""The rendering of Query answers that old clients ask for with `Accept: application/json`.

Every member of a structure is present, null where it has no value; maps are lists of pairs. Source:
answers published for API Gateway integrations with SQS.
"""

from typing import Any, Final

import msgspec

from data_plane.core.errors import Fault
from data_plane.protocol.http import HttpResponse
from data_plane.protocol.operation import Operation, Params
from data_plane.protocol.query_xml import side, wording
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure

_encoder: Final = msgspec.json.Encoder()
_CONTENT_TYPE_HEADER: Final = ("content-type", "application/json")
_RENAMED: Final = {"Messages": "messages", "QueueUrls": "queueUrls"}


def encode(request_id: str, operation: Operation, output: Params) -> HttpResponse:
    """A successful answer."""
    answer: dict[str, Any] = {"ResponseMetadata": {"RequestId": request_id}}
    if operation.output.members:
        answer[f"{operation.name}Result"] = _render(output, operation.output)
    return _response(200, request_id, {f"{operation.name}Response": answer})


def encode_fault(request_id: str, fault: Fault, message: str) -> HttpResponse:
    """A refusal, under its legacy code."""
    error = {"Code": fault.code, "Message": wording(fault, message), "Type": side(fault)}
    return _response(fault.status, request_id, {"Error": error, "RequestId": request_id})


def _response(status: int, request_id: str, document: Params) -> HttpResponse:
    return HttpResponse(
        status,
        (("x-amzn-requestid", request_id), _CONTENT_TYPE_HEADER),
        _encoder.encode(document),
    )


def _render(value: Any, shape: Shape) -> Any:
    if value is None:
        return None
    match shape:
        case Scalar():
            return value
        case Structure():
            return {
                _RENAMED.get(name, name): _render(value.get(name), member)
                for name, member in shape.members.items()
            }
        case ListOf():
            return [_render(member, shape.member) for member in value]
        case MapOf():
            return [
                {shape.query_key: key, shape.query_value: _render(member, shape.value)}
                for key, member in value.items()
            ]
