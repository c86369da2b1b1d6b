"""Several cells on DynamoDB: tables in regions or engines of their own, with copies of queues.

The registry, and bodies that are too big for items, stay with the first table, that of `--table`:
a registry on DynamoDB has copies by itself (docs/storage.md).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from control_plane.cells import PROBE, OpenedCell, StartError, open_cell, open_further_table
from control_plane.places.group_bodies import BodiesOfGroups, SegmentsOfGroups
from control_plane.places.items import DYNAMODB, CellRecord, cell_key, decode_cell
from control_plane.places.watching import WatchedCell
from control_plane.together import Together
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy, Waits
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import FurtherTable, ServerSettings

GRACE_US: Final = 600_000_000
"""60 s that a map may be kept, 5 minutes that DynamoDB takes a signed request, and for clocks."""

CELL_DEADLINE_S_MAX: Final = 2.0
"""A request is not repeated for longer: another cell may take over meanwhile."""

LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableCell:
    """A table of several, as a server serves it."""

    opened: OpenedCell
    address: Mapping[str, str]
    reason: str = field(default="", init=False)

    @property
    def name(self) -> str:
        """Its name, in placements and on the command line."""
        return self.opened.name

    @property
    def where(self) -> str:
        """Table, endpoint and region."""
        address = self.address
        at = f" at {address['endpoint']}" if address["endpoint"] else ""
        return f"{address['table']}{at} in {address['region']}"

    @property
    def plain(self) -> Cell:
        """The cell itself."""
        return self.opened.cell

    def watched(self) -> WatchedCell:
        """As a watch sees it: by connections of the control plane, which wait for no messages."""
        return WatchedCell(
            lambda: self.opened.control.get(PROBE),
            lambda: 0,
            self.opened.is_full,
            self.opened.requests,
        )

    async def upkeep(self, now_us: int) -> None:
        """A bounded step, due every second. Raises CellUnavailableError."""
        await self.opened.upkeep(now_us)

    def gauges(self) -> Mapping[str, float]:
        """The cell's metrics."""
        return self.opened.gauges()

    async def close(self) -> None:
        """Write what is pending, and end what waits for the table."""
        await self.opened.close()


class SeveralTables(Together):
    """The tables of a server, of which the first one has the registry."""

    grace_us = GRACE_US
    forgets = False

    def __init__(
        self,
        tables: Mapping[str, TableCell],
        first: OpenedCell,
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
    ) -> None:
        plain = {name: table.plain for name, table in tables.items()}
        super().__init__(
            lambda _members: (first.control, first.control), None, plain, clock, entropy, waits
        )
        for table in tables.values():
            self._serve(table)
        self._tables = tables
        self.guards = tuple(guard for table in tables.values() for guard in table.opened.guards)
        if first.bodies is None:
            raise ValueError(f"cell {first.name} has no place for bodies")
        self._store = first.bodies
        self.bodies = BodiesOfGroups(first.name, first.bodies)
        self._segments = SegmentsOfGroups(
            self.known, self.known.try_refresh, self.placing, self.fifo, first.cell
        )

    def _records(self) -> list[CellRecord]:
        return [self._record(name, DYNAMODB, table.address) for name, table in self._tables.items()]

    async def sweep_bodies(self) -> None:
        """One bounded step of letting go of bodies apart. Raises CellUnavailableError."""
        await self._store.sweep(self._segments, self._waits, self._clock.now_us())


async def open_tables(settings: ServerSettings, clock: Clock, entropy: Entropy) -> SeveralTables:
    """The tables that the settings name. Raises StartError.

    The first one has to answer, and those that are new. Others that do not are failing cells.
    """
    patience_s = min(settings.cell_deadline_s, CELL_DEADLINE_S_MAX)
    settings = replace(settings, cell_deadline_s=patience_s)
    first = await open_cell(settings, clock)
    own = FurtherTable(first.name, settings.region, settings.endpoint, settings.table)
    opened = {first.name: first}
    try:
        for further in settings.further_tables:
            known = await first.control.get(cell_key(further.name))
            if known is not None:
                _check_same(further, decode_cell(further.name, known))
            opened[further.name] = await open_further_table(
                settings, further, clock, is_new=known is None
            )
    except (StartError, CellUnavailableError) as error:
        for cell in opened.values():
            await cell.close()
        if isinstance(error, StartError):
            raise
        raise StartError(f"table: the registry does not answer: {error}") from error
    tables = {
        one.name: TableCell(
            opened[one.name], {"endpoint": one.endpoint, "region": one.region, "table": one.table}
        )
        for one in (own, *settings.further_tables)
    }
    several = SeveralTables(tables, first, clock, entropy, EventLoopWaits(clock))
    try:
        await several.make_missing()
    except CellUnavailableError as error:
        await several.close()
        raise StartError(f"table: the registry does not answer: {error}") from error
    return several


def _check_same(further: FurtherTable, known: CellRecord) -> None:
    """Refuse a table that is not the one which other front ends have under this name.

    Endpoints may differ: of one table there may be several. Raises StartError.
    """
    region, table = known.address.get("region"), known.address.get("table")
    if (further.region, further.table) != (region, table):
        raise StartError(
            f"cells-dynamodb: {further.name} is the table {table} in {region}, as the registry"
            f" has it, and not {further.table} in {further.region}"
        )
