import pytest

from data_plane.ports import Item, Key, Value
from tests.conformance.capacity_units import item_bytes, query_units, read_units, write_units

KEY = Key("P", b"12345678")


def item(**attributes: Value) -> Item:
    return Item(KEY, attributes)


@pytest.mark.parametrize(
    ("attributes", "size_bytes"),
    [
        ({}, 14),
        ({"a": 1}, 17),
        ({"a": 12}, 17),
        ({"a": 123}, 18),
        ({"a": 1000}, 17),
        ({"t": 1_790_000_000_123_456}, 24),
        ({"a": -5}, 18),
        ({"d": frozenset({1, 2, 3})}, 21),
        ({"d": frozenset(range(20))}, 54),
        ({"d": frozenset(range(100))}, 214),
        ({"s": "abc"}, 18),
        ({"s": "é"}, 17),
        ({"m1": b"x" * 34}, 50),
    ],
)
def test_sizes_are_those_that_dynamodb_local_was_seen_to_charge_for(
    attributes: dict[str, Value], size_bytes: int
) -> None:
    assert item_bytes(Item(KEY, attributes)) == size_bytes


def test_a_write_costs_by_the_bigger_of_the_items_before_and_after() -> None:
    small, exact, big = item(), item(z=b"x" * (1024 - 15)), item(z=b"x" * (1024 - 14))
    assert write_units(None, small) == 1
    assert write_units(None, exact) == 1
    assert write_units(None, big) == 2
    assert write_units(big, small) == 2
    assert write_units(big, None) == 2
    assert write_units(None, None) == 1


def test_an_absent_item_costs_a_read_unit() -> None:
    assert read_units(None) == 1
    assert read_units(item(z=b"x" * 4096)) == 2


def test_a_query_costs_by_what_its_items_have_in_sum() -> None:
    kilobyte = item(z=b"x" * (1024 - 15))
    assert query_units([]) == 1
    assert query_units([kilobyte] * 4) == 1
    assert query_units([kilobyte] * 5) == 2
