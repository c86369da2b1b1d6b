"""The operations on cells that a front end serves."""

from control_plane.operations.add_cell import add_cell
from control_plane.operations.cell_administration import CellAdministration
from control_plane.operations.drain_cell import drain_cell
from control_plane.operations.fail_cell import fail_cell
from control_plane.operations.list_cells import list_cells
from control_plane.operations.move_queue import move_queue
from control_plane.operations.remove_cell import remove_cell
from control_plane.operations.restore_cell import restore_cell
from control_plane.registry import Registry
from data_plane.protocol.operation import Operation


def cell_operations(cells: CellAdministration, registry: Registry) -> tuple[Operation, ...]:
    """All operations on cells."""
    return (
        list_cells(cells),
        add_cell(cells),
        drain_cell(cells),
        remove_cell(cells),
        fail_cell(cells),
        restore_cell(cells),
        move_queue(cells, registry),
    )
