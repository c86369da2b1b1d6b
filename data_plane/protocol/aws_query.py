"""The Query protocol's requests: parameters as form fields, in the query string or the body.

Lists and maps are numbered fields (`Attribute.1.Name`). Numbers order the members and may have
gaps; `.member.` between name and number, and a single member without number, are accepted too.
"""

import binascii
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from data_plane.core.errors import MALFORMED_QUERY, RefusedError, invalid_parameter
from data_plane.core.limits import INTEGER_MAX, INTEGER_MIN, REQUEST_FORM_FIELDS_MAX
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure

Fields = dict[str, str]
"""Decoded form fields by name; of a repeated field the last counts."""

_VALUE: Final = ""  # the key under which a node of the tree keeps the field that ends there
_DEPTH_MAX: Final = 8  # deeper names belong to no shape
_INDEX_DIGITS_MAX: Final = 9

Tree = dict[str, Any]
"""Fields by the segments of their names: node -> segment -> node, and `_VALUE` -> str."""


def parse_fields(query: str, body: bytes) -> Fields:
    """The fields of the query string and the form in the body.

    Raises RefusedError(MALFORMED_QUERY) for fields that are not UTF-8, and for too many of them.
    """
    try:
        fields: Fields = {}
        for text in (query, body.decode()):
            if text:
                fields.update(
                    parse_qsl(
                        text,
                        keep_blank_values=True,
                        errors="strict",
                        max_num_fields=REQUEST_FORM_FIELDS_MAX,
                    )
                )
    except ValueError as error:
        raise RefusedError(MALFORMED_QUERY, "The query string is malformed.") from error
    return fields


def decode(fields: Mapping[str, str], structure: Structure) -> Params:
    """The parameters of an operation.

    Raises RefusedError for numbers, booleans and base64 values that are none.
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
            return None if text is None else _read_scalar(text, shape.kind, name)
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
    """The members of a list in the order of their numbers."""
    node = node.get("member") or node
    numbered = [
        (int(segment), member)
        for segment, member in node.items()
        if segment.isascii() and segment.isdigit() and len(segment) <= _INDEX_DIGITS_MAX
    ]
    numbered.sort(key=lambda pair: pair[0])
    return [member for _, member in numbered]


def _read_scalar(text: str, kind: str, name: str) -> str | int | bool | bytes:
    if kind == "integer":
        return _read_integer(text, name)
    if kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise invalid_parameter(name, text, "Must be true or false.")
        return text.lower() == "true"
    if kind == "blob":
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except ValueError as error:
            raise invalid_parameter(name, text, "Must be base64.") from error
    return text


def _read_integer(text: str, name: str) -> int:
    digits = text[1:] if text.startswith(("-", "+")) else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _INDEX_DIGITS_MAX + 1):
        raise invalid_parameter(name, text, "Must be an integer.")
    number = int(text)
    if not INTEGER_MIN <= number <= INTEGER_MAX:
        raise invalid_parameter(name, text, "Must be an integer.")
    return number
