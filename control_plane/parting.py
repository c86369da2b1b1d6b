"""How a cell that is lost or given up leaves its groups at once: to copies, or to nothing."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from control_plane.places.cached import CachedMap
from control_plane.places.groups import REGISTRY, number_of
from control_plane.places.items import StoredPlacement
from control_plane.places.placing import GroupPlacing
from control_plane.places.report import CellCommandError
from control_plane.places.stored import Places
from data_plane.ports import CellUnavailableError

LOG: Final = logging.getLogger(__name__)


class Parting:
    """Lets cells leave groups of which the manager would let no further copy go.

    `cells` are all that there are, with their states as a health check has them; `puts_back` says
    how an operator brings back one that was lost, `gives_up` how he parts with it and what it alone
    had. All raise CellUnavailableError.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it reads, and what it says
        self,
        places: Places,
        placing: GroupPlacing,
        known: CachedMap,
        cells: Callable[[], Mapping[str, str]],
        puts_back: Callable[[str], str],
        gives_up: Callable[[str], str],
    ) -> None:
        self._places = places
        self._placing = placing
        self._known = known
        self._cells = cells
        self._puts_back = puts_back
        self._gives_up = gives_up

    async def only_copies(self, name: str, left: Collection[str] | None = None) -> str:
        """In words the queues that the cell has the only full copy of; "" if it has of none.

        Where it is said which cells are `left`, those of others are none.
        """
        queues = [
            queue
            for group, held in self._only_in(name, left)
            for queue in await self._placing.queues_of(group, held.alone)
        ]
        if not queues:
            return ""
        first = f"{queues[0].name} of account {queues[0].account}"
        if len(queues) == 1:
            return f"the only copy of 1 queue ({first})"
        return f"the only copy of {len(queues)} queues ({first}, ...)"

    async def without_copies(self, answering: Collection[str]) -> list[str]:
        """Groups with queues of which none of the cells that answer has a full copy, in order."""
        return [
            group
            for group, held in sorted(self._known.placements.items())
            if group != REGISTRY
            and not any(one.full and one.cell in answering for one in held.placement.members)
            and await self._placing.queues_of(group, held.alone)
        ]

    async def with_loss(self, name: str, why: str, goes_on: str = "") -> str:
        """Why a cell does not answer, if so, and what would be lost with it: as far as known.

        Where that is nothing, how its service `goes_on` without.
        """
        try:
            copies = await self.only_copies(name) if why else ""
        except CellUnavailableError:
            copies = ""
        if not copies:
            return f"{why}; or {goes_on}" if why and goes_on else why
        gives_up = f"`tidegate cells remove {name} --lose-messages`"
        return f"{why}. It has {copies}: {gives_up} gives it up, and loses all messages in there"

    async def check_other_copies(
        self, name: str, back: str, left: Collection[str] | None = None
    ) -> None:
        """Raise CellCommandError where the cell has `only_copies`; `back` says how they are saved.

        The error names how they are given up, too.
        """
        if copies := await self.only_copies(name, left):
            raise CellCommandError(
                f"{name} has {copies}, which would lose all messages: {back}; or"
                f" `tidegate cells remove {name} --lose-messages` gives them up"
            )

    async def give_up_only_copies(self, name: str, back: str, *, lose_messages: bool) -> None:
        """Let others have the groups that the cell alone has, without what is in them.

        Raises CellCommandError where there are queues among them, but to `lose_messages`. So it
        does where no other cell with a copy answers: the one that is given up may be what is left.
        """
        if not lose_messages:
            answering = [cell for cell, state in self._cells().items() if state != "unavailable"]
            await self.check_other_copies(name, back, answering)
        for group, held in self._only_in(name):
            if queues := await self._placing.queues_of(group, held.alone):
                LOG.error(
                    "cells: %s is given up: %d queues of %s lose their messages (%s of %s, ...)",
                    *(name, len(queues), group, queues[0].name, queues[0].account),
                )
            await self._place_anew(group, name, held.placement.epoch)
        await self._known.refresh()

    async def leave_to_other_copies(self, name: str) -> None:
        """Take the cell out of all groups that have full copies elsewhere, but the registry."""
        for group, held in sorted(self._known.placements.items()):
            members = held.placement.members
            others = any(member.full and member.cell != name for member in members)
            if others and group != REGISTRY and any(member.cell == name for member in members):
                await self._places.drop_member(group, name, epoch=held.placement.epoch, forced=True)
        await self._known.refresh()

    async def leave_groups(self, name: str, lost: Collection[str]) -> None:
        """Take a cell that has lost everything out of its groups; others are `lost`, too.

        Raises CellCommandError where they had the only copies of queues: then nothing is changed.
        """
        theirs = {
            group: held
            for group, held in (await self._places.read_all()).placements.items()
            if any(member.cell == name for member in held.placement.members)
        }
        alone = [
            group
            for group, held in theirs.items()
            if {member.cell for member in held.placement.members if member.full} <= {*lost}
        ]
        for group in alone:
            if queues := await self._placing.queues_of(group, theirs[group].alone):
                raise CellCommandError(
                    f"{group}: {name} has the last full copy of {len(queues)} queues"
                    f" ({queues[0].name} of account {queues[0].account}, ...):"
                    f" {self._puts_back(name)}, or give up what it alone had, which loses these"
                    f" messages: {self._gives_up(name)}"
                )
        for group, held in theirs.items():
            epoch = held.placement.epoch
            if group in alone:
                await self._place_anew(group, name, epoch)
            else:
                await self._places.drop_member(group, name, epoch=epoch, forced=True)

    def _only_in(
        self, name: str, left: Collection[str] | None = None
    ) -> list[tuple[str, StoredPlacement]]:
        """Groups of which the cell has the only full copy: of those that are `left`, if given."""
        full = {
            group: {member.cell for member in held.placement.members if member.full}
            for group, held in self._known.placements.items()
        }
        return [
            (group, held)
            for group, held in sorted(self._known.placements.items())
            if name in full[group]
            and (others := full[group] - {name}).isdisjoint(others if left is None else left)
        ]

    async def _place_anew(self, group: str, name: str, epoch: int) -> None:
        """Let another cell have a group, of which this one has what cannot be copied: nothing."""
        states = self._cells()
        others = [cell for cell in states if cell != name]
        available = [cell for cell in others if states[cell] == "available"] or others
        other = available[number_of(group) % len(available)]
        joined = await self._places.add_joining(group, other, epoch=epoch)
        full = await self._places.make_full(group, other, epoch=joined.placement.epoch)
        await self._places.drop_member(group, name, epoch=full.placement.epoch, forced=True)
