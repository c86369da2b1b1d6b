"""TidegateFailCell: an embedded cell answers nothing until it is restored, as a drill."""

from typing import Final

from control_plane.operations.cell_administration import CellAdministration, on_one_cell
from data_plane.protocol.operation import Operation

NAME: Final = "TidegateFailCell"


def fail_cell(cells: CellAdministration) -> Operation:
    """For the operator."""
    return on_one_cell(NAME, cells, lambda control, cell: control.fail(cell))
