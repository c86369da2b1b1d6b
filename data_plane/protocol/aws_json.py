"""AWS JSON 1.0: requests named by X-Amz-Target, JSON in, JSON out.

Decoding is strict: what is not a JSON object of the operation's shape is refused with
SerializationException before anything else looks at it, in the words of AWS where those were
recorded. As with AWS unknown members are ignored, null means absent (in a list it is dropped, in a
map it stays a key without a value), and decimals lose their fraction.
"""

import binascii
import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

import msgspec

from data_plane.core.errors import MALFORMED_INPUT, Fault, RefusedError, invalid_character
from data_plane.core.limits import LONG_MAX, LONG_MIN
from data_plane.protocol.http import HttpResponse
from data_plane.protocol.json_readers import (
    Reader,
    list_reader,
    map_reader,
    refuse_value,
    structure_reader,
)
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
_CONTENT_TYPE_HEADER: Final = ("content-type", CONTENT_TYPE)


def decode(body: bytes, read: Reader) -> Params:
    """Parse a request's body; an empty one is an empty object.

    Raises RefusedError: MALFORMED_INPUT for anything but an object of the reader's shape (malformed
    JSON or UTF-8, NaN, repeated keys, nesting past the interpreter's limit), and what SQS says of
    characters outside Unicode for escapes of lone surrogates, wherever they stand.
    """
    if not body:
        return {}
    return _decode(body, read, _parse)


def decode_with_places(body: bytes, read: Reader, value_of: Callable[[str], Any]) -> Params:
    """The same, where the word NaN stands for a value: what `value_of` returns, in their order."""
    parse = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=value_of).decode
    return _decode(body, read, parse)


def _decode(body: bytes, read: Reader, parse: Callable[[str], Any]) -> Params:
    try:
        value = parse(body.decode())
    except (ValueError, RecursionError) as error:
        raise RefusedError(MALFORMED_INPUT, "The request body is not valid JSON.") from error
    if b"\\u" in body:
        # In a text it changes nothing.
        _refuse_lone_surrogates(body.replace(b"NaN", b"0"), value)
    params: Params = read(value)
    return params


def encode(request_id: str, output: Params) -> HttpResponse:
    """A successful answer."""
    return HttpResponse(
        200,
        (("x-amzn-requestid", request_id), _CONTENT_TYPE_HEADER),
        _encoder.encode(output),
    )


def encode_fault(request_id: str, fault: Fault, message: str) -> HttpResponse:
    """A refusal: the shape in the body and a header, the legacy code in `x-amzn-query-error`."""
    shape = fault.namespace + fault.shape
    side = "Sender" if fault.sender else "Receiver"
    return HttpResponse(
        fault.status,
        (
            ("x-amzn-requestid", request_id),
            _CONTENT_TYPE_HEADER,
            ("x-amzn-errortype", shape),
            ("x-amzn-query-error", f"{fault.code};{side}"),
        ),
        _encoder.encode({"__type": shape, "message": message}),
    )


def reader(shape: Shape) -> Reader:
    """Build the reader of a shape, once; reading is on the path of every request."""
    match shape:
        case Structure():
            members = {name: reader(member) for name, member in shape.members.items()}
            return structure_reader(members)
        case ListOf():
            return list_reader(reader(shape.member))
        case MapOf():
            nothing: Any = {} if isinstance(shape.value, Structure) else None
            return map_reader(reader(shape.value), nothing)
        case Scalar():
            return _SCALAR_READERS[shape.kind]


def _read_string(value: Any) -> str:
    if type(value) is not str:
        refuse_value(value, f"{_kind(value)}_VALUE can not be converted to a String")
    return value


def _read_integer(value: Any) -> int:
    if type(value) is float and math.isfinite(value):
        value = int(value)
    if type(value) is not int or not LONG_MIN <= value <= LONG_MAX:
        refuse_value(value, f"{_kind(value)}_VALUE can not be converted to an Integer")
    return value


def _read_boolean(value: Any) -> bool:
    if type(value) is not bool:
        refuse_value(value, f"{_kind(value)}_VALUE can not be converted to a Boolean")
    return value


def _read_blob(value: Any) -> bytes:
    if type(value) is not str:
        refuse_value(value, f"{_kind(value)}_VALUE can not be converted to a Blob")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError as error:
        raise RefusedError(MALFORMED_INPUT, "A blob must be valid base64.") from error


_SCALAR_READERS: Final[dict[str, Reader]] = {
    "string": _read_string,
    "integer": _read_integer,
    "boolean": _read_boolean,
    "blob": _read_blob,
}


def _kind(value: Any) -> str:
    """How AWS calls the token that stands for a scalar."""
    match value:
        case bool():
            return str(value).upper()
        case str():
            return "STRING"
        case None:
            return "NULL"
        case _:
            return "NUMBER"


def _refuse_lone_surrogates(body: bytes, value: Any) -> None:
    """Of what the standard library reads, the stricter parser refuses them alone."""
    try:
        _decode_unicode(body)
    except (ValueError, RecursionError) as error:
        found = _find_surrogate(json.dumps(value, ensure_ascii=False))
        raise invalid_character(found[0] if found else _SURROGATE) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object repeats a key")
    return members


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_SURROGATE: Final = "\ud800"
_find_surrogate: Final = re.compile("[\ud800-\udfff]").search
_encoder: Final = msgspec.json.Encoder()  # writes bytes as base64, as the protocol wants
_decode_unicode: Final = msgspec.json.Decoder(float_hook=str).decode
_parse: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_json).decode
