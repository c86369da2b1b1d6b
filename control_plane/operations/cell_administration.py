"""Who may administer the cells of a service, and what is refused where there is one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from control_plane.cell_shapes import CELL_INPUT
from control_plane.operations.administration import Administration
from control_plane.places.report import CellCommandError, CellsControl
from control_plane.places.stored import by_what_is_now
from data_plane.core.errors import INVALID_PARAMETER_VALUE, UNSUPPORTED_OPERATION, RefusedError
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.shapes import Structure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CellAdministration:
    """The cells (None: the service has one), and the rules for those who change them."""

    administration: Administration
    cells: CellsControl | None

    async def ask(self, call: Call, act: str, wanted: Callable[[CellsControl], Awaitable[T]]) -> T:
        """What `wanted` answers, if the operator calls.

        Raises RefusedError: AccessDenied, UnsupportedOperation where there is one cell,
        InvalidParameterValue where that cannot be done now. And CellUnavailableError.
        """
        self.administration.check_operator(call, act)
        if self.cells is None:
            raise RefusedError(UNSUPPORTED_OPERATION, "This service has one cell.")
        control = self.cells
        try:
            # Where the manager was faster, what is still to be done is done by what is now.
            return await by_what_is_now(lambda: wanted(control))
        except CellCommandError as error:
            raise RefusedError(INVALID_PARAMETER_VALUE, f"{error}.") from error

    def note(self, call: Call, act: str, cell: str) -> None:
        """Log what was done."""
        self.administration.note(call, act, "", cell=cell)


def on_one_cell(
    name: str, cells: CellAdministration, act: Callable[[CellsControl, str], Awaitable[None]]
) -> Operation:
    """An operation of this name that does something to the cell that its caller names."""

    async def perform(call: Call) -> Params:
        cell: str = call.params["CellName"]
        await cells.ask(call, name, lambda control: act(control, cell))
        cells.note(call, name, cell)
        return {}

    return Operation(name, CELL_INPUT, Structure(), perform, on_queue=False)
