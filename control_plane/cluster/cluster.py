"""What observing and acting work with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from control_plane.cluster.observation import Options
from control_plane.places.cached import CachedMap
from control_plane.places.items import Heartbeat
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import Places
from control_plane.registry import Registry
from data_plane.ports import Cell, Clock, Waits


@dataclass(frozen=True, slots=True)
class Cluster:
    """The registry's parts, the plain cells by their names, and who looks at them.

    `ask` raises CellUnavailableError for a cell that does not answer, where it takes more than a
    read to see that. `beat` is what this process sees itself, where it is a front end that stays;
    `known` the map that it goes by, where the registry does not answer. `registry_partitions` names
    what a copy of the registry consists of, where that lies on a chain.
    """

    places: Places
    placing: GroupPlacing
    registry: Registry
    cells: Mapping[str, Cell]
    clock: Clock
    waits: Waits
    options: Options
    ask: Callable[[str], Awaitable[None]] | None = None
    beat: Callable[[], Heartbeat | None] = lambda: None
    known: CachedMap | None = None
    registry_partitions: Callable[[], Awaitable[Sequence[str]]] | None = None
