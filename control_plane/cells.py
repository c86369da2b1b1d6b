"""The cell that the settings name, opened: the one place that knows which kinds there are."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.bodies import open_bodies
from control_plane.disk_room import gauges_of
from control_plane.places.items import UnreadablePlaceError
from control_plane.places.own import Own, read_own
from control_plane.whose_cell import told_of
from data_plane.blobs.opening import BlobsOpenError
from data_plane.core.circuit_breaker import CircuitState
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import OpenError, connect_both, open_table
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.copying import CopySource
from data_plane.embedded.failable import FailableCell
from data_plane.embedded.standing import REPLACED_NOTE, is_replaced
from data_plane.embedded.store import DATA_FILE, CellOpenError
from data_plane.ports import Cell, CellUnavailableError, Clock, Key
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from data_plane.settings import FurtherTable, ServerSettings
from data_plane.stored.bodies import BodyStore
from data_plane.system import SystemEntropy

LOCAL: Final = "local"
"""Name of the embedded cell in definitions of queues; stored, so never to be changed."""

PROBE: Final = Key("health", b"\0")
"""What is read to see whether a cell answers; there need not be such an item."""

OF_DEFINITIONS: Final = "/definitions"
"""How the name of the guard ends behind which the control plane and its probes are."""

COLLECTED_ITEMS_MAX: Final = 1000
_LOOKS: Final = 8
_LEAF_PAGES_AT_ONCE: Final = 8
_LOOK_PAUSE_S: Final = 0.01
"""Each second 64 leaf pages of an embedded cell are looked at: 1 GiB in about an hour, and half a
millisecond of the event loop at a time."""

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


class StartError(Exception):
    """The server cannot start; the message is one line for the person who starts it."""


@dataclass(frozen=True, slots=True)
class OpenedCell:
    """A cell, and what a server has to do for it.

    `name` stands in definitions of queues, `where` in the greeting. `upkeep` is a bounded step, due
    every second; it is given the time. `forgets` says that items which nobody needs any more go
    when they are told to expire. `is_full`: whether it takes no more data. `gauges` are its own
    metrics. `upkeep` raises CellUnavailableError; `look` sees every half second whether the cell is
    still there, where nobody else does; `close` writes what is pending. `bodies` has what
    is too big for the cell's items. `control` is the same cell as the control plane uses it, probes
    included. `guards` stand before what may hang; `requests` counts those to the store. `copy` is a
    stream of all its items, for exports; None: it has exports of its own. `sources` are the
    embedded cells that a backup has; None: there are none. `damaged_items`: how many are known to
    be damaged.
    """

    name: str
    where: str
    cell: Cell
    control: Cell
    forgets: bool
    upkeep: Callable[[int], Awaitable[object]]
    is_full: Callable[[], bool]
    gauges: Callable[[], Mapping[str, float]]
    close: Callable[[], Awaitable[None]]
    bodies: BodyStore | None = None
    guards: tuple[Guard, ...] = ()
    copy: Callable[[], AsyncIterator[bytes]] | None = None
    sources: Callable[[], Sequence[CopySource]] | None = None
    requests: Callable[[], int] = lambda: 0
    damaged_items: Callable[[], int] = lambda: 0
    look: Callable[[], Awaitable[object]] | None = None


async def open_cell(settings: ServerSettings, clock: Clock) -> OpenedCell:
    """Open it in the running event loop. Raises StartError."""
    return await _OPENERS[settings.cell](settings, clock)


def log_circuit(name: str, state: CircuitState) -> None:
    """Say that a breaker has changed its state."""
    level = logging.WARNING if state is CircuitState.OPEN else logging.INFO
    LOG.log(level, "the circuit breaker of %s is %s", name, state.name.lower().replace("_", "-"))


async def _open_embedded(settings: ServerSettings, clock: Clock) -> OpenedCell:
    path = settings.data / DATA_FILE
    try:
        if is_replaced(path):
            raise StartError(
                f"data: {path} took the place of the file that was served, and lacks what was"
                " acknowledged last: put that one back, or go on without, which loses it: remove"
                f" {settings.data / REPLACED_NOTE}"
            )
        cell = EmbeddedCell(settings.data, clock)
    except CellOpenError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"data: cannot use {settings.data}: {error.strerror}") from error
    if (own := await _own_of(cell)) is not None:
        await cell.close()
        raise StartError(f"data: {told_of(settings.data, own)}")

    return OpenedCell(
        name=LOCAL,
        where=f"data in {settings.data.resolve()}",
        cell=cell,
        control=cell,
        forgets=True,
        upkeep=lambda now_us: embedded_upkeep(cell, now_us),
        is_full=lambda: cell.is_full,
        damaged_items=lambda: cell.damaged_items,
        gauges=lambda: embedded_gauges(cell),
        close=cell.close,
        copy=cell.copy,
        look=cell.look_at_file,
        sources=lambda: [CopySource(LOCAL, cell.copying)],
    )


async def _own_of(cell: EmbeddedCell) -> Own | None:
    """Which one of several it is; None: it is the one cell of a service. Raises StartError."""
    try:
        return await read_own(cell)
    except CellUnavailableError:
        return None  # damage where this item would be says nothing, and must not end all starts
    except UnreadablePlaceError as error:
        await cell.close()
        raise StartError(f"data: a cell of several that cannot be read: {error}") from error


async def embedded_upkeep(cell: EmbeddedCell | FailableCell, now_us: int) -> None:
    """Remove what has expired, and look for damage, a bounded step of each.

    Raises CellUnavailableError.
    """
    await cell.collect(now_us // 1_000_000, COLLECTED_ITEMS_MAX)
    for _ in range(_LOOKS):
        cell.look_over(_LEAF_PAGES_AT_ONCE)
        await asyncio.sleep(_LOOK_PAUSE_S)


def embedded_gauges(cell: EmbeddedCell | FailableCell) -> Mapping[str, float]:
    """The metrics of an embedded cell."""
    counters = cell.counters
    try:
        used_bytes = float(cell.used_bytes)
    except CellUnavailableError:
        used_bytes = float("nan")
    return {
        "commits_total": counters.commits,
        "failed_commits_total": counters.failed_commits,
        "writes_total": counters.writes,
        "written_bytes_total": counters.bytes_written,
        "commit_seconds_total": counters.commit_s,
        "used_bytes": used_bytes,
        "disk_bytes": cell.disk_bytes,
        "damaged_items": cell.damaged_items,
        **gauges_of(cell),
    }


async def _open_dynamodb(settings: ServerSettings, clock: Clock) -> OpenedCell:
    endpoint, region, table = settings.endpoint, settings.region, settings.table
    name = settings.own_cell
    try:
        open_table(endpoint, region, table)
        client, patient = connect_both(
            endpoint, region, connections_max=settings.connections + _CONTROL_CONNECTIONS
        )
    except OpenError as error:
        raise StartError(str(error)) from error
    patience_s = settings.cell_deadline_s
    guards = tuple(
        Guard(table + use, clock, log_circuit) for use in ("/messages", OF_DEFINITIONS, "/bodies")
    )
    for_messages, for_definitions, for_bodies = guards
    offload = EventLoopOffload(settings.connections, clock, for_messages, patience_s=patience_s)
    control_offload = EventLoopOffload(
        _CONTROL_CONNECTIONS, clock, for_definitions, patience_s=patience_s
    )
    ports = (client, table, clock, offload)
    cell = DynamoCell(*ports, deadline_s=patience_s, report_units=True, patient=patient)
    control = cell.through(control_offload)

    def close_offloads() -> None:
        offload.close()
        control_offload.close()

    try:
        # The store's time is known from its first answer on.
        await cell.get(PROBE)
        bodies = await open_bodies(settings, name, cell, clock, SystemEntropy(), for_bodies)
    except CellUnavailableError as error:
        close_offloads()
        raise StartError(f"table: cannot read {table!r}: {error}") from error
    except BlobsOpenError as error:
        close_offloads()
        raise StartError(str(error)) from error

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
        raise StartError(str(error)) from error
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
        raise StartError(f"cells-dynamodb: {further.name} is new: {error}") from error
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


_OPENERS: Final = {"embedded": _open_embedded, "dynamodb": _open_dynamodb}
