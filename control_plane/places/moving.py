"""Moving one queue, without the others of its group: it gets a group of its own, then a wish.

What follows is the cluster manager's: the own group joins the chosen cells and leaves the others.
"""

from collections.abc import Collection, Sequence

from control_plane.places.changes import PlacementChangeError
from control_plane.places.groups import factor_of, own_group, read_place
from control_plane.places.report import CellCommandError
from control_plane.places.stored import Places


async def move_alone(
    places: Places, place: str, uid: str, cells: Sequence[str], usable: Collection[str]
) -> str:
    """Say that a queue, which its definition places there, is to move alone: its group's name.

    May be repeated, and be cut off anywhere: an own group without chosen cells is moved as others
    are. Raises CellCommandError, StalePlanError, CellUnavailableError.
    """
    found = read_place(place)
    if found is None:
        raise CellCommandError(f"the queue lies in {place} alone, without copies elsewhere")
    group = found[0]
    _check(group, cells, usable)
    own = own_group(group, uid)
    try:
        held = await places.read(group)
        if uid not in held.alone:
            await places.part(group, uid, epoch=held.placement.epoch)
        epoch = (await places.read(own)).placement.epoch
        await places.choose(own, cells, epoch=epoch)
    except PlacementChangeError as error:
        raise CellCommandError(str(error)) from error
    return own


def _check(group: str, cells: Sequence[str], usable: Collection[str]) -> None:
    factor = factor_of(group)
    if not cells or len(cells) > factor or len(set(cells)) < len(cells):
        raise CellCommandError(f"name one to {factor} cells, for so many copies the queue has")
    for name in cells:
        if name not in usable:
            told = ", ".join(sorted(usable)) or "none"
            raise CellCommandError(f"{name} takes no groups: those that do are {told}")
