"""The reader of JSON takes nothing that others may read differently."""

import json

import pytest

from data_plane.core.errors import MALFORMED_INPUT, RefusedError
from data_plane.protocol import aws_json
from data_plane.protocol.shapes import Scalar, Structure

STRUCTURE = Structure({"A": Scalar("string")})
READ = aws_json.reader(STRUCTURE)


def refused(body: bytes) -> str:
    with pytest.raises(RefusedError) as raised:
        aws_json.decode(body, READ)
    assert raised.value.fault is MALFORMED_INPUT
    return raised.value.message


@pytest.mark.parametrize(
    "body",
    [
        b'{"A":"1","A":"2"}',
        b'{"A":"1","\\u0041":"2"}',
        b'{"A":"1","B":{"c":1,"c":2}}',
        b'{"B":[{"c":1,"c":2}]}',
    ],
)
def test_a_key_that_is_repeated_anywhere_is_refused(body: bytes) -> None:
    refused(body)


@pytest.mark.parametrize("opening", [b'{"B":', b"["])
def test_nesting_without_end_is_refused(opening: bytes) -> None:
    closing = b"}" if opening.startswith(b"{") else b"]"
    for depth in (10_000, 1_000_000):
        refused(b'{"A":"1","B":' + opening * depth + b"1" + closing * depth + b"}")
        refused(opening * depth)


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_has_not_are_refused(name: str) -> None:
    assert json.loads(name) != 0  # Python's reader takes them
    refused(b'{"A":%s}' % name.encode())
