"""Several cells of one service in this process: groups of copies, whose placements stay."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import Members, fifo_cells, standard_cells
from control_plane.places.items import CellRecord
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import Places
from control_plane.service import ServicePorts
from data_plane.ports import Cell

Run = Callable[[Coroutine[Any, Any, object]], object]


def over_several(ground: ServicePorts, cells: Mapping[str, Cell], run: Run) -> ServicePorts:
    """The same service with its messages and records in groups of these cells."""
    places = Places(ground.control, ground.clock, ground.entropy)
    for name in cells:
        run(places.put_cell(CellRecord(name, "memory", {})))
    run(places.make_missing(sorted(cells)))
    known = CachedMap(places.read_all, ground.clock)
    run(known.refresh())
    members = Members(cells, known, ground.clock, ground.waits)
    return replace(
        ground,
        cells=standard_cells(members),
        fifo_cells=fifo_cells(members),
        placing=GroupPlacing(ground.control, lambda: len(cells)),
    )
