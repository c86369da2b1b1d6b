"""The Query protocol's requests: parameters as form fields, in the query string or the body.

Lists and maps are numbered fields (`Attribute.1.Name`); a single member may go without number. What
is wrong with numbers and types is MalformedInput, in the words recorded from AWS: SQS, SES and STS
read this protocol with one parser.
"""

import binascii
import re
from collections.abc import Generator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, unquote_to_bytes

from data_plane.core.errors import (
    MALFORMED_INPUT,
    MALFORMED_QUERY,
    RefusedError,
    invalid_parameter,
)
from data_plane.core.limits import (
    ACTION_WITHIN_BYTES,
    FORM_INDEX_MAX,
    FORM_INDEX_SKIP_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    REQUEST_FORM_FIELDS_MAX,
)
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure

Fields = dict[str, str]
"""Decoded form fields by name; of a repeated field the first counts."""

FORM_TYPE: Final = "application/x-www-form-urlencoded"
_VALUE: Final = ""  # the key under which a node of the tree keeps the field that ends there
_DEPTH_MAX: Final = 8  # deeper names belong to no shape
_find_broken_escape: Final = re.compile("%(?![0-9A-Fa-f]{2})").search
_find_broken_bytes: Final = re.compile(b"%(?![0-9A-Fa-f]{2})").search
_BROKEN_ESCAPE: Final = "a percent sign without two hexadecimal digits"
_SLICE_BYTES: Final = 16_384
"""Of a form: an escape takes a fifth of a microsecond, so a slice takes a millisecond."""
_ESCAPED_NAME_CHARS_MAX: Final = 128
"""A longer name is none that is looked for, however its characters are escaped."""
_is_integer: Final = re.compile("([+-]?)0*([0-9]{1,10})").fullmatch
_is_index: Final = re.compile("0*([0-9]{1,9})").fullmatch
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}

Tree = dict[str, Any]
"""Fields by the segments of their names: node -> segment -> node, and `_VALUE` -> str."""


_SKIPPED: Final[Tree] = {_VALUE: ""}
"""Stands for a member whose number is missing: an empty text, or a structure without members."""


def form_of(request: HttpRequest) -> bytes:
    """The body where it is a form; what else a GET or POST carries has no parameters.

    Raises RefusedError(MALFORMED_INPUT) for a body of another type.
    """
    content_type = request.headers.get("content-type", "").lower()
    if request.method == "GET" or not request.body:
        return b""
    if content_type and not content_type.startswith(FORM_TYPE):
        raise RefusedError(MALFORMED_INPUT, "The content type is not supported.")
    return request.body


def find_field(wanted: str, query: str, form: bytes) -> str | None:
    """The first value of this field, without a look at the values of others.

    In a form it is found within ACTION_WITHIN_BYTES. What is wrong with the rest is left to
    `parse_fields`, for callers who are known by then.
    """
    beginning = form[:ACTION_WITHIN_BYTES].decode(errors="replace")
    for text in (query, beginning):
        for field in text.split("&", REQUEST_FORM_FIELDS_MAX):
            name, _, value = field.partition("=")
            if name == wanted or (_may_be_escaped(name) and unquote_plus(name) == wanted):
                return unquote_plus(value.partition("&")[0])
    return None


def _may_be_escaped(name: str) -> bool:
    return "%" in name and len(name) <= _ESCAPED_NAME_CHARS_MAX


def check_text(form: bytes) -> None:
    """Raise RefusedError(MALFORMED_QUERY) for a short form that is none: compressed, say."""
    try:
        if len(form) <= ACTION_WITHIN_BYTES:
            form.decode()
    except ValueError as error:
        raise RefusedError(MALFORMED_QUERY, "The query string contains a syntax error.") from error


def parse_fields(query: str, body: bytes) -> Fields:
    """The fields of the query string and the form in the body.

    Raises RefusedError(MALFORMED_QUERY) for broken escapes, for fields that are not UTF-8, and for
    too many of them.
    """
    parsing = parse_in_slices(query, body)
    while True:
        try:
            next(parsing)
        except StopIteration as parsed:
            fields: Fields = parsed.value
            return fields


def parse_in_slices(query: str, body: bytes) -> Generator[None, None, Fields]:
    """`parse_fields`, which pauses after each slice: so others are served between them."""
    fields: Fields = {}
    try:
        for text in (query.encode(), body):
            if len(text) <= _SLICE_BYTES:
                pairs = _parse_short(text.decode())
            else:
                pairs = yield from _parse_long(text)
            for name, value in pairs:
                fields.setdefault(name, value)
    except ValueError as error:
        raise RefusedError(MALFORMED_QUERY, "The query string contains a syntax error.") from error
    return fields


def _parse_short(text: str) -> list[tuple[str, str]]:
    if _find_broken_escape(text):
        raise ValueError(_BROKEN_ESCAPE)
    return parse_qsl(
        text, keep_blank_values=True, errors="strict", max_num_fields=REQUEST_FORM_FIELDS_MAX
    )


def _parse_long(text: bytes) -> Generator[None, None, list[tuple[str, str]]]:
    if text.count(b"&") >= REQUEST_FORM_FIELDS_MAX:
        raise ValueError("too many fields")
    pairs: list[tuple[str, str]] = []
    in_slice = 0
    fields = text.split(b"&")
    yield
    for field in fields:
        in_slice += len(field)
        if in_slice > _SLICE_BYTES:
            in_slice = len(field)
            yield
        if len(field) <= _SLICE_BYTES:
            pairs += _parse_short(field.decode())
            continue
        name, _, value = field.partition(b"=")
        decoded = yield from _decode_long(value)
        pairs += [(named, decoded) for named, _ in _parse_short(name[:_SLICE_BYTES].decode())]
    return pairs


def _decode_long(value: bytes) -> Generator[None, None, str]:
    """The value of a field, decoded slice by slice; none ends within an escape."""
    pieces: list[bytes] = []
    at = 0
    while at < len(value):
        end = min(at + _SLICE_BYTES, len(value))
        if end < len(value):
            end -= max(0, value[end - 2 : end][::-1].find(b"%") + 1)
        piece = value[at:end]
        if _find_broken_bytes(piece):
            raise ValueError(_BROKEN_ESCAPE)
        pieces.append(unquote_to_bytes(piece.replace(b"+", b" ")))
        at = end
        yield
    return b"".join(pieces).decode()


def decode(fields: Mapping[str, str], structure: Structure) -> Params:
    """The parameters of an operation.

    Raises RefusedError for integers, booleans, base64 and numbers of members that are none.
    """
    tree: Tree = {}
    for name, value in fields.items():
        segments = name.split(".", _DEPTH_MAX)
        if len(segments) > _DEPTH_MAX:
            continue
        node = tree
        for segment in segments:
            node = node.setdefault(segment, {}) if segment != _VALUE else {}
        node[_VALUE] = value
    params = _read_structure(tree, structure)
    for name in structure.required:
        if isinstance(structure.members[name], ListOf):
            params.setdefault(name, [])  # a list without members cannot be told from none
    return params


def _read_structure(node: Tree, structure: Structure) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, shape in structure.members.items():
        field = shape.query_name if isinstance(shape, ListOf | MapOf) else name
        member = node.get(field) or node.get(name)
        if member:
            value = _read(member, shape, name)
            if value is not None:
                result[name] = value
    return result


def _read(node: Tree, shape: Shape, name: str) -> Any:
    """The value of a node, or None where its fields make none."""
    match shape:
        case Scalar():
            text = node.get(_VALUE)
            return None if text is None else _read_scalar(text, shape.kind)
        case Structure():
            return _read_structure(node, shape)
        case ListOf():
            if _VALUE in node:  # `Entry=`: how SDKs write a list without members
                alone = {_VALUE: node[_VALUE]}
                return [_read(alone, shape.member, name)] if node[_VALUE] else []
            values = [_read(member, shape.member, name) for member in _numbered(node)]
            return [value for value in values if value is not None] or None
        case MapOf():
            entries = [node] if shape.query_key in node else _numbered(node)
            pairs = [_read_entry(entry, shape, name) for entry in entries]
            return dict(pair for pair in pairs if pair is not None) or None


def _read_entry(node: Tree, shape: MapOf, name: str) -> tuple[str, Any] | None:
    key = node.get(shape.query_key, {}).get(_VALUE)
    value = _read(node.get(shape.query_value, {}), shape.value, name)
    if key is None and value is None:
        return None
    if value is None:
        raise invalid_parameter(name, key, "It must have a value.")
    return key or "", value


def _numbered(node: Tree) -> list[Tree]:
    """The members of a list in the order of their numbers, with what stands for missing ones."""
    numbered: dict[int, Tree] = {}
    for segment, member in node.items():
        if segment != _VALUE:
            numbered.setdefault(_read_index(segment), member)
    members: list[Tree] = []
    for index in sorted(numbered):
        skipped = index - max(len(members), 1)
        if skipped > FORM_INDEX_SKIP_MAX:
            raise _malformed(f"Excessively sparse input would skip {skipped:,} list elements")
        members += [_SKIPPED] * (index - 1 - len(members))
        members.append(numbered[index])
    return members


def _read_index(segment: str) -> int:
    match = _is_index(segment)
    if match is None:
        if segment.isascii() and segment.isdigit():
            raise _malformed(f"Index {segment} is illegal")
        raise _malformed("Start of list found where not expected")
    index = int(match[1])
    if index == 0:
        raise _malformed("0 is not a valid index")
    if index > FORM_INDEX_MAX:
        raise _malformed(f"Index {segment} is illegal")
    return index


def _read_scalar(text: str, kind: str) -> str | int | bool | bytes:
    match kind:
        case "integer":
            return _read_integer(text)
        case "boolean":
            if not text:
                raise _malformed("missing value for boolean type")
            if text not in _BOOLEANS:
                raise _malformed("boolean must follow xsd1.1 definition")
            return _BOOLEANS[text]
        case "blob":
            try:
                return binascii.a2b_base64(text, strict_mode=True)
            except ValueError as error:
                raise _malformed("A blob must be valid base64.") from error
        case _:
            return text


def _read_integer(text: str) -> int:
    if not text:
        raise _malformed("missing value for decimal type")
    match = _is_integer(text)  # without the zeros: Python refuses to read thousands of them
    number = int(match[1] + match[2]) if match else None
    if number is None or not INTEGER_MIN <= number <= INTEGER_MAX:
        raise _malformed("STRING_VALUE can not be converted to an Integer")
    return number


def _malformed(message: str) -> RefusedError:
    return RefusedError(MALFORMED_INPUT, message)
