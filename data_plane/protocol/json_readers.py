"""Readers of decoded JSON, as all versions of AWS JSON have them: by the shape, in AWS's words.

Unknown members are ignored, and null means absent: in a list it is dropped.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from data_plane.core.errors import MALFORMED_INPUT, RefusedError

Reader = Callable[[Any], Any]
"""Checks a decoded JSON value against a shape and returns it in the shape's Python types."""


def structure_reader(members: Mapping[str, Reader]) -> Reader:
    """Of an object with these members."""

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            refuse_value(value, "Expected null")
        result = {}
        for name, member in value.items():
            read_member = members.get(name)
            if read_member is not None and member is not None:
                result[name] = read_member(member)
        return result

    return read


def list_reader(read_member: Reader) -> Reader:
    """Of a list."""

    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            refuse_value(value, "Expected list or null")
        return [read_member(member) for member in value if member is not None]

    return read


def map_reader(read_value: Reader, nothing: Any) -> Reader:
    """Of an object whose members have names of any kind; null stands for `nothing`."""

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            refuse_value(value, "Expected map or null")
        return {key: nothing if each is None else read_value(each) for key, each in value.items()}

    return read


def refuse_value(value: Any, otherwise: str) -> NoReturn:
    """Refuse a list or an object by its beginning, anything else in these words."""
    match value:
        case dict():
            message = "Start of structure or map found where not expected."
        case list():
            message = "Start of list found where not expected"
        case _:
            message = otherwise
    raise RefusedError(MALFORMED_INPUT, message)
