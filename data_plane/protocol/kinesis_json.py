"""AWS JSON 1.1 as Kinesis reads and writes it.

What is no JSON object, or has a member of another type, is refused with SerializationException, in
words recorded from AWS. Unknown members are ignored, null means absent, fractions are dropped,
integers beyond 32 bits are the last within, and of a repeated member the last counts.

A request is decoded by a typed decoder, which makes bytes of base64 while it reads, and everything
that this refuses once more by a slow walk, which knows what is wrong and reads what is only odd.
Of a long body the blobs are decoded in slices: 10 MiB of base64 take 30 ms.
"""

import json
import math
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final, NoReturn, NotRequired, TypedDict, cast

import msgspec

from data_plane.core.errors import MALFORMED_INPUT, RefusedError
from data_plane.core.limits import (
    LONG_MAX,
    PUT_OUTSIDE_BYTES_MAX,
    PUT_STRINGS_MAX,
    SMALL_BODY_BYTES_MAX,
)
from data_plane.protocol.base64_blobs import decode_blob, decode_blobs
from data_plane.protocol.json_readers import (
    Reader,
    list_reader,
    map_reader,
    refuse_value,
    structure_reader,
)
from data_plane.protocol.long_json import find_lone_surrogate, take_strings
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure

Slices = Generator[None, None, Params]
Decode = Callable[[bytes], Params | Slices]

_AT_ONCE_BYTES_MAX: Final = 262_144
"""Up to here a body is decoded at once, in less than a millisecond."""
_FEW_TEXTS_BYTES_MAX: Final = 1_048_576
"""The same of one that has no more texts than a legal call."""
_QUOTES_MAX: Final = 2 * PUT_STRINGS_MAX
_WITHOUT_BRACKETS: Final = 4_096
_MS_PER_S: Final = 1_000
_NUMBER: Final = "com.amazon.coral.value.json.numbers.TruncatingBigNumber"
_BROKEN: Final = (msgspec.DecodeError, ValueError, RecursionError)

_parse: Final = msgspec.json.Decoder().decode
_encoder: Final = msgspec.json.Encoder()  # writes bytes as base64


def decoder(shape: Structure) -> Decode:
    """What decodes requests of this shape, at once or in slices. It raises RefusedError."""
    decode = msgspec.json.Decoder(_type_of(shape, bytes)).decode
    decode_texts = msgspec.json.Decoder(_type_of(shape, str)).decode
    read, read_texts = reader(shape), reader(shape, blobs_later=True)

    def decode_small(body: bytes) -> Params:
        with suppress(*_BROKEN):
            return cast(Params, decode(body))
        try:
            value = _parse(body)
        except _BROKEN as error:
            raise RefusedError(MALFORMED_INPUT, "") from error
        return _object(value, read)

    def decode_long(body: bytes) -> Slices:
        params: Params | None = None
        if _is_plain(body):
            with suppress(*_BROKEN):
                params = decode_texts(body)
            yield
        if params is None:
            value = yield from _walk(body)
            params = _object(value, read_texts)
        yield from decode_blobs(params, shape)
        return params

    def decode_any(body: bytes) -> Params | Slices:
        if len(body) <= SMALL_BODY_BYTES_MAX:
            return decode_small(body)
        if _is_done_at_once(body):
            with suppress(*_BROKEN):
                return cast(Params, decode(body))
        return decode_long(body)

    return decode_any


def _is_done_at_once(body: bytes) -> bool:
    if len(body) <= _AT_ONCE_BYTES_MAX:
        return True
    return len(body) <= _FEW_TEXTS_BYTES_MAX and body.count(b'"') <= _QUOTES_MAX


def _is_plain(body: bytes) -> bool:
    """Whether a typed decoder makes no more of a long body than of a legal call.

    Each text has two quotes, and no base64 has a bracket. (To count the quotes of a few long texts
    would take ten times as long.)
    """
    at = 0
    for _ in range(_QUOTES_MAX):
        quote = body.find(b'"', at)
        end = len(body) if quote < 0 else quote
        if end - at > _WITHOUT_BRACKETS and body.find(b"[", at, end) >= 0:
            return False
        if quote < 0:
            return True
        at = quote + 1
    return False


def _walk(body: bytes) -> Generator[None, None, Any]:
    """The body as the standard library reads it, long texts slice by slice."""
    taken: list[str] = []
    try:
        rest = yield from take_strings(body, taken, PUT_STRINGS_MAX, PUT_OUTSIDE_BYTES_MAX)
        _parse(rest.replace(b"NaN", b"0"))  # the stricter one; in a text that changes nothing
        texts = iter(taken)
        value = json.JSONDecoder(parse_constant=lambda _place: next(texts)).decode(rest.decode())
    except _BROKEN as error:
        raise RefusedError(MALFORMED_INPUT, "") from error
    yield
    if b"\\u" in body and (yield from find_lone_surrogate(taken)):
        raise RefusedError(MALFORMED_INPUT, "")
    return value


def _object(value: Any, read: Reader) -> Params:
    if type(value) is not dict:
        raise RefusedError(MALFORMED_INPUT, "")
    params: Params = read(value)
    return params


def _type_of(shape: Shape, blob: type) -> Any:
    """The type by which a typed decoder reads a shape; what it refuses is read again."""
    match shape:
        case Structure():
            return _typed_dict(shape, blob)
        case ListOf():
            return list[_type_of(shape.member, blob)]  # type: ignore[misc] # as above
        case MapOf():
            return dict[str, _type_of(shape.value, blob)]  # type: ignore[misc] # as above
        case Scalar(kind="integer"):
            least, most = shape.ends
            return Annotated[int, msgspec.Meta(ge=least, le=most)]
        case Scalar(kind="timestamp"):
            return None  # has to be converted
        case Scalar():
            return {"string": str, "boolean": bool, "blob": blob}[shape.kind]


def _typed_dict(shape: Structure, blob: type) -> Any:
    members: dict[str, Any] = {}
    for name, member in shape.members.items():
        kind = _type_of(member, blob)
        members[name] = kind if name in shape.required else NotRequired[kind]
    make: Any = TypedDict  # which is for literals alone, as type checkers have it
    return make("Members", members)


def reader(shape: Shape, *, blobs_later: bool = False) -> Reader:
    """The slow walk: checks a decoded value against a shape, in words that say what is wrong.

    With `blobs_later` blobs stay texts.
    """
    match shape:
        case Structure():
            return structure_reader(
                {
                    name: reader(member, blobs_later=blobs_later)
                    for name, member in shape.members.items()
                }
            )
        case ListOf():
            read_member = reader(shape.member, blobs_later=blobs_later)
            is_of_structures = isinstance(shape.member, Structure)
            return (_structures_reader if is_of_structures else list_reader)(read_member)
        case MapOf():
            return map_reader(reader(shape.value, blobs_later=blobs_later), "")
        case Scalar(kind="blob"):
            return _read_text_of_blob if blobs_later else _read_blob
        case Scalar(kind="integer"):
            return partial(_read_integer, ends=shape.ends)
        case Scalar():
            return _SCALAR_READERS[shape.kind]


def _structures_reader(read_member: Reader) -> Reader:
    """Of a list of structures: one that is null misses what it must have, and keeps its place."""

    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            refuse_value(value, "Expected list or null")
        return [read_member({} if member is None else member) for member in value]

    return read


def _read_string(value: Any) -> str:
    if type(value) is not str:
        refuse_conversion(value, "an String")
    return value


def _read_integer(value: Any, ends: tuple[int, int]) -> int:
    if type(value) is float:
        value = math.floor(value)
    if type(value) is not int:
        refuse_conversion(value, "an Integer")
    least, most = ends
    return max(least, min(value, most))


def _read_boolean(value: Any) -> bool:
    if type(value) is not bool:
        refuse_conversion(value, "an Boolean")
    return value


def _read_timestamp(value: Any) -> int:
    if type(value) not in (int, float):
        refuse_conversion(value, "milliseconds since epoch")
    seconds_max = LONG_MAX // _MS_PER_S
    seconds: float = max(-seconds_max, min(value, seconds_max))
    return round(seconds * _MS_PER_S)


def _read_text_of_blob(value: Any) -> str:
    if type(value) is not str:
        refuse_conversion(value, "a Blob")
    return value


def _read_blob(value: Any) -> bytes:
    return decode_blob(_read_text_of_blob(value))


_SCALAR_READERS: Final[dict[str, Reader]] = {
    "string": _read_string,
    "boolean": _read_boolean,
    "timestamp": _read_timestamp,
}


def refuse_conversion(value: Any, to: str) -> NoReturn:
    """Refuse a value of another type than its shape has."""
    match value:
        case bool():
            name = "java.lang.Boolean"
        case str():
            name = "java.lang.String"
        case _:
            name = _NUMBER
    refuse_value(value, f"class {name} can not be converted to {to}")


def encoder(shape: Structure) -> Callable[[Params], bytes]:
    """What writes answers of this shape: nothing at all for one without members."""
    if not shape.members:
        return lambda _output: b""
    convert = _converter(shape)
    if convert is None:
        return _encoder.encode
    return lambda output: _encoder.encode(convert(output))


def encode(value: Params) -> bytes:
    """Any JSON object."""
    return _encoder.encode(value)


def _converter(shape: Shape) -> Callable[[Any], Any] | None:
    """What turns milliseconds into seconds; None where the shape has no timestamps."""
    match shape:
        case Scalar(kind="timestamp"):
            return lambda value: value / _MS_PER_S
        case ListOf():
            convert = _converter(shape.member)
            return None if convert is None else lambda value: list(map(convert, value))
        case Structure():
            converted = [
                (name, convert)
                for name, member in shape.members.items()
                if (convert := _converter(member)) is not None
            ]
            return _structure_converter(converted) if converted else None
        case _:
            return None


def _structure_converter(converted: list[tuple[str, Callable[[Any], Any]]]) -> Reader:
    def convert(value: Params) -> Params:
        output = dict(value)
        for name, turn in converted:
            if name in output:
                output[name] = turn(output[name])
        return output

    return convert
