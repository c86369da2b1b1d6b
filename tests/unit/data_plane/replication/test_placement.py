"""Which placements there may be, and which may follow which."""

import pytest

from data_plane.replication.placement import Member, Placement, check_change, partition_of

A, B, C = Member("a"), Member("b"), Member("c")
ABC = Placement("g3.00", 4, (A, B, C))


def after(*members: Member, epoch: int = 5) -> Placement:
    return Placement("g3.00", epoch, members)


def joining(cell: str, incarnation: int = 5) -> Member:
    return Member(cell, incarnation, full=False)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param((B, C), id="the first leaves"),
        pytest.param((A, C), id="the second leaves"),
        pytest.param((C,), id="two leave"),
        pytest.param((A, B, C, joining("d")), id="one joins"),
        pytest.param((B, C, joining("a")), id="one leaves and joins again"),
    ],
)
def test_members_leave_and_join(members: tuple[Member, ...]) -> None:
    check_change(ABC, after(*members))


def test_a_joining_member_becomes_full() -> None:
    before = Placement("g3.00", 5, (A, joining("b")))
    check_change(before, after(A, joining("b")._replace(full=True), epoch=6))


@pytest.mark.parametrize(
    ("members", "why"),
    [
        pytest.param((B, A, C), "keep their order", id="another head by another order"),
        pytest.param((A, joining("d"), B, C), "comes last", id="joins in the middle"),
        pytest.param((A, B, C, Member("d", 5)), "is not full", id="joins as full"),
        pytest.param((A, B, C, joining("d", 4)), "incarnation", id="joins under an old name"),
        pytest.param((B, C, Member("a", 0, full=False)), "order", id="comes back as it was"),
        pytest.param((A, B, Member("c", 0, full=False)), "of its own", id="is full no more"),
    ],
)
def test_what_stale_front_ends_would_break_is_refused(
    members: tuple[Member, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        check_change(ABC, after(*members))


def test_nobody_becomes_full_in_a_change_that_does_more() -> None:
    before = Placement("g3.00", 5, (A, B, joining("c")))
    with pytest.raises(ValueError, match="of its own"):
        check_change(before, after(A, joining("c")._replace(full=True), epoch=6))


@pytest.mark.parametrize("epoch", [4, 6])
def test_epochs_follow_one_another(epoch: int) -> None:
    with pytest.raises(ValueError, match="does not follow"):
        check_change(ABC, after(A, B, epoch=epoch))


@pytest.mark.parametrize("members", [(), (joining("a"),), (A, B, Member("a", 3))])
def test_a_placement_that_cannot_serve_is_none(members: tuple[Member, ...]) -> None:
    with pytest.raises(ValueError, match=r"g3\.00"):
        after(*members)


def test_the_tail_is_the_last_full_member() -> None:
    assert ABC.tail == 2
    assert after(A, joining("b")._replace(full=True), joining("c")).tail == 1


def test_an_incarnation_has_names_of_its_own() -> None:
    assert partition_of(A, "G|u|00|0") == "G|u|00|0"
    assert partition_of(joining("a"), "G|u|00|0") == "G|u|00|0@5"
