"""Thrift's compact protocol, as far as Parquet's headers need it.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_I32: Final = 5
_I64: Final = 6
_BINARY: Final = 8
_LIST: Final = 9
_STRUCT: Final = 12
_TRUE: Final = 1
_FALSE: Final = 2
_BYTE: Final = 3
_INTEGERS: Final = frozenset({4, _I32, _I64})
_LONG_LIST: Final = 15
_DEPTH_MAX: Final = 16
_VARINT_BYTES_MAX: Final = 10
_SEVEN_BITS: Final = 0x7F
_MORE: Final = 0x80


class Int32(NamedTuple):
    """A number of 32 bits; others have 64."""

    value: int


Value = Int32 | int | str | Sequence["Value"] | Mapping[int, "Value"]
"""What is written; a mapping is a struct, by the ids of its fields in rising order."""

Read = int | bytes | list["Read"] | dict[int, "Read"]
"""What is read; a boolean is 0 or 1."""


def encode_struct(fields: Mapping[int, Value]) -> bytes:
    """A struct's bytes."""
    out = bytearray()
    last = 0
    for number, value in fields.items():
        out.append((number - last) << 4 | _type(value))
        out += _encode(value)
        last = number
    out.append(0)
    return bytes(out)


def _type(value: Value) -> int:
    if isinstance(value, Int32):
        return _I32
    if isinstance(value, int):
        return _I64
    if isinstance(value, str):
        return _BINARY
    return _STRUCT if isinstance(value, Mapping) else _LIST


def _encode(value: Value) -> bytes:
    if isinstance(value, Int32):
        return _varint(_zigzag(value.value))
    if isinstance(value, int):
        return _varint(_zigzag(value))
    if isinstance(value, str):
        octets = value.encode()
        return _varint(len(octets)) + octets
    if isinstance(value, Mapping):
        return encode_struct(value)
    count, kind = len(value), _type(value[0])
    head = bytes([count << 4 | kind]) if count < _LONG_LIST else bytes([0xF0 | kind])
    size = b"" if count < _LONG_LIST else _varint(count)
    return head + size + b"".join(_encode(item) for item in value)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


class ThriftReader:
    """Reads bytes from `at` on; `at` moves. Methods raise ValueError for what is none of this."""

    __slots__ = ("_content", "at")

    def __init__(self, content: bytes, at: int = 0) -> None:
        self._content = content
        self.at = at

    def struct(self, depth: int = 0) -> dict[int, Read]:
        """The fields of a struct, by their ids."""
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        fields: dict[int, Read] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 0x0F, head >> 4
            number = number + step if step else _unzigzag(self.varint())
            fields[number] = int(kind == _TRUE) if kind <= _FALSE else self._value(kind, depth)
        return fields

    def varint(self) -> int:
        """A number of seven bits a byte."""
        value = 0
        for index in range(_VARINT_BYTES_MAX):
            octet = self._byte()
            value |= (octet & _SEVEN_BITS) << 7 * index
            if not octet & _MORE:
                return value
        raise ValueError("a number is too long")

    def _value(self, kind: int, depth: int) -> Read:
        if kind in _INTEGERS:
            return _unzigzag(self.varint())
        if kind == _BINARY:
            return self.take(self.varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _LIST:
            return self._list(depth + 1)
        if kind <= _BYTE:
            return self._byte()
        raise ValueError(f"a field has the type {kind}")

    def _list(self, depth: int) -> list[Read]:
        head = self._byte()
        count = head >> 4
        if count == _LONG_LIST:
            count = self.varint()
        if depth > _DEPTH_MAX or count > len(self._content) - self.at:
            raise ValueError("a list is too long, or nested too deeply")
        return [self._value(head & 0x0F, depth) for _ in range(count)]

    def take(self, count: int) -> bytes:
        """The next bytes."""
        taken = self._content[self.at : self.at + count]
        if len(taken) < count:
            raise ValueError("it ends too early")
        self.at += count
        return taken

    def _byte(self) -> int:
        return self.take(1)[0]


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
