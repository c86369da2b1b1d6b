"""What requests cost: capacity units of DynamoDB from the sizes of items.

Sizes: "DynamoDB item sizes and formats"; units: "DynamoDB read and write operations", both in the
Amazon DynamoDB Developer Guide. Sizes of numbers are approximate there; `tests/rehearsal` holds
them against what engines report.
"""

from collections.abc import Iterable
from typing import Final

from data_plane.dynamodb.items import SORT_PREFIX
from data_plane.dynamodb.tables import PARTITION, SORT
from data_plane.ports import Attributes, Item, Value

WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096


def item_bytes(item: Item | None) -> int:
    """Size of a stored item with its key; 0 for an absent one."""
    if item is None:
        return 0
    key_bytes = len(PARTITION) + len(SORT) + len(SORT_PREFIX) + len(item.key.sort)
    return key_bytes + len(item.key.partition.encode()) + attributes_bytes(item.attributes)


def attributes_bytes(attributes: Attributes) -> int:
    """Size of an item's attributes, names included."""
    return sum(len(name.encode()) + _value_bytes(value) for name, value in attributes.items())


def write_units(before: Item | None, after: Item | None) -> int:
    """Units of a write, also of one whose condition failed: by the bigger of the two items."""
    return max(1, -(-max(item_bytes(before), item_bytes(after)) // WRITE_UNIT_BYTES))


def read_units(found: Item | None) -> int:
    """Units of a strongly consistent read of one item, alone or in a batch."""
    return max(1, -(-item_bytes(found) // READ_UNIT_BYTES))


def query_units(page: Iterable[Item]) -> int:
    """Units of a strongly consistent query: by what its items have in sum."""
    return max(1, -(-sum(map(item_bytes, page)) // READ_UNIT_BYTES))


def _value_bytes(value: Value) -> int:
    if isinstance(value, int):
        return _number_bytes(value)
    if isinstance(value, frozenset):
        return sum(map(_number_bytes, value))
    return len(value.encode() if isinstance(value, str) else value)


def _number_bytes(value: int) -> int:
    digits = str(abs(value)).rstrip("0")
    return 1 + -(-len(digits) // 2) + (value < 0)
