"""How far consumer groups are behind, as metrics show it.

To measure costs the store some reads for each shard. So it is done when somebody wants to know, in
turns, and the rarer the more there is: what it costs does not depend on how often it is asked for.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.stream_operations.group_lag import measured_group
from control_plane.vital_signs import PATIENCE_S, Look
from data_plane.core.deadline import deadline
from data_plane.core.errors import RefusedError
from data_plane.http.scrapes import Turns
from data_plane.http.stream_metrics import GroupStream
from data_plane.ports import CellUnavailableError, Clock
from data_plane.settings import ServerSettings
from data_plane.streams.lag import Lag

SERIES_MAX: Final = 1_000
"""Groups by streams that metrics show."""

REST_US_MAX: Final = 1_800_000_000
_LOOK_US_MAX: Final = 8_000_000
_NAMES_IN_A_TURN: Final = 100
_GroupName = tuple[str, str, str]
"""Account, region and name."""


class Pace(NamedTuple):
    """How much is measured in a look, and how long to rest after it: for each shard, and at least.

    A look that has measured so many shards leaves the other groups to the next one.
    """

    shards_max: int
    every_us: int
    shard_us: int

    def rest_us(self, shards: int) -> int:
        """How long to rest after a look at so many shards."""
        return min(REST_US_MAX, max(self.every_us, shards * self.shard_us))


EMBEDDED: Final = Pace(1_000, 5_000_000, 5_000)
PAID: Final = Pace(100, 60_000_000, 600_000)
"""Where each look costs requests."""


class GroupLags:
    """Lags of groups as measured last: of those used here lately, and of the default account's."""

    def __init__(
        self, groups: ConsumerGroups, settings: ServerSettings, clock: Clock, *, is_paid: bool
    ) -> None:
        self._groups = groups
        self._default = settings.account, settings.region
        self._clock = clock
        self._is_paid = is_paid
        self._pace = PAID if is_paid else EMBEDDED
        self._measured: dict[_GroupName, Mapping[str, Lag]] = {}
        self._last: _GroupName | None = None
        self._next_us = 0
        self._look = Look(self._measure, PATIENCE_S if is_paid else 2 * _LOOK_US_MAX / 1_000_000)

    async def lags(self) -> dict[GroupStream, Lag]:
        """By group and stream: of this look, where one is due, else of earlier ones."""
        now_us = self._clock.now_us()
        if not now_us < self._next_us <= now_us + REST_US_MAX:  # or the clock was set back
            await self._look()
        return {
            (*name, stream): lag
            for name, lags in self._measured.items()
            for stream, lag in lags.items()
        }

    async def _measure(self) -> None:
        turns = Turns()
        shards = 0
        until_us = self._clock.now_us() + _LOOK_US_MAX
        try:
            with deadline(until_us):
                shown = await self._shown(turns)
                for name in self._measured.keys() - set(shown):
                    del self._measured[name]
                for name in _behind(shown, self._last):
                    self._last = name  # Also where it fails: others have their turn.
                    shards += await self._measure_one(name)
                    if shards >= self._pace.shards_max or self._clock.now_us() >= until_us:
                        break
                    await turns.rest()
        except CellUnavailableError:
            if not self._is_paid:
                self._measured.clear()  # what lies here and does not answer is not there
        self._next_us = self._clock.now_us() + self._pace.rest_us(shards)

    async def _shown(self, turns: Turns) -> list[_GroupName]:
        """Groups used lately, then the default account's."""
        account, region = self._default
        registry = self._groups.registry
        names = dict.fromkeys(registry.used_lately())
        after = ""
        while len(names) < SERIES_MAX:
            page = await registry.page(account, region, after=after, limit=_NAMES_IN_A_TURN)
            names |= dict.fromkeys((account, region, group.name) for group in page)
            if len(page) < _NAMES_IN_A_TURN:
                break
            after = page[-1].name
            await turns.rest()
        return list(names)

    async def _measure_one(self, name: _GroupName) -> int:
        """Measure a group; how many shards it has."""
        others = sum(len(lags) for one, lags in self._measured.items() if one != name)
        try:
            group = await self._groups.registry.read(*name)
        except RefusedError:
            self._measured.pop(name, None)
            return 1
        if others + len(group.streams) > SERIES_MAX:
            self._measured.pop(name, None)
            return 1
        try:
            measured = await measured_group(self._groups, group)
        except CellUnavailableError:
            # Its streams may lie elsewhere than those of others.
            if not self._is_paid:
                self._measured.pop(name, None)
            return 1 + len(group.streams)
        self._measured[name] = measured.lags
        return 1 + measured.shards


def _behind(names: Iterable[_GroupName], last: _GroupName | None) -> list[_GroupName]:
    """The names in order, from behind the last one on and around."""
    return sorted(names, key=lambda name: (last is not None and name <= last, name))
