"""Dropping what is superfluous in copies: each member drops its own."""

from collections.abc import Sequence

from data_plane.core.dropping import Dropped, Superfluous
from data_plane.ports import CellUnavailableError, Waits
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Placement


async def drop_in_all(
    waits: Waits, at: Placement, members: Sequence[MemberCell], part: Superfluous, after: bytes
) -> Dropped:
    """A bounded step in every full member: as far as the one that is least far.

    Nobody waits for a member that does not answer, or that joins and may still be given what is
    superfluous: then the step is not `whole`, and to be made again later. Raises
    CellUnavailableError where none answers.
    """
    full = [cell for cell, member in zip(members, at.members, strict=True) if member.full]
    outcomes = await waits.all_of([cell.drop_superfluous(part, after) for cell in full])
    done: list[Dropped] = []
    for outcome in outcomes:
        if isinstance(outcome, Dropped):
            done.append(outcome)
        elif not isinstance(outcome, CellUnavailableError):
            raise outcome
    if not done:
        raise CellUnavailableError(f"no member of {at.group} answers")
    position = min((one.position for one in done if one.position), default=b"")
    return Dropped(position, max(one.items for one in done), len(done) == len(at.members))
