"""The cell that the settings name, opened: the one place that knows which kinds there are."""

from control_plane.cells import OpenedCell, open_embedded_cell
from data_plane.ports import Clock
from data_plane.settings import ServerSettings


async def open_cell(settings: ServerSettings, clock: Clock) -> OpenedCell:
    """Open it in the running event loop. Raises StartError."""
    if settings.cell == "embedded":
        return await open_embedded_cell(settings, clock)
    # An embedded cell starts without AWS's SDK, which is slow to load.
    from control_plane.table_cells import open_table_cell  # noqa: PLC0415 - as above

    return await open_table_cell(settings, clock)
