"""Attributes of stored items, of the type that they were written with."""

from typing import TypeVar

from data_plane.ports import Attributes, Value

T = TypeVar("T", bound=Value)


class UnknownItemFormatError(Exception):
    """A stored item has a format, or an attribute of a type, that this version does not know."""


def check_format(what: str, item: Attributes, known: int) -> None:
    """Raise UnknownItemFormatError where the item is of another format."""
    if item.get("v") != known:
        raise UnknownItemFormatError(f"{what}: format {item.get('v')!r}")


def text(item: Attributes, name: str) -> str:
    """A text of the item. Raises UnknownItemFormatError."""
    return _field(item, name, str)


def integer(item: Attributes, name: str) -> int:
    """A number of the item. Raises UnknownItemFormatError."""
    return _field(item, name, int)


def octets(item: Attributes, name: str) -> bytes:
    """Bytes of the item. Raises UnknownItemFormatError."""
    return _field(item, name, bytes)


def _field(item: Attributes, name: str, kind: type[T]) -> T:
    """The attribute, whose value no error tells."""
    value = item.get(name)
    if not isinstance(value, kind):
        raise UnknownItemFormatError(
            f"attribute {name!r} is {type(value).__name__}, not {kind.__name__}"
        )
    return value
