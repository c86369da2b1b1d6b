"""An embedded cell for a test, on a store that grows in small steps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.store import StoreSizes
from tests.conformance.cell_suite import ManualClock

MIB = 1024 * 1024
SMALL = StoreSizes(growth=8 * MIB, reserve=2 * MIB, batch=4 * MIB)


@asynccontextmanager
async def embedded(
    directory: Path, clock: ManualClock, sizes: StoreSizes = SMALL
) -> AsyncIterator[EmbeddedCell]:
    cell = EmbeddedCell(directory, clock, sizes)
    try:
        yield cell
    finally:
        await cell.close()
