"""CBOR (RFC 8949) as Kinesis reads and writes it: by the shape, and nothing beyond it.

A reader goes along the bytes with the shape in hand, so nothing is built of what the shape does not
have: unknown members are passed over, tags other than those of timestamps mean nothing. Work is
bounded by CBOR_ITEMS_MAX values, however nested, and depth by that of the shape. Lengths may be
indefinite. Blobs are byte strings, timestamps whole milliseconds with tag 1, both ways.

(A general decoder would make whatever a stranger's bytes ask for: values that refer to each other,
regular expressions, numbers of any size, 14 million empty lists.)
"""

import math
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

from data_plane.core.errors import MALFORMED_INPUT, RefusedError
from data_plane.core.limits import CBOR_ITEMS_MAX
from data_plane.protocol.json_readers import refuse_value
from data_plane.protocol.kinesis_json import refuse_conversion
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_FALSE, _TRUE, _NULL, _UNDEFINED, _HALF, _FLOAT, _DOUBLE = 20, 21, 22, 23, 25, 26, 27
_FOLLOWING_1: Final = 24
_INDEFINITE_INFO: Final = 31
_INDEFINITE: Final = -1
_STOP: Final = 0xFF
_NOTHING: Final = (0xF6, 0xF7)
_SHORT_TEXT, _SHORT_TEXT_END = 0x60, 0x78
_TIME_TAG: Final = b"\xc1"
_FLOATS: Final = {_HALF: ">e", _FLOAT: ">f", _DOUBLE: ">d"}
_MS_MAX: Final = 2**63 - 1


class _BrokenError(Exception):
    """These bytes are no CBOR."""


_Room = list[int]
"""How many values may still come: one number, which is counted down."""

_Read = Callable[[bytes, int, _Room], tuple[Any, int]]
"""Reads the value at an offset: that, and the offset behind it."""


def decoder(shape: Structure) -> Callable[[bytes], Params]:
    """What decodes requests of this shape. It raises RefusedError(MALFORMED_INPUT)."""
    read = _reader(shape)

    def decode(body: bytes) -> Params:
        try:
            if body[0] >> 5 != _MAP:
                raise _BrokenError
            params, end = read(body, 0, [CBOR_ITEMS_MAX])
        except (_BrokenError, IndexError, ValueError, struct.error) as error:
            raise RefusedError(MALFORMED_INPUT, "") from error
        if end != len(body):
            raise RefusedError(MALFORMED_INPUT, "")
        return dict(params)

    return decode


def _head(body: bytes, at: int) -> tuple[int, int, int]:
    """Major type, argument (or additional information of a simple value), offset behind them."""
    first = body[at]
    info = first & 31
    if info < _FOLLOWING_1:
        return first >> 5, info, at + 1
    if info == _INDEFINITE_INFO and first >> 5 in {_BYTES, _TEXT, _ARRAY, _MAP}:
        return first >> 5, _INDEFINITE, at + 1
    size = 1 << (info - _FOLLOWING_1)
    end = at + 1 + size
    if info > _DOUBLE or end > len(body):
        raise _BrokenError
    if first >> 5 == _SIMPLE:
        return _SIMPLE, info, end
    return first >> 5, int.from_bytes(body[at + 1 : end], "big"), end


def _untagged(body: bytes, at: int, room: _Room) -> int:
    """Where the value behind its tags is."""
    while body[at] >> 5 == _TAG:
        _take(room, 1)
        at = _head(body, at)[2]
    return at


def _take(room: _Room, count: int) -> None:
    room[0] -= count
    if room[0] < 0:
        raise _BrokenError


def _octets(body: bytes, at: int, major: int, room: _Room) -> tuple[bytes, int]:
    """A byte or text string of which the major type is known.

    One that ends too early is found by who reads behind it.
    """
    info = body[at] & 31
    if info < _FOLLOWING_1:
        end = at + 1 + info
        return body[at + 1 : end], end
    if info == _FOLLOWING_1:
        end = at + 2 + body[at + 1]
        return body[at + 2 : end], end
    _, size, at = _head(body, at)
    if size != _INDEFINITE:
        end = at + size
        return body[at:end], end
    chunks: list[bytes] = []
    while body[at] != _STOP:
        _take(room, 1)
        if body[at] >> 5 != major or body[at] & 31 == _INDEFINITE_INFO:
            raise _BrokenError
        chunk, at = _octets(body, at, major, room)
        chunks.append(chunk)
    return b"".join(chunks), at + 1


def _skip(body: bytes, at: int, room: _Room) -> int:
    """The offset behind a value that nobody wants."""
    left = [1]  # values to pass over, of each container around
    while left:
        if not left[-1] or (left[-1] < 0 and body[at] == _STOP):
            at += left.pop() < 0
            continue
        left[-1] -= left[-1] > 0
        _take(room, 1)
        major, count, behind = _head(body, at)
        if major in {_BYTES, _TEXT}:
            _, at = _octets(body, at, major, room)
            continue
        at = behind
        if major == _TAG:
            left.append(1)
        elif major in {_ARRAY, _MAP}:
            left.append(count if major == _ARRAY or count < 0 else 2 * count)
    return at


def _reader(shape: Shape) -> _Read:
    match shape:
        case Structure():
            members = {name.encode(): (name, _reader(each)) for name, each in shape.members.items()}
            return _structure_reader(members)
        case ListOf():
            return _list_reader(_reader(shape.member), of_structures=_is_structure(shape.member))
        case MapOf():
            return _map_reader(_reader(shape.value))
        case Scalar(kind="integer"):
            return partial(_read_integer, ends=shape.ends)
        case Scalar():
            return _SCALAR_READERS[shape.kind]


def _is_structure(shape: Shape) -> bool:
    return isinstance(shape, Structure)


def _structure_reader(members: dict[bytes, tuple[str, _Read]]) -> _Read:
    def read(body: bytes, at: int, room: _Room) -> tuple[dict[str, Any], int]:
        left, at = _enter(body, at, room, _MAP, "Expected null")
        result: dict[str, Any] = {}
        while left:
            if left < 0:
                if body[at] == _STOP:
                    return result, at + 1
                _take(room, 2)
            left -= 1
            first = body[at]
            if _SHORT_TEXT <= first < _SHORT_TEXT_END:
                end = at + 1 + first - _SHORT_TEXT
                name, at = body[at + 1 : end], end
            else:
                name, at = _name(body, at, room)
            member = members.get(name)
            if member is None:
                at = _skip(body, at, room)
            elif body[at] in _NOTHING:
                at += 1
            else:
                result[member[0]], at = member[1](body, at, room)
        return result, at

    return read


def _name(body: bytes, at: int, room: _Room) -> tuple[bytes, int]:
    if body[at] >> 5 != _TEXT:
        raise _BrokenError
    return _octets(body, at, _TEXT, room)


def _enter(body: bytes, at: int, room: _Room, wanted: int, otherwise: str) -> tuple[int, int]:
    """How many values a list or map has (below 0: as many as come), and where they begin."""
    if body[at] >> 5 != wanted:
        at = _untagged(body, at, room)
        if body[at] >> 5 != wanted:
            _refuse(body, at, room, otherwise)
    _, count, behind = _head(body, at)
    if count > 0:
        _take(room, count if wanted == _ARRAY else 2 * count)
    return count, behind


def _list_reader(read_member: _Read, *, of_structures: bool) -> _Read:
    def read(body: bytes, at: int, room: _Room) -> tuple[list[Any], int]:
        left, at = _enter(body, at, room, _ARRAY, "Expected list or null")
        result: list[Any] = []
        while left:
            if left < 0:
                if body[at] == _STOP:
                    return result, at + 1
                _take(room, 1)
            left -= 1
            if body[at] in _NOTHING:
                at += 1
                if of_structures:  # as in JSON
                    result.append({})
            else:
                member, at = read_member(body, at, room)
                result.append(member)
        return result, at

    return read


def _map_reader(read_value: _Read) -> _Read:
    def read(body: bytes, at: int, room: _Room) -> tuple[dict[str, Any], int]:
        left, at = _enter(body, at, room, _MAP, "Expected map or null")
        result: dict[str, Any] = {}
        while left:
            if left < 0:
                if body[at] == _STOP:
                    return result, at + 1
                _take(room, 2)
            left -= 1
            name, at = _name(body, at, room)
            if body[at] in _NOTHING:
                result[name.decode()], at = "", at + 1
            else:
                result[name.decode()], at = read_value(body, at, room)
        return result, at

    return read


def _read_string(body: bytes, at: int, room: _Room) -> tuple[str, int]:
    if body[at] >> 5 != _TEXT:
        at = _untagged(body, at, room)
        if body[at] >> 5 != _TEXT:
            _refuse(body, at, room, "an String")
    octets, at = _octets(body, at, _TEXT, room)
    return octets.decode(), at


def _read_blob(body: bytes, at: int, room: _Room) -> tuple[bytes, int]:
    if body[at] >> 5 != _BYTES:
        at = _untagged(body, at, room)
        if body[at] >> 5 != _BYTES:
            _refuse(body, at, room, "a Blob")
    return _octets(body, at, _BYTES, room)


def _read_boolean(body: bytes, at: int, room: _Room) -> tuple[bool, int]:
    at = _untagged(body, at, room)
    major, info, behind = _head(body, at)
    if major != _SIMPLE or info not in {_FALSE, _TRUE}:
        _refuse(body, at, room, "an Boolean")
    return info == _TRUE, behind


def _read_integer(body: bytes, at: int, room: _Room, ends: tuple[int, int]) -> tuple[int, int]:
    value, at = _number(body, at, room, "an Integer")
    least, most = ends
    return max(least, min(value, most)), at


def _read_timestamp(body: bytes, at: int, room: _Room) -> tuple[int, int]:
    value, at = _number(body, at, room, "milliseconds since epoch")
    return max(-_MS_MAX, min(value, _MS_MAX)), at


def _number(body: bytes, at: int, room: _Room, to: str) -> tuple[int, int]:
    at = _untagged(body, at, room)
    major, value, behind = _head(body, at)
    if major == _UNSIGNED:
        return value, behind
    if major == _NEGATIVE:
        return -1 - value, behind
    number = _float(body, value, behind) if major == _SIMPLE and value in _FLOATS else math.nan
    if not math.isfinite(number):
        _refuse(body, at, room, to)
    return math.floor(number), behind


def _float(body: bytes, info: int, behind: int) -> float:
    written = body[behind - (1 << (info - _FOLLOWING_1)) : behind]
    number: float = struct.unpack(_FLOATS[info], written)[0]
    return number


def _refuse(body: bytes, at: int, room: _Room, otherwise: str) -> NoReturn:
    """Refuse what is there instead, in the words of JSON; it has to be whole."""
    _skip(body, at, room)
    major, info, _ = _head(body, at)
    stands_for: Any = 0
    match major:
        case 2 | 3:  # bytes, a text
            stands_for = ""
        case 4:
            stands_for = []
        case 5:
            stands_for = {}
        case 7 if info in {_FALSE, _TRUE}:
            stands_for = True
    if otherwise.startswith("Expected"):
        refuse_value(stands_for, otherwise)
    refuse_conversion(stands_for, otherwise)


_SCALAR_READERS: Final[dict[str, _Read]] = {
    "string": _read_string,
    "boolean": _read_boolean,
    "blob": _read_blob,
    "timestamp": _read_timestamp,
}

_SHORT_OPENINGS: Final = tuple(bytes((first,)) for first in range(256))
_Write = Callable[[list[bytes], Any], None]
"""Appends the bytes of a value."""


def encoder(shape: Structure) -> Callable[[Params], bytes]:
    """What writes answers of this shape: nothing at all for one without members."""
    if not shape.members:
        return lambda _output: b""
    write = _writer(shape)

    def encode(output: Params) -> bytes:
        parts: list[bytes] = []
        write(parts, output)
        return b"".join(parts)

    return encode


def _opening(major: int, argument: int) -> bytes:
    if argument < _FOLLOWING_1:
        return _SHORT_OPENINGS[major << 5 | argument]
    info = _FOLLOWING_1 + max(0, (argument.bit_length() - 1).bit_length() - 3)
    return _SHORT_OPENINGS[major << 5 | info] + argument.to_bytes(1 << (info - 24), "big")


def _writer(shape: Shape) -> _Write:
    match shape:
        case Structure():
            return _structure_writer(
                {name: (_text(name), _writer(member)) for name, member in shape.members.items()}
            )
        case ListOf():
            return _list_writer(_writer(shape.member))
        case MapOf():
            return _map_writer(_writer(shape.value))
        case Scalar():
            return _SCALAR_WRITERS[shape.kind]


def _structure_writer(members: dict[str, tuple[bytes, _Write]]) -> _Write:
    def write(parts: list[bytes], value: Any) -> None:
        parts.append(_opening(_MAP, len(value)))
        for name, each in value.items():
            written, write_member = members[name]
            parts.append(written)
            write_member(parts, each)

    return write


def _list_writer(write_member: _Write) -> _Write:
    def write(parts: list[bytes], value: Any) -> None:
        parts.append(_opening(_ARRAY, len(value)))
        for each in value:
            write_member(parts, each)

    return write


def _map_writer(write_value: _Write) -> _Write:
    def write(parts: list[bytes], value: Any) -> None:
        parts.append(_opening(_MAP, len(value)))
        for name, each in value.items():
            parts.append(_text(name))
            write_value(parts, each)

    return write


def _text(value: str) -> bytes:
    octets = value.encode()
    return _opening(_TEXT, len(octets)) + octets


def _integer(value: int) -> bytes:
    return _opening(_UNSIGNED, value) if value >= 0 else _opening(_NEGATIVE, -1 - value)


def _write_blob(parts: list[bytes], value: bytes) -> None:
    parts += (_opening(_BYTES, len(value)), value)


_SCALAR_WRITERS: Final[dict[str, _Write]] = {
    "string": lambda parts, value: parts.append(_text(value)),
    "integer": lambda parts, value: parts.append(_integer(value)),
    "boolean": lambda parts, value: parts.append(b"\xf5" if value else b"\xf4"),
    "blob": _write_blob,
    "timestamp": lambda parts, value: parts.append(_TIME_TAG + _integer(value)),
}
