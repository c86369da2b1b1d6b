"""Run a server whose cluster manager is in a hurry, and may be interfered with.

`python -m tests.drills.hurried FOLDER [alone] [FAULT] -m MODULE ARGUMENTS`. A cell that returns is
let in again after seconds, for which front ends may also keep a map; on one machine nothing is late
for longer. A server that is `alone` need not wait for others' maps. What is to go wrong files in
the folder say, which may come and go while the server runs; a fault is one of those that can be
planted.
"""

import asyncio
import json
import runpy
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from control_plane.cluster import running
from control_plane.cluster.observation import Options
from control_plane.places import cached
from control_plane.places.beating import Heart
from control_plane.places.items import FifoAppends, Heartbeat, StoredPlacement
from control_plane.places.stored import PlaceMap
from tests.drills.planted.faults import FAULTS

GRACE_US: Final = 8_000_000
MAP_AGE_US_MAX: Final = 5_000_000
AGAIN_US: Final = 1_000_000
IDLE_US: Final = 3_000_000
"""How often a manager looks for what changes without a sign, as a queue that is to be split."""

SAFE_US: Final = 5_000_000
HURRIED: Final = Options(
    back_after_us=2_000_000,
    grace_us=GRACE_US,
    safe_us=SAFE_US,
    joins_max=64,
    split_period_us=0,
)

ALONE: Final = "alone"
_ALONE_GRACE_US: Final = 3_000_000
_ALONE_MAP_AGE_US_MAX: Final = 2_000_000

OLD_MAP: Final = "old-map"
"""While there is such a file, the server does not hear that a group has lost a member."""

NO_MANAGER: Final = "no-manager"
"""While there is such a file, the server's manager begins nothing."""

DIES_AFTER: Final = "dies-after"
"""The steps after which the manager is cut off, a line each: once each."""

STEPS: Final = ("observe", "plan", "take_out", "verify")

LOADS: Final = "loads"
"""While there is such a file, heartbeats tell of the sends to FIFO queues that it says, in JSON,
and of no others. So the manager is asked for a split, however little the machine gets done."""


def hurry(*, is_alone: bool) -> None:
    """Make the waits of the cluster manager short."""
    options = structs.replace(HURRIED, grace_us=_ALONE_GRACE_US) if is_alone else HURRIED
    cached.MAP_AGE_US_MAX = _ALONE_MAP_AGE_US_MAX if is_alone else MAP_AGE_US_MAX  # type: ignore[misc]
    running.AGAIN_US = AGAIN_US  # type: ignore[misc]
    running.IDLE_US = IDLE_US  # type: ignore[misc]
    running.Options = lambda **_: options  # type: ignore[assignment,attr-defined]


def keep_old_maps(folder: Path) -> None:
    """Let the front end keep the map of just before a group lost a member."""
    refresh, note = cached.CachedMap.refresh, cached.CachedMap.note

    async def refresh_at_times(self: cached.CachedMap) -> bool:
        if not (folder / OLD_MAP).exists():
            return await refresh(self)
        fresh = await self._read()
        return not _has_losses(self._map, fresh) and self.take(fresh)

    def note_at_times(self: cached.CachedMap, stored: StoredPlacement) -> None:
        if not (folder / OLD_MAP).exists():
            note(self, stored)

    cached.CachedMap.refresh = refresh_at_times  # type: ignore[method-assign]
    cached.CachedMap.note = note_at_times  # type: ignore[method-assign]


def _has_losses(before: PlaceMap, after: PlaceMap) -> bool:
    return any(
        group in after.placements
        and not all(map(after.placements[group].placement.has, held.placement.members))
        for group, held in before.placements.items()
    )


def kill_managers(folder: Path) -> None:
    """Cut off all executions where DIES_AFTER says so, before they hear what came of the step."""
    step, perform = running.Running.step, running.Running._perform

    async def step_at_times(self: running.Running) -> None:
        if not (folder / NO_MANAGER).exists():
            await step(self)

    async def perform_and_die(
        self: running.Running, execution: asyncio.Task[Any] | None, event: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        result = await perform(self, execution, event)
        task = event["task"]
        name = task if isinstance(task, str) else str(task["act"])
        dies_after = folder / DIES_AFTER
        left = dies_after.read_text().split() if dies_after.exists() else []
        if left and left[0] == name:
            dies_after.write_text("\n".join(left[1:]))
            for one in list(self._under_way):
                one.cancel()
            self._begin_again()
        return result

    running.Running.step = step_at_times  # type: ignore[method-assign]
    running.Running._perform = perform_and_die  # type: ignore[method-assign]


def tell_loads(folder: Path) -> None:
    """Let heartbeats tell what LOADS says."""
    beat = Heart.beat

    def beat_as_told(self: Heart) -> Heartbeat:
        seen, loads = beat(self), folder / LOADS
        if not loads.exists():
            return seen
        told = tuple(FifoAppends(*load) for load in json.loads(loads.read_bytes()))
        return replace(seen, appends=told)

    Heart.beat = beat_as_told  # type: ignore[method-assign]


if __name__ == "__main__":
    at = sys.argv.index("-m")
    place, *faults = sys.argv[1:at]
    module, *arguments = sys.argv[at + 1 :]
    for fault in faults:
        if fault != ALONE:
            FAULTS[fault].plant()
    hurry(is_alone=ALONE in faults)
    keep_old_maps(Path(place))
    kill_managers(Path(place))
    tell_loads(Path(place))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
