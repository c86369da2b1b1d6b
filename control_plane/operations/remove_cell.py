"""TidegateRemoveCell: a service parts with a cell that has nothing any more."""

from typing import Final

from control_plane.cell_shapes import REMOVE_CELL_INPUT
from control_plane.operations.cell_administration import CellAdministration
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.shapes import Structure

NAME: Final = "TidegateRemoveCell"


def remove_cell(cells: CellAdministration) -> Operation:
    """For the operator."""

    async def perform(call: Call) -> Params:
        cell: str = call.params["CellName"]
        lose = bool(call.params.get("LoseMessages"))
        await cells.ask(call, NAME, lambda control: control.remove(cell, lose_messages=lose))
        cells.note(call, NAME, cell)
        return {}

    return Operation(NAME, REMOVE_CELL_INPUT, Structure(), perform, on_queue=False)
