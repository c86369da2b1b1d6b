"""Cells in DynamoDB tables, opened.

Whoever imports this loads AWS's SDK, which is slow: embedded cells start without it.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from control_plane.bodies import open_bodies
from control_plane.cells import (
    OF_DEFINITIONS,
    BlockedStartError,
    OpenedCell,
    StartError,
    log_circuit,
)
from control_plane.core.item_field import UnknownItemFormatError
from control_plane.places.tables import TablesRefusedError, check_told, why_no_registry
from control_plane.places.watching import PROBE
from data_plane.blobs.place import BlobsOpenError
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import OpenError, connect, connect_both, open_table
from data_plane.ports import Cell, CellUnavailableError, Clock
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from data_plane.settings import FurtherTable, ServerSettings
from data_plane.stored.bodies import BodyStore
from data_plane.system import SystemEntropy

_FLUSH_PERIOD_US: Final = 10_000_000
"""Counters are written so often: what comes and goes within it costs no write."""

_CONTROL_CONNECTIONS: Final = 8
"""Of the control plane alone, beside those for messages: neither use can keep the other waiting."""

_PROBES: Final = 2
"""Connections of probes to a table that has no control plane: they wait behind no message."""

_OF_FURTHER: Final = ("messages", "probes")
_DYNAMODB_OPERATIONS: Final = (
    *("put_item", "update_item", "delete_item", "get_item", "query"),
    *("batch_get_item", "batch_write_item"),
)

LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class TableTime:
    """A table's time, once an answer has told it; until then the machine's.

    Deadlines are set by it, as all is that a server does (service_clock.py).
    """

    machine: Clock
    cell: Cell | None = None

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return self.machine.now_us() if self.cell is None else self.cell.now_us()


async def open_table_cell(settings: ServerSettings, clock: Clock) -> OpenedCell:
    """The one that has the control plane too, in the running event loop. Raises StartError."""
    endpoint, region, table = settings.endpoint, settings.region, settings.table
    name = settings.own_cell
    try:
        open_table(endpoint, region, table)
        client, patient = connect_both(
            endpoint, region, connections_max=settings.connections + _CONTROL_CONNECTIONS
        )
    except OpenError as error:
        raise BlockedStartError(str(error)) from error
    patience_s = settings.cell_deadline_s
    guards = tuple(
        Guard(table + use, clock, log_circuit) for use in ("/messages", OF_DEFINITIONS, "/bodies")
    )
    for_messages, for_definitions, for_bodies = guards
    time = TableTime(clock)
    offload = EventLoopOffload(settings.connections, time, for_messages, patience_s=patience_s)
    control_offload = EventLoopOffload(
        _CONTROL_CONNECTIONS, time, for_definitions, patience_s=patience_s
    )
    ports = (client, table, clock, offload)
    cell = time.cell = DynamoCell(
        *ports, deadline_s=patience_s, report_units=True, patient=patient, deadlines=time
    )
    control = cell.through(control_offload)

    def close_offloads() -> None:
        offload.close()
        control_offload.close()

    try:
        # The store's time is known from its first answer on.
        await cell.get(PROBE)
        await _check_tables(settings, cell, clock)
        bodies = await open_bodies(settings, name, cell, time, SystemEntropy(), for_bodies)
    except CellUnavailableError as error:
        close_offloads()
        raise BlockedStartError(f"table: cannot read {table!r}: {error}") from error
    except BlobsOpenError as error:
        close_offloads()
        kind = BlockedStartError if "://" in settings.blobs else StartError
        raise kind(str(error)) from error
    except StartError:
        close_offloads()
        raise

    async def close() -> None:
        bodies.close()
        await _flush_last(cell)
        close_offloads()
        client.close()
        patient.close()

    return OpenedCell(
        name=name,
        where=f"data in the DynamoDB table {table} at {client.meta.endpoint_url}, {bodies.where}",
        cell=cell,
        control=control,
        forgets=False,
        upkeep=_flushing(cell),
        is_full=lambda: False,
        gauges=lambda: _dynamodb_gauges(cell, bodies.store),
        close=close,
        bodies=bodies.store,
        guards=guards,
        requests=cell.counters.requests.total,
    )


async def _check_tables(settings: ServerSettings, cell: Cell, clock: Clock) -> None:
    """Raise StartError where the table has no registry of its own, or queues lie in others, too.

    Raises CellUnavailableError.
    """
    named = {settings.own_cell, *(one.name for one in settings.further_tables)}
    try:
        if reason := await why_no_registry(cell, settings.table):
            raise StartError(f"table: {reason}")
        await check_told(cell, named | settings.cells_given_up, clock, SystemEntropy())
    except TablesRefusedError as error:
        raise StartError(f"cells-dynamodb: {error}") from error
    except UnknownItemFormatError as error:
        raise BlockedStartError(f"cells: {error}") from error


def check_connects(further: FurtherTable) -> None:
    """Raise StartError where a client of the table cannot even be made, as without credentials."""
    try:
        connect(further.endpoint, further.region, connections_max=1).close()
    except OpenError as error:
        raise BlockedStartError(f"cells-dynamodb: {further.name}: {error.reason}") from error


async def open_further_table(
    settings: ServerSettings, further: FurtherTable, clock: Clock, *, is_new: bool
) -> OpenedCell:
    """A cell beside the first one, with messages alone; one that does not answer may do later.

    The table is made where the cell `is_new`, and never again: one that was lost must not be taken
    for one that has nothing. Raises StartError.
    """
    _, region, endpoint, table = further
    try:
        client, patient = connect_both(
            endpoint, region, connections_max=settings.connections + _PROBES
        )
    except OpenError as error:
        raise BlockedStartError(str(error)) from error
    guards = tuple(Guard(f"{further.name}/{use}", clock, log_circuit) for use in _OF_FURTHER)
    patience_s = settings.cell_deadline_s
    offloads = [
        EventLoopOffload(threads, clock, guard, patience_s=patience_s)
        for threads, guard in zip((settings.connections, _PROBES), guards, strict=True)
    ]
    for_messages, for_probes = offloads
    ports = (client, table, clock, for_messages)
    cell = DynamoCell(*ports, deadline_s=patience_s, report_units=True, patient=patient)

    def close_offloads() -> None:
        for offload in offloads:
            offload.close()

    try:
        if is_new:
            open_table(endpoint, region, table)
        await cell.get(PROBE)
    except OpenError as error:
        close_offloads()
        raise BlockedStartError(f"cells-dynamodb: {further.name} is new: {error.reason}") from error
    except CellUnavailableError as error:
        LOG.error("the cell %s does not answer: %s", further.name, error)  # noqa: TRY400 - it may

    async def close() -> None:
        await _flush_last(cell)
        close_offloads()
        client.close()
        patient.close()

    return OpenedCell(
        name=further.name,
        where=f"the DynamoDB table {table} at {client.meta.endpoint_url}",
        cell=cell,
        control=cell.through(for_probes),
        forgets=False,
        upkeep=_flushing(cell),
        is_full=lambda: False,
        gauges=lambda: _request_gauges(cell),
        close=close,
        guards=guards,
        requests=cell.counters.requests.total,
    )


def _flushing(cell: DynamoCell) -> Callable[[int], Awaitable[object]]:
    """What writes counters now and then, called every second."""
    flush_due_us = 0

    async def upkeep(now_us: int) -> None:
        nonlocal flush_due_us
        if not now_us < flush_due_us <= now_us + _FLUSH_PERIOD_US:  # due, or the clock was set
            flush_due_us = now_us + _FLUSH_PERIOD_US
            await cell.flush()

    return upkeep


async def _flush_last(cell: DynamoCell) -> None:
    try:
        await cell.flush()
    except CellUnavailableError as error:
        LOG.warning("counters of the last seconds are lost: %s", error)


def _dynamodb_gauges(cell: DynamoCell, bodies: BodyStore) -> Mapping[str, float]:
    stored = bodies.counters
    return {
        **_request_gauges(cell),
        "blob_puts_total": stored.puts,
        "blob_gets_total": stored.gets,
        "blob_orphans_removed_total": stored.orphans,
        "bodies_kept_total": stored.kept,
    }


def _request_gauges(cell: DynamoCell) -> Mapping[str, float]:
    counters = cell.counters
    named: dict[str, float] = {
        "retries_total": counters.retries,
        "retries_refused_total": cell.retries_refused,
    }
    for operation in _DYNAMODB_OPERATIONS:
        named[f"{operation}_requests_total"] = counters.requests[operation]
        named[f"{operation}_units_total"] = counters.units[operation]
    return named
