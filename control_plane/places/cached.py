"""The map that a front end goes by: the last good one, never an empty or suddenly smaller one."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from control_plane.places.groups import REGISTRY, alone_in
from control_plane.places.items import CellRecord, StoredPlacement, with_own
from control_plane.places.own import OwnPlacement
from control_plane.places.stored import PlaceMap
from data_plane.ports import CellUnavailableError, Clock
from data_plane.replication.member_cell import StalePlacementError
from data_plane.replication.placement import Placement

MAP_AGE_US_MAX: Final = 60_000_000
"""No front end goes by an older map: who joins a group relies on it (docs/replication.md)."""


class CachedMap:
    """What `read` answered last, and can be believed.

    `own` is the registry's own placement, `running_us` a clock that nobody sets, if there is one.
    `refused` says why the last answer was not taken, "" where it was. `lost` is called with the
    name of a group that has lost a member.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[PlaceMap]],
        clock: Clock,
        own: OwnPlacement | None = None,
        running_us: Callable[[], int] | None = None,
    ) -> None:
        self._read = read
        self._clock = clock
        self._running_us = running_us or clock.now_us
        self._begun_us = 0
        self._own = own
        self._map = PlaceMap()
        self._is_reading = False
        self.refused = ""
        self.lost: Callable[[str], None] = lambda _group: None

    @property
    def placements(self) -> Mapping[str, StoredPlacement]:
        """All of them, however old, the registry's own included."""
        if self._own is None:
            return self._map.placements
        return {**self._map.placements, REGISTRY: self._own.stored}

    @property
    def cells(self) -> Mapping[str, CellRecord]:
        """All cells, however old what is known of them."""
        return self._map.cells

    @property
    def age_us(self) -> int:
        """How long ago the map was read; below 0 where the clock was set back behind that.

        The longer of two times counts: a clock may be set back, another one stand still.
        """
        passed_us = self._clock.now_us() - self._map.read_us
        return passed_us if passed_us < 0 else max(passed_us, self._running_us() - self._begun_us)

    def placement(self, group: str) -> Placement:
        """The group's placement. Raises StalePlacementError where none is known that is fresh."""
        latest = self.latest(group)
        if group == REGISTRY and self._own is not None:
            return latest
        if not 0 <= self.age_us <= MAP_AGE_US_MAX:
            raise StalePlacementError(f"the map of cells is {self.age_us // 1_000_000} s old")
        return latest

    def latest(self, group: str) -> Placement:
        """The group's placement, however old. Raises StalePlacementError where none is known."""
        if group == REGISTRY and self._own is not None:
            return self._own.placement()
        held = self._map.placements.get(group)
        if held is None:
            raise StalePlacementError(f"there is no placement of {group}")
        return held.placement

    def alone(self, group: str) -> Collection[str]:
        """The uids of queues that have left the group for one of their own, however old."""
        held = self._map.placements.get(group)
        return held.alone if held is not None else ()

    def note(self, stored: StoredPlacement) -> None:
        """Go by this placement from now on, which was written by this process."""
        group = stored.placement.group
        if group == REGISTRY and self._own is not None:
            return
        held = self._map.placements.get(group)
        if held is None or held.placement.epoch < stored.placement.epoch:
            placements = with_own({**self._map.placements, group: stored})
            self._go_by(PlaceMap(placements, self._map.cells, self._map.read_us))

    async def refresh(self) -> bool:
        """Read the map anew, unless that is under way; whether there is a new one.

        Raises CellUnavailableError, and as `read`.
        """
        if self._is_reading:
            return False
        self._is_reading = True
        begun_us = self._running_us()
        try:
            return self.take(await self._read(), begun_us)
        finally:
            self._is_reading = False

    async def refresh_anew(self) -> None:
        """Go by a map that is read from now on, also while one is that was asked for before.

        Raises StalePlacementError where it cannot be believed, CellUnavailableError, and as `read`.
        """
        begun_us = self._running_us()
        if not self.take(await self._read(), begun_us):
            raise StalePlacementError(f"the map of cells that was read is no good: {self.refused}")

    async def try_refresh(self) -> bool:
        """As `refresh`; False where the registry does not answer."""
        try:
            return await self.refresh()
        except CellUnavailableError:
            return False

    def take(self, fresh: PlaceMap, begun_us: int | None = None) -> bool:
        """Go by this map, if it can be believed; `begun_us` is when it was asked for, None: now.

        An empty one is a mistake, and so is one that has lost more than half of the groups. Of each
        group the later epoch stays: a read may be overtaken by a write.
        """
        known, found = _common(self._map.placements), _common(fresh.placements)
        if not found:
            self.refused = "it is empty"
        elif 2 * len(known - found) > len(known):
            self.refused = f"it lacks {len(known - found)} of {len(known)} groups"
        else:
            placements = dict(fresh.placements)
            for group in known & found:
                placements[group] = _later(self._map.placements[group], placements[group])
            placements = with_own(placements)
            for group, held in self._map.placements.items():
                # Of queues that are gone no group names the own one any more.
                if group in placements and alone_in(group):
                    placements[group] = _later(held, placements[group])
            self._go_by(PlaceMap(placements, fresh.cells, fresh.read_us))
            self._begun_us = self._running_us() if begun_us is None else begun_us
            self.refused = ""
            return True
        return False

    def _go_by(self, fresh: PlaceMap) -> None:
        before, self._map = self._map, fresh
        for group, held in before.placements.items():
            now = fresh.placements.get(group, held).placement
            if now.epoch != held.placement.epoch and not all(map(now.has, held.placement.members)):
                self.lost(group)


def _common(placements: Mapping[str, StoredPlacement]) -> set[str]:
    """Groups that queues have in common: the others come and go with their queues."""
    return {group for group in placements if group != REGISTRY and not alone_in(group)}


def _later(held: StoredPlacement, other: StoredPlacement) -> StoredPlacement:
    return held if held.placement.epoch > other.placement.epoch else other
