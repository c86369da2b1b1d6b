"""Asking a cell for an item that it has not got, to see whether it answers."""

from typing import Final

from control_plane.cluster.cluster import Cluster
from data_plane.core.deadline import deadline
from data_plane.ports import CellUnavailableError, Key

PROBE: Final = Key("health", b"\0")
PROBE_US_MAX: Final = 1_000_000
"""A cell that takes longer does not answer."""


async def ask(cluster: Cluster, name: str) -> None:
    """Raise CellUnavailableError for a cell that does not answer, or is not known here."""
    if name not in cluster.cells:
        raise CellUnavailableError(f"this process knows nothing of {name}")
    with deadline(cluster.clock.now_us() + PROBE_US_MAX):
        await cluster.cells[name].get(PROBE)
