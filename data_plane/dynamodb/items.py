"""Keys and attributes as DynamoDB's typed values, and back (docs/storage.md)."""

from collections.abc import Mapping
from typing import Any, Final

from data_plane.dynamodb.tables import PARTITION, SORT
from data_plane.ports import Attributes, Item, Key, Value

SORT_PREFIX: Final = b"\0"
"""DynamoDB refuses an empty sort key; with one byte before each, their order stays as it is."""

TypedValue = dict[str, Any]
"""A value under the name of its type, as in `{"N": "5"}`."""

TypedItem = Mapping[str, Mapping[str, Any]]


class UnreadableItemError(Exception):
    """An item of the table holds what this code never writes."""


def encode_key(key: Key) -> dict[str, TypedValue]:
    """The key's attributes."""
    return {PARTITION: {"S": key.partition}, SORT: {"B": SORT_PREFIX + key.sort}}


def encode_value(value: Value) -> TypedValue:
    """One value; of the same type it compares as it does here."""
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": value}
    if isinstance(value, str):
        return {"S": value}
    return {"NS": [str(member) for member in sorted(value)]}


def encode_item(key: Key, attributes: Attributes) -> dict[str, TypedValue]:
    """The whole item."""
    item = {name: encode_value(value) for name, value in attributes.items()}
    item.update(encode_key(key))
    return item


def decode_attributes(item: TypedItem) -> dict[str, Value]:
    """The item without its key. Raises UnreadableItemError."""
    return {
        name: _decode_value(name, typed)
        for name, typed in item.items()
        if name not in (PARTITION, SORT)
    }


def decode_key(item: TypedItem) -> Key:
    """The key of an item, or of what a projection left of it. Raises UnreadableItemError."""
    try:
        stored = bytes(item[SORT]["B"])
        partition = str(item[PARTITION]["S"])
    except KeyError as error:
        raise UnreadableItemError(f"an item without the key attribute {error}") from error
    if not stored.startswith(SORT_PREFIX):
        raise UnreadableItemError(f"the sort key {stored!r} does not begin with a zero byte")
    return Key(partition, stored[len(SORT_PREFIX) :])


def decode_item(item: TypedItem) -> Item:
    """The whole item. Raises UnreadableItemError."""
    return Item(decode_key(item), decode_attributes(item))


def _decode_value(name: str, typed: Mapping[str, Any]) -> Value:
    ((kind, stored),) = typed.items()
    match kind:
        case "N":
            return int(stored)
        case "B":
            return bytes(stored)
        case "S":
            return str(stored)
        case "NS":
            return frozenset(int(member) for member in stored)
    raise UnreadableItemError(f"attribute {name!r} has the type {kind}")
