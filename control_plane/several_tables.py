"""Several cells on DynamoDB: tables in regions or engines of their own, with copies of queues.

The registry, and bodies that are too big for items, stay with the first table, that of `--table`:
a registry on DynamoDB has copies by itself (docs/storage.md).
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from control_plane.cells import BlockedStartError, OpenedCell, StartError
from control_plane.core.identity import Standing
from control_plane.core.item_field import UnknownItemFormatError
from control_plane.places.group_bodies import BodiesOfGroups, SegmentsOfGroups
from control_plane.places.items import DYNAMODB, REMOVED, CellRecord, cell_key, decode_cell
from control_plane.places.report import CellCommandError
from control_plane.places.stored import by_what_is_now
from control_plane.places.tables import Tables, TablesRefusedError, read_identity
from control_plane.places.watching import PROBE, WatchedCell
from control_plane.table_cells import (
    TableTime,
    check_connects,
    open_further_table,
    open_table_cell,
)
from control_plane.together import Together
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy, Waits
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import FurtherTable, ServerSettings

GRACE_US: Final = 600_000_000
"""60 s that a map may be kept, 5 minutes that DynamoDB takes a signed request, and for clocks."""

CELL_DEADLINE_S_MAX: Final = 2.0
"""A request is not repeated for longer: another cell may take over meanwhile."""

LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class TableCell:
    """A table of several, as a server serves it.

    It fails where it says another service than this, or is older than `incarnation`.
    """

    opened: OpenedCell
    address: Mapping[str, str]
    reason: str = field(default="", init=False)
    inode: int = field(default=0, init=False)
    service: str = ""
    incarnation: int = 0

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
            self._probe,
            lambda: 0,
            self.opened.is_full,
            self.opened.requests,
        )

    async def _probe(self) -> None:
        """Look whether it answers, and still is this table. Raises CellUnavailableError."""
        if not self.incarnation:
            await self.opened.control.get(PROBE)
            return
        own = await read_identity(self.opened.control)
        is_same = own is not None and own.service == self.service
        if own is None or not is_same or own.incarnation < self.incarnation:
            raise CellUnavailableError(f"the table {self.name} is not as it was: it was put back")

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
        self.tables = tables
        self.first = first.name
        self.guards = tuple(guard for table in tables.values() for guard in table.opened.guards)
        if first.bodies is None:
            raise ValueError(f"cell {first.name} has no place for bodies")
        self._store = first.bodies
        self.bodies = BodiesOfGroups(first.name, first.bodies)
        self._segments = SegmentsOfGroups(
            self.known, self.known.try_refresh, self.placing, self.fifo, first.cell
        )

    def _records(self) -> list[CellRecord]:
        return [self._record(name, DYNAMODB, table.address) for name, table in self.tables.items()]

    def _gives_up(self, name: str) -> str:
        return f"--give-up {name}"  # the start is refused

    async def sweep_bodies(self) -> None:
        """One bounded step of letting go of bodies apart. Raises CellUnavailableError."""
        await self._store.sweep(self._segments, self._waits, self._clock.now_us())


async def open_tables(settings: ServerSettings, clock: Clock, entropy: Entropy) -> SeveralTables:
    """The tables that the settings name. Raises StartError.

    The first one has to answer, and those that are new. Others that do not are failing cells.
    """
    patience_s = min(settings.cell_deadline_s, CELL_DEADLINE_S_MAX)
    settings = replace(settings, cell_deadline_s=patience_s)
    given_up = settings.cells_given_up
    furthers = [one for one in settings.further_tables if one.name not in given_up]
    for further in furthers:  # before the first table is made
        check_connects(further)
    first = await open_table_cell(settings, clock)
    clock = TableTime(clock, first.cell)
    own = FurtherTable(first.name, settings.region, settings.endpoint, settings.table)
    opened = {first.name: first}
    try:
        for further in furthers:
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
        raise BlockedStartError(f"table: the registry does not answer: {error}") from error
    tables = {
        one.name: TableCell(
            opened[one.name], {"endpoint": one.endpoint, "region": one.region, "table": one.table}
        )
        for one in (own, *furthers)
    }
    waits = EventLoopWaits(clock)
    several = SeveralTables(tables, first, clock, entropy, waits)
    identities = Tables(first.name, first.control, clock, entropy, waits)
    try:
        await _put_together(several, identities, given_up)
    except (CellCommandError, TablesRefusedError, UnknownItemFormatError) as error:
        await several.close()
        raise BlockedStartError(f"cells: {error}") from error
    except CellUnavailableError as error:
        await several.close()
        raise BlockedStartError(f"table: the registry does not answer: {error}") from error
    return several


async def _put_together(several: SeveralTables, tables: Tables, given_up: Collection[str]) -> None:
    """Find out which tables are current, and let those that are not join anew.

    Raises CellCommandError, TablesRefusedError, CellUnavailableError, UnknownItemFormatError.
    """
    further = {name: one for name, one in several.tables.items() if name != several.first}
    verdict = await tables.judge({name: one.opened.control for name, one in further.items()})
    await several.make_missing()
    for name in given_up:
        known = several.known.cells.get(name)
        if known is not None and known.state != REMOVED:  # by another server of the same options
            await by_what_is_now(partial(several.give_up, name))
    for name in verdict.lost:
        try:
            await by_what_is_now(partial(several.parting.leave_groups, name, verdict.lost))
        except CellCommandError as error:
            raise CellCommandError(f"{verdict.cells[name]}, and {error}") from error
        LOG.warning("cells: %s: it is filled from the others", verdict.cells[name])
    failed = verdict.of(Standing.FAILED)
    answering = {name: one.opened.control for name, one in further.items() if name not in failed}
    await tables.advance(answering)
    for name, one in further.items():
        one.service, one.incarnation = tables.known.service, tables.known.known.get(name, 0)
    await several.known.refresh()


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
