"""Offsets: commits are fenced and never go back, whatever arrives in whichever order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from control_plane.core.consumer_group import ShardHold
from control_plane.core.group_offset import (
    END_OFFSET,
    Commit,
    GroupOffset,
    committing,
    first_item,
    handing_over,
    has_taken_over,
    is_committed,
    is_reset,
    is_taken_up,
    read_offset,
    resetting,
)
from control_plane.core.item_field import UnknownItemFormatError
from data_plane.core.conditions import Condition, Update, apply, holds
from data_plane.ports import Attributes


def write(item: Attributes | None, change: tuple[Update, Condition]) -> Attributes | None:
    return apply(change[0], item) if holds(change[1], item) else item


def commit(member: str, epoch: int, offset: int) -> Commit:
    return Commit(member, epoch, offset, f"number-{offset}", "said")


def test_the_owner_commits_and_nobody_else() -> None:
    item = write(None, handing_over("a", 3))
    item = write(item, committing(commit("a", 3, 7), 50))
    assert read_offset(item) == GroupOffset(7, "number-7", "said", "a", 3, 50)
    for other in (commit("a", 2, 9), commit("b", 3, 9), commit("a", 4, 9), commit("a", 3, 6)):
        assert write(item, committing(other, 60)) == item
    assert is_committed(item, commit("a", 3, 7))
    assert is_committed(item, commit("a", 3, 6))
    assert not is_committed(item, commit("a", 3, 8))
    assert not is_committed(item, commit("b", 3, 7))
    assert not is_committed(None, commit("a", 3, 7))


def test_a_hand_over_tells_what_was_committed_before_it() -> None:
    item = write(write(None, handing_over("a", 3)), committing(commit("a", 3, 7), 50))
    after = write(item, handing_over("b", 4))
    assert read_offset(item).offset == 7
    assert write(after, committing(commit("a", 3, 8), 60)) == after
    assert write(after, handing_over("a", 3)) == after
    assert has_taken_over(after, "b", 4)
    assert not has_taken_over(after, "a", 4)
    assert is_taken_up(read_offset(after), ShardHold("b", 4, "b"))


def test_a_reset_is_above_all_before_and_below_all_after() -> None:
    item = write(write(None, handing_over("a", 3)), committing(commit("a", 3, 7), 50))
    back = write(item, resetting(None, 4))
    assert read_offset(back) == GroupOffset(epoch=4)
    assert is_reset(back, 4)
    assert read_offset(write(item, resetting(2, 4))).offset == 2
    assert write(back, committing(commit("a", 3, 8), 60)) == back
    later = write(item, handing_over("b", 5))
    assert write(later, resetting(None, 4)) == later
    assert not is_reset(later, 4)


def test_where_a_group_begins_is_a_commit_of_nobody() -> None:
    item = write(first_item(5), handing_over("a", 1))
    assert read_offset(item) == GroupOffset(5, owner="a", epoch=1)
    ended = write(item, committing(Commit("a", 1, END_OFFSET, ""), 50))
    assert read_offset(ended).is_end
    assert write(ended, committing(commit("a", 1, 9), 60)) == ended


def test_another_format_is_refused() -> None:
    with pytest.raises(UnknownItemFormatError):
        read_offset({"v": 2, "c": 1})


WRITES = some.lists(
    some.one_of(
        some.tuples(some.just(handing_over), some.sampled_from("ab"), some.integers(1, 6)),
        some.tuples(
            some.just(committing),
            some.builds(commit, some.sampled_from("ab"), some.integers(1, 6), some.integers(0, 9)),
            some.just(1),
        ),
    ),
    max_size=30,
)


@given(WRITES)
def test_epochs_and_offsets_never_go_back(writes: list[tuple[Any, Any, Any]]) -> None:
    item: Attributes | None = None
    for make, *given_ in writes:
        before, item = read_offset(item), write(item, make(*given_))
        after = read_offset(item)
        assert after.epoch >= before.epoch
        assert (after.offset or 0) >= (before.offset or 0)
        assert after.owner == before.owner or after.epoch > before.epoch
        assert after.offset == before.offset or after.epoch == before.epoch
