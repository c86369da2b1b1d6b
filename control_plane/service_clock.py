"""The time that a server goes by: its cells', which no setting of the machine's clock moves.

Embedded cells keep cell time (docs/adr/0019-cell-time.md). Tables have clocks of their own, which
their answers tell. The machine's clock judges signatures and dates log lines, nothing else.
"""

import logging
from collections.abc import Mapping
from typing import Final

from control_plane.cells import OpenedCell
from data_plane.core.cell_clock import CellClock, ClockStep
from data_plane.ports import Cell, Clock
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, running_us

_DYNAMODB: Final = "dynamodb"

LOG: Final = logging.getLogger(__name__)


class StoreClock:
    """Implements the port Clock: the time of a store, within a second of its own clock."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return self._cell.now_us()


def clock_to_open_with(settings: ServerSettings) -> Clock:
    """The clock with which the cells that the settings name are opened."""
    if settings.cell == _DYNAMODB or settings.cells_dynamodb:
        return SystemClock()
    return CellClock(SystemClock().now_us, running_us, log_step)


def clock_of(clock: Clock, opened: OpenedCell) -> Clock:
    """The clock of a server on these cells, which were opened with `clock`."""
    return clock if isinstance(clock, CellClock) else StoreClock(opened.cell)


def log_step(step: ClockStep) -> None:
    """Say in one line that the machine's clock was set."""
    by_s = step.by_us / 1_000_000
    if step.cell:
        LOG.warning(
            "the machine's clock is %.0f s behind the latest stamp in %s: it was ahead then, or is"
            " behind now; messages go on by real time",
            *(-by_s, step.cell),
        )
    elif by_s < 0:
        LOG.warning(
            "the machine's clock was set back by %.0f s; messages go on by real time", -by_s
        )
    else:
        LOG.warning(
            "the machine's clock was set ahead by %.0f s; messages go on by real time, and expire"
            " by this clock once it has stayed so",
            by_s,
        )


def describe(clock: Clock) -> str:
    """What /health says of the machine's clock: "ok", or what is wrong with it."""
    return clock.describe() if isinstance(clock, CellClock) else "ok"


def world_ms(clock: Clock) -> int:
    """The world's time, by this clock, in milliseconds."""
    return (clock.shown_us if isinstance(clock, CellClock) else clock.now_us()) // 1000


def clock_gauges(clock: Clock) -> Mapping[str, float]:
    """Metrics of a cell's time: by how much it is ahead of the machine's clock, and its steps."""
    if not isinstance(clock, CellClock):
        return {}
    return {"clock_lead_seconds": clock.lead_us / 1_000_000, "clock_steps_total": clock.steps}
