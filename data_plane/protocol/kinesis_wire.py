"""How Kinesis is spoken to: which requests are its own, how its answers and refusals look.

The media type of a request says whether it is JSON or CBOR, and is that of its answer; any path
will do. Source: recorded from AWS.
"""

import base64
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from data_plane.core.errors import (
    INTERNAL_FAILURE,
    INVALID_ACTION,
    KINESIS_SPELLING,
    LIMIT_EXCEEDED,
    MALFORMED_INPUT,
    REQUEST_THROTTLED,
    THROTTLING,
    THROUGHPUT_EXCEEDED,
    Fault,
)
from data_plane.core.quotas import STREAM_QUOTA_CLASSES
from data_plane.protocol import cbor, kinesis_json
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import STRING, Structure

TARGET_PREFIX: Final = "Kinesis_20131202"
JSON: Final = "application/x-amz-json-1.1"
CBOR: Final = "application/x-amz-cbor-1.1"

_MEDIA_TYPES: Final = frozenset({JSON, CBOR})
_REFUSAL: Final = Structure({"__type": STRING, "message": STRING, "Message": STRING})
_WITHOUT_MESSAGE: Final = frozenset({INVALID_ACTION.shape, INTERNAL_FAILURE.shape})

_NO_OPERATION: Final = HttpResponse(404, (), b"<UnknownOperationException/>\n")
_NOT_POSTED: Final = HttpResponse(
    403,
    (),
    b"<AccessDeniedException>\n  <Message>Unable to determine service/operation name to be "
    b"authorized</Message>\n</AccessDeniedException>\n",
)


@lru_cache(maxsize=64)
def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def media_type(headers: Mapping[str, str]) -> str:
    """The media type of a request's body, without parameters; "" where it has none."""
    return _media_type(headers.get("content-type", "")[:256])


def is_target(headers: Mapping[str, str]) -> bool:
    """Whether the request names an operation of Kinesis, or one that it might have."""
    return headers.get("x-amz-target", "").rpartition(".")[0] == TARGET_PREFIX


def says_kinesis(headers: Mapping[str, str]) -> bool:
    """Whether the request is to be answered as by Kinesis, where no other service is named."""
    return media_type(headers) in _MEDIA_TYPES or is_target(headers)


def can_name_operation(request: HttpRequest) -> bool:
    """Whether it is posted, in a media type that Kinesis reads."""
    return request.method == "POST" and media_type(request.headers) in _MEDIA_TYPES


def no_operation(request: HttpRequest) -> HttpResponse:
    """The answer to what is not."""
    return _NO_OPERATION if request.method == "POST" else _NOT_POSTED


def spell(fault: Fault, headers: Mapping[str, str]) -> Fault:
    """What a fault that all services share is called by Kinesis."""
    if fault is REQUEST_THROTTLED:
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        if action.endswith(("QueueRecords", "QueueRecordsVisibility")):
            return THROTTLING
        return THROUGHPUT_EXCEEDED if action in STREAM_QUOTA_CLASSES else LIMIT_EXCEEDED
    return KINESIS_SPELLING.get(fault, fault)


def answer(request_id: str, media: str, body: bytes, status: int = 200) -> HttpResponse:
    """An answer in one of the media types."""
    # AWS's is as long, and as opaque.
    extended_id = base64.b64encode((request_id * 2).encode()).decode()
    headers = (
        ("x-amzn-requestid", request_id),
        ("x-amz-id-2", extended_id),
        ("content-type", media),
    )
    return HttpResponse(status, headers, body)


_ENCODE_REFUSAL: Final[Mapping[str, Callable[[Params], bytes]]] = {
    JSON: kinesis_json.encode,
    CBOR: cbor.encoder(_REFUSAL),
}


def refusal(request_id: str, media: str, fault: Fault, message: str) -> HttpResponse:
    """A refusal: the type without a namespace, and where AWS gives one a message."""
    body = {"__type": fault.shape}
    if message and fault.shape not in _WITHOUT_MESSAGE:
        body["Message" if fault.shape == MALFORMED_INPUT.shape else "message"] = message
    return answer(request_id, media, _ENCODE_REFUSAL[media](body), fault.status)
