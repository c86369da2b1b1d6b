import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.dynamodb.items import (
    UnreadableItemError,
    decode_item,
    encode_item,
    encode_key,
)
from data_plane.ports import Key, Value

INTEGERS = st.integers(-(2**63), 2**63)
VALUES: st.SearchStrategy[Value] = st.one_of(
    INTEGERS, st.text(), st.binary(), st.frozensets(INTEGERS, min_size=1)
)
NAMES = st.text(min_size=1).filter(lambda name: name not in ("pk", "sk"))


@given(
    key=st.builds(Key, st.text(min_size=1), st.binary()), attributes=st.dictionaries(NAMES, VALUES)
)
def test_what_is_encoded_is_decoded(key: Key, attributes: dict[str, Value]) -> None:
    assert decode_item(encode_item(key, attributes)) == (key, attributes)


@given(st.lists(st.binary(max_size=4), min_size=2))
def test_stored_sort_keys_are_not_empty_and_keep_their_order(sorts: list[bytes]) -> None:
    stored = [encode_key(Key("P", sort))["sk"]["B"] for sort in sorts]
    assert all(stored)
    assert sorted(stored) == [encode_key(Key("P", sort))["sk"]["B"] for sort in sorted(sorts)]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"pk": {"S": "P"}, "sk": {"B": b"\0a"}, "b": {"BOOL": True}}, "'b' has the type BOOL"),
        ({"pk": {"S": "P"}, "sk": {"B": b"a"}}, "does not begin with a zero byte"),
        ({"pk": {"S": "P"}, "sk": {"S": "a"}}, "without the key attribute 'B'"),
        ({"sk": {"B": b"\0a"}}, "without the key attribute 'pk'"),
    ],
)
def test_an_item_of_somebody_else_is_refused(
    item: dict[str, dict[str, object]], reason: str
) -> None:
    with pytest.raises(UnreadableItemError, match=reason):
        decode_item(item)
