"""Asking a cell for an item that it has not got, to see whether it answers."""

from control_plane.cluster.cluster import Cluster
from control_plane.places.watching import PROBE, PROBE_US_MAX
from data_plane.core.deadline import deadline
from data_plane.ports import CellUnavailableError


async def ask(cluster: Cluster, name: str) -> None:
    """Raise CellUnavailableError for a cell that does not answer, or is not known here."""
    if cluster.ask is not None:
        await cluster.ask(name)
        return
    if name not in cluster.cells:
        raise CellUnavailableError(f"this process knows nothing of {name}")
    with deadline(cluster.clock.now_us() + PROBE_US_MAX):
        await cluster.cells[name].get(PROBE)
