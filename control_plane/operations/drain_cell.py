"""TidegateDrainCell: everything moves away from a cell, which stays in use until then."""

from typing import Final

from control_plane.operations.cell_administration import CellAdministration, on_one_cell
from data_plane.protocol.operation import Operation

NAME: Final = "TidegateDrainCell"


def drain_cell(cells: CellAdministration) -> Operation:
    """For the operator."""
    return on_one_cell(NAME, cells, lambda control, cell: control.drain(cell))
