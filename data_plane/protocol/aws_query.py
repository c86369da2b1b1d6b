"""The Query protocol's requests: parameters as form fields, in the query string or the body.

Lists and maps are numbered fields (`Attribute.1.Name`); a single member may go without number. What
is wrong with numbers and types is MalformedInput, in the words recorded from AWS: SQS, SES and STS
read this protocol with one parser.
"""

import binascii
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from data_plane.core.errors import (
    MALFORMED_INPUT,
    MALFORMED_QUERY,
    RefusedError,
    invalid_parameter,
)
from data_plane.core.limits import (
    FORM_INDEX_MAX,
    FORM_INDEX_SKIP_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    REQUEST_FORM_FIELDS_MAX,
)
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure

Fields = dict[str, str]
"""Decoded form fields by name; of a repeated field the first counts."""

_VALUE: Final = ""  # the key under which a node of the tree keeps the field that ends there
_DEPTH_MAX: Final = 8  # deeper names belong to no shape
_find_broken_escape: Final = re.compile("%(?![0-9A-Fa-f]{2})").search
_is_integer: Final = re.compile("([+-]?)0*([0-9]{1,10})").fullmatch
_is_index: Final = re.compile("0*([0-9]{1,9})").fullmatch
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}

Tree = dict[str, Any]
"""Fields by the segments of their names: node -> segment -> node, and `_VALUE` -> str."""


_SKIPPED: Final[Tree] = {_VALUE: ""}
"""Stands for a member whose number is missing: an empty text, or a structure without members."""


def parse_fields(query: str, body: bytes) -> Fields:
    """The fields of the query string and the form in the body.

    Raises RefusedError(MALFORMED_QUERY) for broken escapes, for fields that are not UTF-8, and for
    too many of them.
    """
    fields: Fields = {}
    try:
        for text in (query, body.decode()):
            if not text:
                continue
            if _find_broken_escape(text):
                raise ValueError("a percent sign without two hexadecimal digits")
            for name, value in parse_qsl(
                text,
                keep_blank_values=True,
                errors="strict",
                max_num_fields=REQUEST_FORM_FIELDS_MAX,
            ):
                fields.setdefault(name, value)
    except ValueError as error:
        raise RefusedError(MALFORMED_QUERY, "The query string contains a syntax error.") from error
    return fields


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
