"""Long bodies of AWS JSON, decoded slice by slice.

The parser of the standard library cannot be interrupted, and a megabyte of brackets takes it a
hundred times as long as a megabyte of text. So long strings are taken out of the body first and
decoded in slices; what is left is short, or it is no legal request, and is parsed as any other.
"""

import re
from collections.abc import Generator, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

from data_plane.core.errors import MALFORMED_INPUT, RefusedError, invalid_character
from data_plane.core.limits import JSON_OUTSIDE_BYTES_MAX, JSON_STRINGS_MAX
from data_plane.protocol.aws_json import decode_with_places
from data_plane.protocol.json_readers import Reader
from data_plane.protocol.operation import Params

_SLICE_BYTES: Final = 65_536
"""Between two pauses: two milliseconds if all of it are escapes, a tenth of one if none is."""
_SHORT_BYTES: Final = 256
"""Shorter strings stay where they are."""
_NAME_BYTES_MAX: Final = 4_096
"""Names of members stay, too; a tag's key has 128 characters."""
_UTF8_MASK: Final = 0xC0
_UTF8_CONTINUES: Final = 0x80
_PLACE: Final = b"NaN"
"""Stands for a string that was taken out: JSON has no such word, so no body has it elsewhere."""

_units: Final = re.compile(rb'(?:[^"\\]++|\\u[0-9A-Fa-f]{4}|\\[^u])*+').match
_find_word: Final = re.compile(rb"[NI]").search
_is_name: Final = re.compile(rb"[ \t\r\n]*:").match
_find_surrogate: Final = re.compile("[\ud800-\udfff]").search
_is_pair: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]").fullmatch


def decode_in_slices(body: bytes, read: Reader) -> Generator[None, None, Params]:
    """`aws_json.decode`, which pauses after each slice: so others are served between them.

    Raises RefusedError as it does, and MALFORMED_INPUT for more strings, or more outside of
    strings, than a legal request can have.
    """
    taken: list[str] = []
    try:
        rest = yield from take_strings(body, taken)
    except ValueError as error:
        raise RefusedError(MALFORMED_INPUT, "The request body is not valid JSON.") from error
    yield
    strings = iter(taken)
    params = decode_with_places(rest, read, lambda _place: next(strings))
    if b"\\u" in body and (found := (yield from find_lone_surrogate(taken))):
        raise invalid_character(found)
    return params


def find_lone_surrogate(taken: Sequence[str]) -> Generator[None, None, str]:
    """What in the texts is no character, looked for in slices; "" where all of it is."""
    for text in taken:
        for at in range(0, len(text), _SLICE_BYTES):
            if found := _find_surrogate(text, at, at + _SLICE_BYTES):
                return found[0]
            yield
    return ""


def take_strings(
    body: bytes,
    taken: list[str],
    strings_max: int = JSON_STRINGS_MAX,
    outside_bytes_max: int = JSON_OUTSIDE_BYTES_MAX,
) -> Generator[None, None, bytes]:
    """The body with NaN in the place of each long string, which is decoded into `taken`.

    Raises ValueError where it is no JSON, or more than these say.
    """
    kept: list[bytes] = []
    at = outside = paused_at = 0
    for _ in range(strings_max + 1):
        opening = body.find(b'"', at, at + outside_bytes_max + 1)
        end = len(body) if opening < 0 else opening
        outside += end - at
        if outside > outside_bytes_max:
            raise ValueError("too much outside of strings")
        between = body[at:end]
        if _find_word(between):
            raise ValueError("NaN or Infinity is not JSON")
        kept.append(between)
        if opening < 0:
            return b"".join(kept)
        at = yield from _take_string(body, opening, kept, taken)
        if at - paused_at > _SLICE_BYTES:
            paused_at = at
            yield
    raise ValueError("too many strings")


def _take_string(
    body: bytes, opening: int, kept: list[bytes], taken: list[str]
) -> Generator[None, None, int]:
    """Keep or take out the string that begins here; where it is over."""
    end = _cut(body, opening + 1)
    short = body[opening : end + 1]
    if len(short) <= _SHORT_BYTES and short.endswith(b'"'):
        kept.append(short)
        return end + 1
    pieces: list[str] = []
    at = opening + 1
    while True:
        _append(pieces, scanstring(body[at:end].decode() + '"', 0)[0])
        if body[end : end + 1] == b'"':
            break
        at, end = end, _cut(body, end)
        if at == end:
            raise ValueError("a string without an end, or a broken escape")
        yield
    if _is_name(body, end + 1):
        if end - opening > _NAME_BYTES_MAX:
            raise ValueError("too long a name")
        kept.append(body[opening : end + 1])
    else:
        kept.append(_PLACE)
        taken.append("".join(pieces))
    return end + 1


def _append(pieces: list[str], piece: str) -> None:
    """Add a piece; a pair of surrogates that was cut in two is one character again."""
    seam = pieces[-1][-1:] + piece[:1] if pieces else ""
    if _is_pair(seam):
        pieces[-1] = pieces[-1][:-1]
        pieces.append(seam.encode("utf-16-le", "surrogatepass").decode("utf-16-le"))
        piece = piece[1:]
    pieces.append(piece)


def _cut(body: bytes, at: int) -> int:
    """Where a slice of a string from here is over: at its end, or between two characters."""
    last = min(at + _SLICE_BYTES, len(body))
    end = body.find(b'"', at, last)
    if end < 0:
        end = last
    if body.find(b"\\", at, end) >= 0:
        found = _units(body, at, last)
        end = found.end() if found else at
    while at < end < len(body) and body[end] & _UTF8_MASK == _UTF8_CONTINUES:
        end -= 1
    return end
