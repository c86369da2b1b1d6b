import pytest

from control_plane.places.changes import (
    PlacementChangeError,
    copies_kept,
    with_full,
    with_joining,
    without,
)
from data_plane.replication.placement import Member, Placement

ABC = Placement("g3.00", 4, (Member("a"), Member("b"), Member("c")), 1)


def cells(placement: Placement) -> list[str]:
    return [member.cell for member in placement.members]


def test_a_member_leaves_and_the_next_one_decides() -> None:
    after = without(ABC, "a", 3, 7)
    assert (cells(after), after.epoch, after.since_us) == (["b", "c"], 5, 7)


def test_half_stays_unless_somebody_insists() -> None:
    two = without(ABC, "a", 3, 7)
    with pytest.raises(PlacementChangeError, match="without b 1 of 3 copies would stay"):
        without(two, "b", 3, 8)
    one = without(two, "b", 3, 8, forced=True)
    assert cells(one) == ["c"]
    with pytest.raises(PlacementChangeError, match="c has the last full copy"):
        without(one, "c", 3, 9, forced=True)


def test_who_joins_comes_last_under_the_epoch_and_then_serves() -> None:
    joining = with_joining(without(ABC, "a", 3, 7), "a", 8)
    assert joining.members[-1] == Member("a", 6, full=False)
    assert joining.epoch == 6
    full = with_full(joining, "a", 9)
    assert full.members[-1] == Member("a", 6)
    assert full.epoch == 7


def test_who_joins_may_leave_although_few_are_full() -> None:
    joining = with_joining(without(ABC, "a", 3, 7), "a", 8)
    assert cells(without(joining, "a", 3, 9)) == ["b", "c"]


def test_who_joins_in_front_of_the_first_full_member_begins_anew() -> None:
    at = Placement("g3.00", 4, (Member("a"), Member("b", 3, full=False), Member("c", 4)))
    assert cells(without(at, "a", 1, 5)) == ["c"]


def test_what_needs_no_change_is_left() -> None:
    assert without(ABC, "d", 3, 7) is ABC
    assert with_joining(ABC, "a", 7) is ABC
    assert with_full(ABC, "a", 7) is ABC
    with pytest.raises(PlacementChangeError, match="d is no member"):
        with_full(ABC, "d", 7)


def test_how_many_stay() -> None:
    assert [copies_kept(factor) for factor in range(1, 6)] == [1, 1, 2, 2, 3]
