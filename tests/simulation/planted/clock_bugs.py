"""Bugs planted into what a service takes for the time."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from control_plane.service_clock import StoreClock
from data_plane.core.cell_clock import CellClock
from data_plane.core.eras import Eras
from data_plane.dynamodb.store_time import StoreTime
from tests.simulation.clock.universe import run
from tests.simulation.planted import PlantedBug
from tests.simulation.planted.bugs import DELIVERED
from tests.simulation.universe import run_on_machines

KNOWN: Final = frozenset({"the tables' time is known"})
PASSES: Final = frozenset({"time passes as it should"})

MachineBug: Final = partial(PlantedBug, run=run_on_machines)
ClockBug: Final = partial(PlantedBug, run=run)

_begin = StoreTime.__init__


def _machines_time(clock: StoreClock) -> int:
    """A front end goes by its machine's clock, as if that were the table's."""
    cell: Any = clock._cell
    machine_us: int = cell._process.machine_us()
    return machine_us


def _clock_is_believed(time: StoreTime) -> int:
    return time._clock.now_us()


def _bounds_of_the_wall_clock(time: StoreTime, clock: Any, _running: Callable[[], int]) -> None:
    """What answers said is held against a clock that may be set meanwhile."""
    _begin(time, clock, clock.now_us)


def _stamps_are_the_time(_eras: Eras, from_us: int, to_us: int) -> int:
    return to_us - from_us


def _leads_are_forgotten(eras: Eras, _lead_us: int) -> Eras:
    return eras


MACHINE_BUGS: Final = (
    MachineBug(
        "a front end goes by its machine's clock",
        PASSES,
        ((StoreClock, "now_us", _machines_time),),
    ),
    MachineBug(
        "the machine's clock is taken for the table's",
        KNOWN,
        ((StoreTime, "now_us", _clock_is_believed),),
    ),
    MachineBug(
        "bounds of a table's time move with the machine's clock",
        KNOWN,
        ((StoreTime, "__init__", _bounds_of_the_wall_clock),),
    ),
)

CELL_TIME_BUGS: Final = (
    ClockBug(
        "ages are counted by stamps",
        DELIVERED,
        ((Eras, "between_us", _stamps_are_the_time),),
        first=26,
    ),
    ClockBug(
        "nobody notes by how much the clock was set",
        frozenset({"times are the world's"}),
        ((Eras, "with_lead", _leads_are_forgotten),),
        first=10,
    ),
    ClockBug(
        "what seems to be expired is removed at once",
        DELIVERED,
        ((CellClock, "removable_us", CellClock.now_us),),
        first=9,
    ),
)
