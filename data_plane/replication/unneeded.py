"""Items that nobody needs any more: cells remove them together, and not while a member joins.

A copy that is under way to who joins would be the only one that is left, and nobody would know any
more that what is in it was deleted (docs/replication.md, "A cell joins, or comes back").
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from data_plane.ports import Cell, CellUnavailableError, Key
from data_plane.replication.member_cell import members_of
from data_plane.replication.placement import Placement, uid_of

FULL_US_MIN: Final = 120_000_000
"""So long all members have to have been full: nobody goes by an older map then, and nobody who
copied to the one that joined last still has anything to put there (copying.py)."""

HELD_MAX: Final = 20_000
"""Keys kept until then; beyond, the oldest are left to their time to live."""

STEP_MAX: Final = 1_000
"""Keys said at a time: a cell removes them in one commit, for which its other writes wait."""


class Unneeded:
    """What a front end has found to be unneeded in one group.

    Of queues that lie alone by now it is left to its time to live: their members may be others.
    """

    def __init__(
        self,
        placement: Callable[[], Placement],
        cells: Mapping[str, Cell],
        alone: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._placement = placement
        self._alone = alone
        self._cells = cells
        self._held: deque[tuple[Key, ...]] = deque()
        self._count = 0

    def expire(self, keys: Sequence[Key]) -> None:
        """Say it to all members, once all of them have long been full: of these keys all at once.

        Raises as `let_go`.
        """
        if keys:
            self._held.append(tuple(keys))
            self._count += len(keys)
        while self._count > HELD_MAX:
            self._count -= len(self._held.popleft())
        self.let_go()

    def let_go(self) -> None:
        """Say some of what is held back, where it may be said by now.

        A bounded step, which costs no request. Raises StalePlacementError, and CellUnavailableError
        for a member that does not even hear it.
        """
        if not self._held:
            return
        at = self._placement()
        if not all(member.full for member in at.members):
            return
        members = members_of(at, self._cells)
        if members[0].plain.now_us() - at.since_us < FULL_US_MIN:
            return
        keys: list[Key] = []
        while self._held and len(keys) < STEP_MAX:
            keys += self._held.popleft()
        self._count -= len(keys)
        alone = self._alone()
        if alone:
            keys = [key for key in keys if uid_of(key.partition) not in alone]
        failed: CellUnavailableError | None = None
        for member in members:
            try:
                member.expire(keys)
            except CellUnavailableError as error:
                failed = error  # Its own are left to their time to live.
        if failed is not None:
            raise failed
