"""TidegateRemoveCell: a service parts with a cell that has nothing any more."""

from typing import Final

from control_plane.operations.cell_administration import CellAdministration, on_one_cell
from data_plane.protocol.operation import Operation

NAME: Final = "TidegateRemoveCell"


def remove_cell(cells: CellAdministration) -> Operation:
    """For the operator."""
    return on_one_cell(NAME, cells, lambda control, cell: control.remove(cell))
