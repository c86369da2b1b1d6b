"""Heartbeats: what a front end tells the cluster manager every two seconds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from control_plane.places.cached import CachedMap
from control_plane.places.items import FifoAppends, Heartbeat
from control_plane.places.watching import CellWatch
from data_plane.ports import Clock
from data_plane.replication.fanout import Fanout

APPENDS_TOLD_MAX: Final = 20
RATES_OVER_US_MIN: Final = 1_000_000
_US_PER_S: Final = 1_000_000

QueueName = tuple[str, str, str]
"""Account, region and name."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a front end has served since it started."""

    requests: int = 0
    fifo_sent: Mapping[QueueName, int] | None = None


class Heart:
    """Makes the heartbeats of the front end of this id. `served` answers what it has served."""

    def __init__(
        self,
        front_end: str,
        watch: CellWatch,
        known: CachedMap,
        clock: Clock,
        fanouts: Callable[[], Mapping[str, Fanout]],
    ) -> None:
        self.front_end = front_end
        self._watch = watch
        self._known = known
        self._clock = clock
        self._fanouts = fanouts
        self._before = Served()
        self._before_us = 0
        self._requests_per_s = 0.0
        self._appends: tuple[FifoAppends, ...] = ()
        self.served: Callable[[], Served] = Served

    def lags_us(self) -> dict[str, int]:
        """By group, for how long the oldest change has been known to its first member alone."""
        now_us = self._clock.now_us()
        lags = {name: fanout.lag_us(now_us) for name, fanout in self._fanouts().items()}
        return {name: lag_us for name, lag_us in lags.items() if lag_us}

    def beat(self) -> Heartbeat:
        """What is seen now; rates are of the last seconds."""
        now_us = self._clock.now_us()
        if now_us - self._before_us >= RATES_OVER_US_MIN:
            self._count(now_us)
        untold_us = [fanout.oldest_us() for fanout in self._fanouts().values()]
        return Heartbeat(
            self.front_end,
            now_us,
            self._watch.report(self.cell_lags_us()),
            self._requests_per_s,
            self._appends,
            self.lags_us(),
            {group: held.placement.epoch for group, held in self._known.placements.items()},
            min((since_us for since_us in untold_us if since_us is not None), default=now_us),
        )

    def has_told_all(self) -> bool:
        """Whether nothing is known to this front end and first members alone."""
        fanouts = self._fanouts().values()
        return all(one.oldest_us() is None and one.forgotten_since_us is None for one in fanouts)

    def _count(self, now_us: int) -> None:
        """Make rates of what was served since they were made last."""
        served, before = self.served(), self._before
        if self._before_us:
            passed_s = (now_us - self._before_us) / _US_PER_S
            self._requests_per_s = (served.requests - before.requests) / passed_s
            sent_before = before.fifo_sent or {}
            appends = [
                FifoAppends(*name, (sent - sent_before.get(name, 0)) / passed_s)
                for name, sent in (served.fifo_sent or {}).items()
                if sent > sent_before.get(name, 0)
            ]
            appends.sort(key=lambda one: -one.appends_per_s)
            self._appends = tuple(appends[:APPENDS_TOLD_MAX])
        self._before, self._before_us = served, now_us

    def cell_lags_us(self) -> dict[str, int]:
        """By cell, for how long it has not been told the oldest of what it is still to be told."""
        now_us = self._clock.now_us()
        lags: dict[str, int] = {}
        for fanout in self._fanouts().values():
            for member, changes in fanout.pending().items():
                if changes:
                    lag_us = fanout.lag_us(now_us, member)
                    lags[member.cell] = max(lags.get(member.cell, 0), lag_us)
        return lags
