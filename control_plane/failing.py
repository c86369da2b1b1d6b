"""What has to be left when an operator calls a cell failed that answers."""

from collections.abc import Collection
from dataclasses import dataclass

from control_plane.parting import Parting
from control_plane.places.cached import CachedMap
from control_plane.places.groups import REGISTRY
from control_plane.places.own import OwnPlacement
from control_plane.places.report import CellCommandError
from control_plane.places.starting import MANIFEST


@dataclass(frozen=True, slots=True)
class Left:
    """Judges by the registry's own placement, those of all groups, and who has what alone."""

    own: OwnPlacement
    known: CachedMap
    parting: Parting

    async def check(self, name: str, left: Collection[str]) -> None:
        """Raise CellCommandError where the cells that are `left` are too few, or lack something.

        And CellUnavailableError.
        """
        self._check_number(name, len(left))
        self._check_joined(name, left)
        if copies := await self.parting.only_copies(name, left):
            raise CellCommandError(
                f"{name} has {copies}, which nobody could use until it is restored:"
                f" `tidegate cells drain {name}` moves them away first"
            )

    def _check_number(self, name: str, left: int) -> None:
        cells = len(self.own.paths)
        if 2 * left < cells:
            raise CellCommandError(
                f"without {name} no more than {left} of {cells} cells answer:"
                " `tidegate cells restore` brings back another one first, or"
                " `tidegate cells add` adds one"
            )
        if 2 * left == cells and not self.own.is_kept:
            raise CellCommandError(
                f"without {name} no more than half of the cells answer, which is enough where"
                f" {MANIFEST} has what they know: it cannot be written, see the log"
            )

    def _check_joined(self, name: str, left: Collection[str]) -> None:
        """Nobody lets go of what others are still copied to."""
        placements = {group: held.placement for group, held in self.known.placements.items()}
        placements[REGISTRY] = self.own.placement()
        alone = [
            group
            for group, placement in sorted(placements.items())
            if any(not member.full for member in placement.members)
            and name in (full := {member.cell for member in placement.members if member.full})
            and full.isdisjoint(left)
        ]
        if alone:
            raise CellCommandError(
                f"{name} has the only whole copy of {len(alone)} groups ({alone[-1]}, ...), which"
                " others are still copied to: `tidegate cells list` shows when they have all"
            )
