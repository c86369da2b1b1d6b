"""Items that nobody needs any more: cells remove them together, and not while a member joins.

A copy that is under way to who joins would be the only one that is left, and nobody would know any
more that what is in it was deleted (docs/replication.md, "A cell joins, or comes back").
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from data_plane.ports import Cell, Key
from data_plane.replication.member_cell import members_of
from data_plane.replication.placement import Placement

HELD_MAX: Final = 20_000
"""Keys kept until who joins is full; beyond, the oldest are left to their time to live."""


class Unneeded:
    """What a front end has found to be unneeded in one group."""

    def __init__(self, placement: Callable[[], Placement], cells: Mapping[str, Cell]) -> None:
        self._placement = placement
        self._cells = cells
        self._held: deque[Key] = deque(maxlen=HELD_MAX)

    def expire(self, keys: Sequence[Key]) -> None:
        """Say it to all members, once all of them are full. Raises StalePlacementError."""
        self._held.extend(keys)
        self.let_go()

    def let_go(self) -> None:
        """Say what is held back, where it may be said by now."""
        if not self._held:
            return
        at = self._placement()
        if not all(member.full for member in at.members):
            return
        keys = list(self._held)
        self._held.clear()
        for member in members_of(at, self._cells):
            member.expire(keys)
