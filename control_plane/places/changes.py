"""Changes of a placement, one epoch each. What they may be is data_plane/replication/placement's.

All of them are pure, and leave a placement as it is (the same object) that needs no change.
"""

from dataclasses import replace

from data_plane.replication.placement import Member, Placement, check_change


class PlacementChangeError(Exception):
    """The change would do harm; the message is one line that says why."""


def copies_kept(factor: int) -> int:
    """How many full members a group keeps, unless an operator says otherwise: half of them or more.

    No vote rests on it: one copy is enough. It bounds what a manager that errs can do.
    """
    return (factor + 1) // 2


def without(
    placement: Placement, cell: str, factor: int, now_us: int, *, forced: bool = False
) -> Placement:
    """Drop a member. Effective at once: the next one decides from now on.

    Members that are still joining in front of the first full one have to begin anew. Raises
    PlacementChangeError where no full member would stay, or (unless `forced`) less than half.
    """
    leaving = [member for member in placement.members if member.cell == cell]
    if not leaving:
        return placement
    left = [member for member in placement.members if member.cell != cell]
    full = sum(member.full for member in left)
    if not full:
        raise PlacementChangeError(f"{placement.group}: {cell} has the last full copy")
    if leaving[0].full and full < copies_kept(factor) and not forced:
        raise PlacementChangeError(
            f"{placement.group}: without {cell} {full} of {factor} copies would stay"
        )
    while not left[0].full:
        del left[0]
    return _next(placement, tuple(left), now_us)


def with_joining(placement: Placement, cell: str, now_us: int) -> Placement:
    """Add a member that gets every write from now on, and serves nothing yet."""
    if any(member.cell == cell for member in placement.members):
        return placement
    joining = Member(cell, incarnation=placement.epoch + 1, full=False)
    return _next(placement, (*placement.members, joining), now_us)


def unchanged(placement: Placement, now_us: int) -> Placement:
    """The same members under the next epoch, from which on something else is true."""
    return _next(placement, placement.members, now_us)


def with_full(placement: Placement, cell: str, now_us: int) -> Placement:
    """Let a member serve that has got everything. Raises PlacementChangeError if it is none."""
    found = [member for member in placement.members if member.cell == cell]
    if not found:
        raise PlacementChangeError(f"{placement.group}: {cell} is no member")
    if found[0].full:
        return placement
    members = tuple(
        member._replace(full=True) if member.cell == cell else member
        for member in placement.members
    )
    return _next(placement, members, now_us)


def _next(placement: Placement, members: tuple[Member, ...], now_us: int) -> Placement:
    after = replace(placement, epoch=placement.epoch + 1, members=members, since_us=now_us)
    check_change(placement, after)
    return after
