"""Records as Parquet: columns that are never null, of text and of integers of 64 bits.

Written is the plainest of the format: one row group, a page for each column, values one after the
other, compressed with zstd. Read is that, and what pyarrow makes of such records (dictionaries),
because earlier versions wrote with it. Any reader of Parquet reads these files.

https://parquet.apache.org/docs/file-format/
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import zstandard

from data_plane.usage.record import Record, UsageRecord, columns_of
from data_plane.usage.thrift import Int32, Read, ThriftReader, Value, encode_struct

_MAGIC: Final = b"PAR1"
_FOOTER_BYTES: Final = 8
_CREATED_BY: Final = "tidegate"

_INT64: Final = 2
_BYTE_ARRAY: Final = 6
_REQUIRED: Final = 0
_UTF8: Final = 0
_PLAIN: Final = 0
_RLE: Final = 3
_DICTIONARIES: Final = frozenset({2, 8})
_UNCOMPRESSED: Final = 0
_ZSTD: Final = 6
_DATA_PAGE: Final = 0
_DICTIONARY_PAGE: Final = 2
_VERSION: Final = 2
_TYPES: Final = {"int64": _INT64, "string": _BYTE_ARRAY}

_LEVEL: Final = 1
"""Of zstd: pyarrow's, too."""
_PAGE_BYTES_MAX: Final = 1 << 28
"""Of a page that is read, decompressed."""
_ROWS_MAX: Final = 1 << 28
_GROUP: Final = 8
"""So many places in a dictionary are packed together."""

_LENGTH: Final = struct.Struct("<I")

# Writing


def encode(records: Sequence[Record]) -> bytes:
    """One file with these records, all of one kind; the same bytes for the same records."""
    columns = columns_of(type(records[0]))
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    file = bytearray(_MAGIC)
    chunks: list[Value] = []
    for name, kind in columns:
        plain = _plain([getattr(record, name) for record in records], kind)
        packed = compressor.compress(plain)
        header = _page_header(len(records), len(plain), len(packed))
        told: dict[int, Value] = {
            1: Int32(_TYPES[kind]),
            2: [Int32(_PLAIN)],
            3: [name],
            4: Int32(_ZSTD),
            5: len(records),
            6: len(header) + len(plain),
            7: len(header) + len(packed),
            9: len(file),
        }
        chunks.append({2: len(file), 3: told})
        file += header
        file += packed
    footer = encode_struct(
        {
            1: Int32(_VERSION),
            2: [{4: "schema", 5: Int32(len(columns))}, *(_element(*one) for one in columns)],
            3: len(records),
            4: [{1: chunks, 2: len(file) - len(_MAGIC), 3: len(records)}],
            6: _CREATED_BY,
        }
    )
    return bytes(file) + footer + _LENGTH.pack(len(footer)) + _MAGIC


def _plain(values: list[Any], kind: str) -> bytes:
    if kind == "int64":
        return struct.pack(f"<{len(values)}q", *values)
    known: dict[str, bytes] = {}
    for text in values:
        if text not in known:
            octets = text.encode()
            known[text] = _LENGTH.pack(len(octets)) + octets
    return b"".join([known[text] for text in values])


def _page_header(rows: int, plain_bytes: int, packed_bytes: int) -> bytes:
    values: dict[int, Value] = {1: Int32(rows), 2: Int32(_PLAIN), 3: Int32(_RLE), 4: Int32(_RLE)}
    sizes: dict[int, Value] = {2: Int32(plain_bytes), 3: Int32(packed_bytes)}
    return encode_struct({1: Int32(_DATA_PAGE), **sizes, 5: values})


def _element(name: str, kind: str) -> Value:
    told: dict[int, Value] = {1: Int32(_TYPES[kind]), 3: Int32(_REQUIRED), 4: name}
    if kind == "string":
        told |= {6: Int32(_UTF8), 10: {1: {}}}
    return told


# Reading


def decode(content: bytes) -> list[UsageRecord]:
    """The usage records of a file. Raises ValueError where it is none of those."""
    try:
        columns = _columns(content)
        names = [name for name, _ in columns_of(UsageRecord)]
        rows = zip(*(columns[name] for name in names), strict=True)
        found = [dict(zip(names, row, strict=True)) for row in rows]
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        zstandard.ZstdError,
        struct.error,
    ) as error:
        raise ValueError(f"it is no file of records: {error!r}") from error
    # msgspec.ValidationError is a ValueError.
    return msgspec.convert(found, list[UsageRecord])


def _columns(content: bytes) -> dict[str, list[Any]]:
    """All columns by name. Raises as `decode` catches."""
    if len(content) < len(_MAGIC) + _FOOTER_BYTES or content[-4:] != _MAGIC:
        raise ValueError("it does not end as Parquet does")
    (size,) = _LENGTH.unpack(content[-_FOOTER_BYTES:-4])
    footer = ThriftReader(content, len(content) - _FOOTER_BYTES - size).struct()
    columns: dict[str, list[Any]] = {}
    for element in _list(footer[2])[1:]:
        told = _dict(element)
        if told.get(3) != _REQUIRED:
            raise ValueError("a column is optional")
        columns[_bytes(told[4]).decode()] = []
    for group in _list(footer[4]):
        for chunk in _list(_dict(group)[1]):
            meta = _dict(_dict(chunk)[3])
            (name,) = (_bytes(part).decode() for part in _list(meta[3]))
            columns[name] += _chunk(content, meta)
    return columns


def _chunk(content: bytes, meta: dict[int, Read]) -> list[Any]:
    """The values of a column in a row group."""
    count = _int(meta[5])
    if not 0 <= count <= _ROWS_MAX:
        raise ValueError(f"a column has {count} values")
    reader = ThriftReader(content, min(_int(meta[9]), _int(meta.get(11, meta[9]))))
    dictionary: list[Any] = []
    values: list[Any] = []
    while len(values) < count:
        header = reader.struct()
        page = _unpacked(reader.take(_int(header[3])), _int(header[2]), _int(meta[4]))
        if header[1] == _DICTIONARY_PAGE:
            dictionary = list(_values(page, _int(_dict(header[7])[1]), _int(meta[1])))
        elif header[1] == _DATA_PAGE:
            told = _dict(header[5])
            rows, encoding = _int(told[1]), _int(told[2])
            if not 0 < rows <= count - len(values):
                raise ValueError(f"a page has {rows} values")
            if encoding == _PLAIN:
                values += _values(page, rows, _int(meta[1]))
            elif encoding in _DICTIONARIES:
                values += [dictionary[index] for index in _indices(page, rows)]
            else:
                raise ValueError(f"values are encoded in the way {encoding}")
        else:
            raise ValueError(f"a page is of the kind {header[1]!r}")
    return values


def _unpacked(packed: bytes, size: int, codec: int) -> bytes:
    if not 0 <= size <= _PAGE_BYTES_MAX:
        raise ValueError(f"a page has {size} bytes")
    if codec == _UNCOMPRESSED:
        return packed
    if codec != _ZSTD:
        raise ValueError(f"it is compressed in the way {codec}")
    return zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)


def _values(page: bytes, count: int, kind: int) -> Sequence[Any]:
    if kind == _INT64:
        return struct.unpack_from(f"<{count}q", page)
    if kind != _BYTE_ARRAY:
        raise ValueError(f"values are of the type {kind}")
    texts: list[str] = []
    known: dict[bytes, str] = {}
    at = 0
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(page, at)
        at += _LENGTH.size
        octets = page[at : at + length]
        at += length
        text = known.get(octets)
        if text is None:
            text = known[octets] = octets.decode()
        texts.append(text)
    if at > len(page):
        raise ValueError("a page ends too early")
    return texts


def _indices(page: bytes, count: int) -> Iterator[int]:
    """Places in the dictionary: runs of one value, and groups of eight, packed by bits."""
    width = page[0]
    mask = (1 << width) - 1
    reader = ThriftReader(page, 1)
    left = count
    while left > 0:
        head = reader.varint()
        if not head >> 1:
            raise ValueError("a run is empty")
        if head & 1:
            for _ in range(head >> 1):
                packed = int.from_bytes(reader.take(width), "little")
                for index in range(min(left, _GROUP)):
                    yield packed >> index * width & mask
                left = max(left - _GROUP, 0)
        else:
            value = int.from_bytes(reader.take((width + 7) // 8), "little")
            for _ in range(min(left, head >> 1)):
                yield value
            left -= head >> 1


def _int(value: Read) -> int:
    if not isinstance(value, int):
        raise TypeError("a number is missing")
    return value


def _bytes(value: Read) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a text is missing")
    return value


def _list(value: Read) -> list[Read]:
    if not isinstance(value, list):
        raise TypeError("a list is missing")
    return value


def _dict(value: Read) -> dict[int, Read]:
    if not isinstance(value, dict):
        raise TypeError("a struct is missing")
    return value
