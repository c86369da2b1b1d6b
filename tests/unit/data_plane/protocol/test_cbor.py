"""CBOR of Kinesis. Bytes without another source are examples of RFC 8949, appendix A."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.errors import MALFORMED_INPUT, RefusedError
from data_plane.core.limits import CBOR_ITEMS_MAX, PUT_BODY_BYTES_MAX
from data_plane.protocol import cbor
from data_plane.protocol.shapes import (
    BLOB,
    BOOLEAN,
    INTEGER,
    STRING,
    TIMESTAMP,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    Structure,
)
from data_plane.protocol.stream_shapes import SHAPES


def read(shape: Shape, value: bytes) -> Any:
    """A value, as the member `v` of a structure."""
    return cbor.decoder(Structure({"v": shape}))(b"\xa1\x61v" + value).get("v")


def refusal(shape: Shape, value: bytes) -> str:
    with pytest.raises(RefusedError) as refused:
        read(shape, value)
    assert refused.value.fault is MALFORMED_INPUT
    return refused.value.message


@pytest.mark.parametrize(
    ("shape", "value", "expected"),
    [
        (INTEGER, "00", 0),
        (INTEGER, "17", 23),
        (INTEGER, "1818", 24),
        (INTEGER, "1903e8", 1_000),
        (INTEGER, "1a000f4240", 1_000_000),
        (INTEGER, "1bffffffffffffffff", 2**31 - 1),  # clamped
        (INTEGER, "3903e7", -1_000),
        (INTEGER, "3bffffffffffffffff", -(2**31)),
        (INTEGER, "f93e00", 1),
        (INTEGER, "fbc010666666666666", -5),  # floored
        (INTEGER, "fa47c35000", 100_000),
        (BOOLEAN, "f4", False),
        (BOOLEAN, "f5", True),
        (STRING, "60", ""),
        (STRING, "62c3bc", "\u00fc"),
        (STRING, "7f657374726561646d696e67ff", "streaming"),
        (STRING, "7818" + "61" * 24, "a" * 24),
        (BLOB, "4401020304", b"\x01\x02\x03\x04"),
        (BLOB, "5f42010243030405ff", b"\x01\x02\x03\x04\x05"),
        (BLOB, "590100" + "07" * 256, b"\x07" * 256),
        (STRING, "f6", None),
        (STRING, "f7", None),
        (STRING, "d9d9f76161", "a"),  # a tag that means nothing
        (TIMESTAMP, "c11b00000153e2a9f0b0", 0x153E2A9F0B0),
        (TIMESTAMP, "1903e8", 1_000),
        (ListOf(INTEGER), "83010203", [1, 2, 3]),
        (ListOf(INTEGER), "9f01f603ff", [1, 3]),
        (ListOf(Structure({"a": INTEGER})), "82f6a1616101", [{}, {"a": 1}]),
        (MapOf(STRING), "a26161614161626142", {"a": "A", "b": "B"}),
        (MapOf(STRING), "bf6161f6ff", {"a": ""}),
        (Structure({"a": INTEGER}), "bf61610161629f0203ffff", {"a": 1}),
        (Structure({"a": INTEGER}), "a26162bf6163c249010000000000000000ff616101", {"a": 1}),
    ],
)
def test_what_is_read(shape: Shape, value: str, expected: Any) -> None:
    assert read(shape, bytes.fromhex(value)) == expected


@pytest.mark.parametrize(
    ("shape", "value", "message"),
    [
        (INTEGER, "6139", "class java.lang.String can not be converted to an Integer"),
        (INTEGER, "f5", "class java.lang.Boolean can not be converted to an Integer"),
        (INTEGER, "80", "Start of list found where not expected"),
        (INTEGER, "c249010000000000000000", "class java.lang.String can not be converted to an In"),
        (INTEGER, "f97e00", "class com.amazon.coral.value.json.numbers.TruncatingBigNumber can n"),
        (BLOB, "6161", "class java.lang.String can not be converted to a Blob"),
        (STRING, "4161", "class java.lang.String can not be converted to an String"),
        (STRING, "a0", "Start of structure or map found where not expected."),
        (TIMESTAMP, "6132", "class java.lang.String can not be converted to milliseconds since"),
        (ListOf(STRING), "6161", "Expected list or null"),
        (ListOf(STRING), "a0", "Start of structure or map found where not expected."),
        (MapOf(STRING), "01", "Expected map or null"),
        (Structure({}), "01", "Expected null"),
    ],
)
def test_what_is_said_of_other_types(shape: Shape, value: str, message: str) -> None:
    assert refusal(shape, bytes.fromhex(value)).startswith(message)


@pytest.mark.parametrize(
    "body",
    [
        *("", "a1", "a161", "a16161", "a1616161", "a16161430102", "a1616143", "f6", "80", "ff"),
        *("a0a0", "a10102", "bf", "bf6161", "bf616101", "a161617f6161", "a161617f4161ff"),
        *("a161615f5f41 61ffff", "a161611c", "a161619f", "a161615b7fffffffffffffff"),
        *("a161619b7fffffffffffffff", "a16161bb7fffffffffffffff", "bb7fffffffffffffff"),
        *("a161761b00", "a1617661ff", "a16176fb00", "a161766261", "a1617642"),
        "a16161" + "81" * 20_000,
        "a16161" + "c1" * 20_000 + "00",
        "a16176" + "c1" * 20_000 + "00",
        "a161617f" + "60" * 20_000 + "ff",
    ],
)
def test_broken_bytes_have_no_message(body: str) -> None:
    members = Structure({"v": Structure({"x": STRING}), "b": BLOB})
    for shape in (members, Structure({"v": STRING}), Structure({"v": INTEGER})):
        with pytest.raises(RefusedError) as refused:
            cbor.decoder(shape)(bytes.fromhex(body))
        assert refused.value.message == "" or body.startswith("a16176")


@pytest.mark.parametrize("filler", [b"\x80", b"\x00", b"\xa0", b"\xf6", b"\xa1\x64Data\x40"])
@pytest.mark.parametrize("name", [b"Records", b"Unknown"])
def test_work_is_bounded_whatever_comes(name: bytes, filler: bytes) -> None:
    decode = cbor.decoder(SHAPES["PutRecords"][0])
    count = PUT_BODY_BYTES_MAX // len(filler) - 100
    start = b"\xa1" + bytes((0x60 + len(name),)) + name
    for body in (
        start + b"\x9a" + count.to_bytes(4, "big") + filler * count,
        start + b"\x9f" + filler * count + b"\xff",
    ):
        with pytest.raises(RefusedError):
            decode(body)


def test_a_full_call_has_room() -> None:
    record = {"Data": b"x", "PartitionKey": "k", "ExplicitHashKey": "1"}
    params = {"StreamName": "s", "Records": [record] * 500}
    body = cbor.encoder(SHAPES["PutRecords"][0])(params)
    assert cbor.decoder(SHAPES["PutRecords"][0])(body) == params
    assert 2 * 500 * len(record) < CBOR_ITEMS_MAX


def test_answers() -> None:
    record = {
        "SequenceNumber": "1",
        "Data": b"\xff\xfe",
        "ApproximateArrivalTimestamp": 1_459_799_926_480,
    }
    written = cbor.encoder(SHAPES["GetRecords"][1])({"Records": [record]})
    time = b"\xc1\x1b" + struct.pack(">Q", 1_459_799_926_480)  # whole milliseconds
    assert b"\x78\x1bApproximateArrivalTimestamp" + time in written
    assert b"\x64Data\x42\xff\xfe" in written
    assert cbor.encoder(SHAPES["DeleteStream"][1])({}) == b""


shapes = st.recursive(
    st.sampled_from([STRING, INTEGER, BOOLEAN, BLOB, TIMESTAMP]),
    lambda inner: (
        st.builds(ListOf, inner)
        | st.builds(MapOf, inner)
        | st.dictionaries(st.text(max_size=30), inner, min_size=1, max_size=3).map(Structure)
    ),
    max_leaves=5,
)
numbers = st.integers(-(2**31), 2**31 - 1)


def value_of(shape: Shape) -> st.SearchStrategy[Any]:
    match shape:
        case Structure():
            return st.fixed_dictionaries(
                {}, optional={name: value_of(member) for name, member in shape.members.items()}
            )
        case ListOf():
            return st.lists(value_of(shape.member), max_size=3)
        case MapOf():
            return st.dictionaries(st.text(max_size=30), value_of(shape.value), max_size=3)
        case Scalar():
            return {
                "string": st.text(max_size=300),
                "integer": numbers,
                "boolean": st.booleans(),
                "blob": st.binary(max_size=300),
                "timestamp": st.integers(-(2**63) + 1, 2**63 - 1),
            }[shape.kind]


@given(st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    shape = Structure({"m": data.draw(shapes)})
    value = data.draw(value_of(shape))
    assert cbor.decoder(shape)(cbor.encoder(shape)(value)) == value


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_read_or_refused(body: bytes, is_long: bool) -> None:  # noqa: FBT001 - drawn
    for start in (b"", b"\xa1\x67Records", b"\xbf\x67Records\x9f"):
        try:
            cbor.decoder(SHAPES["PutRecords"][0])(start + body * (1 + 50 * is_long))
        except RefusedError as error:
            assert error.fault is MALFORMED_INPUT  # noqa: PT017 - it need not be refused
