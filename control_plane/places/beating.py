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
        self.served: Callable[[], Served] = Served

    def lags_us(self) -> dict[str, int]:
        """By group, for how long the oldest change has been known to its first member alone."""
        now_us = self._clock.now_us()
        lags = {name: fanout.lag_us(now_us) for name, fanout in self._fanouts().items()}
        return {name: lag_us for name, lag_us in lags.items() if lag_us}

    def beat(self) -> Heartbeat:
        """What is seen now; rates are those since the last call."""
        now_us, served = self._clock.now_us(), self.served()
        passed_s = max(1, now_us - self._before_us) / _US_PER_S
        requests = served.requests - self._before.requests
        sent_before = self._before.fifo_sent or {}
        appends = [
            FifoAppends(*name, (sent - sent_before.get(name, 0)) / passed_s)
            for name, sent in (served.fifo_sent or {}).items()
        ]
        appends.sort(key=lambda one: -one.appends_per_s)
        told = tuple(one for one in appends if one.appends_per_s)[:APPENDS_TOLD_MAX]
        is_first = not self._before_us
        self._before, self._before_us = served, now_us
        return Heartbeat(
            self.front_end,
            now_us,
            self._watch.report(self.cell_lags_us()),
            0.0 if is_first else requests / passed_s,
            () if is_first else told,
            self.lags_us(),
            {group: held.placement.epoch for group, held in self._known.placements.items()},
        )

    def cell_lags_us(self) -> dict[str, int]:
        """By cell, for how long it has not been told the oldest of what it is still to be told."""
        now_us = self._clock.now_us()
        lags: dict[str, int] = {}
        for fanout in self._fanouts().values():
            for member, changes in fanout.pending().items():
                if changes:
                    lags[member.cell] = max(lags.get(member.cell, 0), fanout.lag_us(now_us))
        return lags
