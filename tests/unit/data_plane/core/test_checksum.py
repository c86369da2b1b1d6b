import hashlib

import pytest

from data_plane.core.checksum import (
    md5_of_attributes,
    md5_of_body,
    md5_of_body_in_slices,
    md5_of_trace_header,
)
from data_plane.core.message import MessageAttribute
from tests.unit.data_plane.slices import counted


def test_the_body_is_hashed_as_utf_8() -> None:
    assert md5_of_body("This is a test message") == "fafb00f5732ab283681e124bf8747ed1"
    assert md5_of_body("\u00fc") == hashlib.md5(b"\xc3\xbc", usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("body", "slices"), [("", 1), ("x" * 65_536, 1), ("x" * 65_537, 2), ("\u00fc" * 1_000_000, 16)]
)
def test_long_bodies_are_hashed_in_slices(body: str, slices: int) -> None:
    assert counted(md5_of_body_in_slices(body)) == (slices - 1, md5_of_body(body))


@pytest.mark.parametrize(
    ("attributes", "digest"),
    [
        # Published by clients of SQS and servers tested against it.
        ((("DummyName", "String", b"dummy value"),), "ceb4493d294c7939e5ef8d20ee169e02"),
        (
            (
                ("Dummy1Name", "String", b"dummy 1 value"),
                ("Dummy2Name", "String", b"dummy 2 value"),
            ),
            "00954f005e854e11dbe82998292c6666",
        ),
        (
            (
                ("Dummy1Name", "String", b"dummy 1 value"),
                ("Dummy2Name", "String", b"dummy 2 value"),
                ("Dummy3Name", "Binary", b"dummy 2 value"),
            ),
            "c5c0d2c6f195fcbc91083c5465d8955f",
        ),
    ],
)
def test_attributes_have_the_digest_that_clients_verify(
    attributes: tuple[tuple[str, str, bytes], ...], digest: str
) -> None:
    given = [(name, MessageAttribute(kind, value)) for name, kind, value in attributes]
    assert md5_of_attributes(given) == digest


def test_a_custom_label_counts_as_text_but_not_as_kind() -> None:
    encoded = b"\0\0\0\1a\0\0\0\x0aBinary.png\2\0\0\0\1v"
    expected = hashlib.md5(encoded, usedforsecurity=False).hexdigest()
    assert md5_of_attributes([("a", MessageAttribute("Binary.png", b"v"))]) == expected


def test_a_trace_header_is_hashed_like_an_attribute() -> None:
    attribute = ("AWSTraceHeader", MessageAttribute("String", b"Root=1"))
    assert md5_of_trace_header("Root=1") == md5_of_attributes([attribute])
