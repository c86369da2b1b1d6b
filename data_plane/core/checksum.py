"""MD5 digests as SQS clients compute and verify them (several SDKs fail the call on a mismatch).

Source: "Calculating the MD5 message digest for message attributes" in the SQS developer guide.
"""

import hashlib
from collections.abc import Generator, Iterable
from typing import Final

from data_plane.core.message import MessageAttribute

_STRING_VALUE: Final = b"\x01"
_BINARY_VALUE: Final = b"\x02"
_SLICE_CHARACTERS: Final = 65_536
"""Hashed in a few tenths of a millisecond at most; a body of 1 MB takes two."""


def md5_of_body(body: str) -> str:
    """Hexadecimal MD5 of the body's UTF-8 bytes."""
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()


def md5_of_body_in_slices(body: str) -> Generator[None, None, str]:
    """The same of a body that may be long; it yields where others may have their turn."""
    digest = hashlib.md5(usedforsecurity=False)
    for start in range(0, len(body), _SLICE_CHARACTERS):
        if start:
            yield
        digest.update(body[start : start + _SLICE_CHARACTERS].encode())
    return digest.hexdigest()


def md5_of_attributes(attributes: Iterable[tuple[str, MessageAttribute]]) -> str:
    """Hexadecimal MD5 of attributes sorted by name.

    Each is hashed as name, type, a byte for the kind of transport (a custom label does not change
    it), and value; texts and values follow their length as four big-endian bytes.
    """
    encoded = bytearray()
    for name, attribute in attributes:
        kind = _BINARY_VALUE if attribute.data_type.startswith("Binary") else _STRING_VALUE
        for part in (name.encode(), attribute.data_type.encode()):
            encoded += len(part).to_bytes(4, "big")
            encoded += part
        encoded += kind
        encoded += len(attribute.value).to_bytes(4, "big")
        encoded += attribute.value
    return hashlib.md5(encoded, usedforsecurity=False).hexdigest()


def md5_of_trace_header(trace_header: str) -> str:
    """Hexadecimal MD5 of the system attributes of a message whose only one is AWSTraceHeader."""
    attribute = MessageAttribute("String", trace_header.encode())
    return md5_of_attributes((("AWSTraceHeader", attribute),))
