"""Blobs of JSON bodies: base64, decoded slice by slice, and AWS's words of what is none.

Source of the words: recorded from Kinesis.
"""

import binascii
import re
from collections.abc import Generator, Iterator
from typing import Any, Final

from data_plane.core.errors import MALFORMED_INPUT, RefusedError
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import ListOf, Scalar, Shape, Structure

_SLICE_CHARS: Final = 524_288
"""Between two pauses: half a millisecond to one. A multiple of four."""
_SHOWN_CHARS: Final = 256
"""So much of a wrong text is repeated."""
_QUANTUM: Final = 4
_PADDING_MAX: Final = 2

_find_wrong: Final = re.compile("[^A-Za-z0-9+/=]|=(?=[^=])").search


def decode_blob(text: str) -> bytes:
    """The bytes of a text in base64. Raises RefusedError."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise RefusedError(MALFORMED_INPUT, _what_is_wrong(text)) from error


def decode_blobs(params: Params, shape: Structure) -> Generator[None, None, None]:
    """Put bytes in the place of blobs that are texts so far; pause after each slice.

    Raises RefusedError.
    """
    in_slice = 0
    for holder, name in list(_places(params, shape)):
        text: str = holder[name]
        if len(text) > _SLICE_CHARS:
            holder[name] = yield from _decode_long(text)
            continue
        holder[name] = decode_blob(text)
        in_slice += len(text)
        if in_slice >= _SLICE_CHARS:
            in_slice = 0
            yield


def _decode_long(text: str) -> Generator[None, None, bytes]:
    padded_at = text.find("=")
    if len(text) % _QUANTUM or 0 <= padded_at < len(text) - _PADDING_MAX:
        raise RefusedError(MALFORMED_INPUT, _what_is_wrong(text))
    pieces: list[bytes] = []
    for at in range(0, len(text), _SLICE_CHARS):
        pieces.append(decode_blob(text[at : at + _SLICE_CHARS]))
        yield
    return b"".join(pieces)


def _places(value: Any, shape: Shape) -> Iterator[tuple[dict[str, Any], str]]:
    """Where in a value blobs are members of structures."""
    match shape:
        case Structure():
            for name, member in shape.members.items():
                if name not in value:
                    continue
                if isinstance(member, Scalar):
                    if member.kind == "blob":
                        yield value, name
                else:
                    yield from _places(value[name], member)
        case ListOf(member=Structure() as member):
            for each in value:
                yield from _places(each, member)


def _what_is_wrong(text: str) -> str:
    if len(text) % _QUANTUM:
        what = "Base64 encoded length is expected a multiple of 4 bytes but found: " + str(
            len(text)
        )
    elif found := _find_wrong(text):
        what = f"Invalid Base64 character: '{found[0]}'"
    else:
        what = "Invalid last non-pad Base64 character dectected"  # as AWS spells it
    return f"'{text[:_SHOWN_CHARS]}' can not be converted to a Blob: {what}"
