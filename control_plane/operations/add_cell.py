"""TidegateAddCell: another embedded cell, in a directory of the server's machine."""

from typing import Final

from control_plane.cell_shapes import ADD_CELL_INPUT, ADD_CELL_OUTPUT
from control_plane.operations.cell_administration import CellAdministration
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateAddCell"

_PATH_CHARS_MAX: Final = 1024


def add_cell(cells: CellAdministration) -> Operation:
    """For the operator."""

    async def perform(call: Call) -> Params:
        path: str = call.params["Path"]
        if not 0 < len(path) <= _PATH_CHARS_MAX or not path.isprintable():
            raise RefusedError(INVALID_PARAMETER_VALUE, "Path is no directory's name.")
        name = await cells.ask(call, NAME, lambda control: control.add(path))
        cells.note(call, NAME, name)
        return {"CellName": name}

    return Operation(NAME, ADD_CELL_INPUT, ADD_CELL_OUTPUT, perform, on_queue=False)
