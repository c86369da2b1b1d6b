"""What the conformance suite does not show of conditions and changes: it runs on every cell."""

import pytest

from data_plane.core.conditions import Absent, Attributes, Equals, Lacks, Update, apply, holds


def test_apply_leaves_what_was_read_alone() -> None:
    before: Attributes = {"v": 1, "s": frozenset({1})}
    after = apply(Update({"v": 2}, {"s": frozenset({2})}), before)
    assert before == {"v": 1, "s": frozenset({1})}
    assert after == {"v": 2, "s": frozenset({1, 2})}


@pytest.mark.parametrize(
    "change",
    [
        Update(assign={"a": 1}, add={"a": 1}),
        Update(assign={"a": 1}, remove=frozenset({"a"})),
        Update(add={"a": 1}, remove=frozenset({"a"})),
    ],
)
def test_a_change_that_names_an_attribute_twice_is_a_mistake(change: Update) -> None:
    with pytest.raises(ValueError, match="an attribute twice"):
        apply(change, None)


@pytest.mark.parametrize("present", [None, 1, "text", b"bytes", frozenset({1})])
def test_text_and_bytes_cannot_be_added(present: int | str | bytes | frozenset[int] | None) -> None:
    before = None if present is None else {"a": present}
    for amount in ("text", b"bytes"):
        with pytest.raises(TypeError, match="cannot add"):
            apply(Update(add={"a": amount}), before)


def test_a_set_and_a_number_cannot_be_added() -> None:
    with pytest.raises(TypeError, match="cannot add"):
        apply(Update(add={"a": 1}), {"a": frozenset({1})})
    with pytest.raises(TypeError, match="cannot add"):
        apply(Update(add={"a": frozenset({1})}), {"a": 1})


def test_lacks_fails_on_what_is_no_set() -> None:
    assert not holds(((Lacks("a", 1),),), {"a": 2})


def test_no_clause_of_an_absent_item_is_equal() -> None:
    assert not holds(((Equals("a", 0), Equals("a", b"")),), None)
    assert holds(((Absent("a"),),), None)
