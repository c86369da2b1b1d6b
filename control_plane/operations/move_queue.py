"""TidegateMoveQueue: a queue moves to other cells alone, without the others of its group."""

from typing import Final

from control_plane.cell_shapes import MOVE_QUEUE_INPUT, MOVE_QUEUE_OUTPUT
from control_plane.operations.cell_administration import CellAdministration
from control_plane.places.report import CellsControl
from control_plane.registry import Registry
from data_plane.core.errors import (
    UNSUPPORTED_OPERATION,
    RefusedError,
    queue_does_not_exist,
)
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateMoveQueue"


def move_queue(cells: CellAdministration, registry: Registry) -> Operation:
    """For the operator, who may name the account."""

    async def perform(call: Call) -> Params:
        name, to = call.params["QueueName"], call.params["CellNames"]

        async def move(control: CellsControl) -> str:
            account = cells.administration.account_of(call, NAME)
            definition = await registry.read(account, call.region, name)
            if definition is None:
                raise queue_does_not_exist()
            if definition.stream_uid:
                raise RefusedError(
                    UNSUPPORTED_OPERATION, f"{name} reads a stream, and lies where that does."
                )
            return await control.move_queue(definition.cell, definition.uid, to)

        group = await cells.ask(call, NAME, move)
        cells.note(call, NAME, ",".join(to))
        return {"GroupName": group}

    return Operation(NAME, MOVE_QUEUE_INPUT, MOVE_QUEUE_OUTPUT, perform, on_queue=False)
