"""Attributes of stored items, of the type that they were written with."""

from typing import TypeVar

from data_plane.ports import Attributes, Value

T = TypeVar("T", bound=Value)


def item_field(item: Attributes, name: str, kind: type[T], error: type[Exception]) -> T:
    """The attribute. Raises `error` where it is of another kind, or absent; never its value."""
    value = item.get(name)
    if not isinstance(value, kind):
        raise error(f"attribute {name!r} is {type(value).__name__}, not {kind.__name__}")
    return value
