"""What front ends that stay tell managers: the shipped probes and heartbeats."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from control_plane.places.beating import Heart
from control_plane.places.cached import CachedMap
from control_plane.places.items import Heartbeat
from control_plane.places.watching import CellWatch, WatchedCell, probe_by_write
from data_plane.ports import CellUnavailableError
from data_plane.replication.fanout import Fanout
from tests.simulation.faulty_cell import FaultyCell
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.replicated.world import ReplicatedWorld

WATCH_EVERY_US: Final = 1_500_000
BEAT_EVERY_US: Final = 2_000_000


def heart_of(
    world: "ReplicatedWorld",
    process: Process,
    cells: Mapping[str, FaultyCell],
    known: CachedMap,
    fanouts: Callable[[], Mapping[str, Fanout]] = dict,
) -> Heart:
    """The heart of a process that watches these cells from now on."""
    watched = {
        name: WatchedCell(
            probe=partial(probe_by_write, cell, process),
            used_bytes=lambda: 0,
            is_full=partial(world.is_full, name),
            requests=lambda: 0,
        )
        for name, cell in cells.items()
    }
    watch = CellWatch(watched, process)
    heart = Heart(process.name, watch, known, process, fanouts)
    process.start(_watch(world, process, watch))
    return heart


async def _watch(world: "ReplicatedWorld", process: Process, watch: CellWatch) -> None:
    while not world.quiet_since_us:
        for name in watch.idle():
            process.start(watch.probe(name))
        watch.look()
        await world.scheduler.pause(WATCH_EVERY_US)


async def beat(
    world: "ReplicatedWorld", heart: Heart, tell: Callable[[Heartbeat], Awaitable[None]]
) -> None:
    """Tell managers what the process sees, until nothing changes any more."""
    while not world.quiet_since_us:
        try:
            await tell(heart.beat())
        except CellUnavailableError as error:
            world.note(f"{heart.front_end} is not heard: {error}")
        await world.scheduler.pause(BEAT_EVERY_US)
