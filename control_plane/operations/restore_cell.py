"""TidegateRestoreCell: a cell that was failed or drained takes part again."""

from typing import Final

from control_plane.operations.cell_administration import CellAdministration, on_one_cell
from data_plane.protocol.operation import Operation

NAME: Final = "TidegateRestoreCell"


def restore_cell(cells: CellAdministration) -> Operation:
    """For the operator."""
    return on_one_cell(NAME, cells, lambda control, cell: control.restore(cell))
