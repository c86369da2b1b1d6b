"""A cell, opened, and what a server has to do for it: the embedded kind."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from control_plane.core.item_field import UnknownItemFormatError
from control_plane.disk_room import gauges_of
from control_plane.places.own import Own, read_own
from control_plane.whose_cell import own_in, told_of
from data_plane.core.circuit_breaker import CircuitState
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.copying import CopySource
from data_plane.embedded.failable import FailableCell
from data_plane.embedded.peeking import check_store
from data_plane.embedded.standing import REPLACED_NOTE, is_replaced
from data_plane.embedded.store import DATA_FILE, CellOpenError
from data_plane.ports import Cell, CellUnavailableError, Clock
from data_plane.runtime.guard import Guard
from data_plane.settings import ServerSettings
from data_plane.stored.bodies import BodyStore

LOCAL: Final = "local"
"""Name of the embedded cell in definitions of queues; stored, so never to be changed."""

OF_DEFINITIONS: Final = "/definitions"
"""How the name of the guard ends behind which the control plane and its probes are."""

COLLECTED_ITEMS_MAX: Final = 1000
_LOOKS: Final = 8
_LEAF_PAGES_AT_ONCE: Final = 8
_LOOK_PAUSE_S: Final = 0.01
"""Each second 64 leaf pages of an embedded cell are looked at: 1 GiB in about an hour, and half a
millisecond of the event loop at a time."""

LOG: Final = logging.getLogger(__name__)


class StartError(Exception):
    """The server cannot start; the message is one line for the person who starts it.

    They have to correct what they said, or a file or directory that it names.
    """

    exit_code: ClassVar = 2


class BlockedStartError(StartError):
    """What they said may be right, but something else is in the way of a start.

    A port or directory is in use, DynamoDB, S3 or KMS do not answer or refuse, or what was stored
    is damaged, missing, older than it was, or newer than this version.
    """

    exit_code: ClassVar = 1


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


def log_circuit(name: str, state: CircuitState) -> None:
    """Say that a breaker has changed its state."""
    level = logging.WARNING if state is CircuitState.OPEN else logging.INFO
    LOG.log(level, "the circuit breaker of %s is %s", name, state.name.lower().replace("_", "-"))


async def open_embedded_cell(settings: ServerSettings, clock: Clock) -> OpenedCell:
    """The one cell of a directory, in the running event loop. Raises StartError."""
    try:
        _check_not_replaced(settings.data)
        cell = EmbeddedCell(settings.data, clock)
    except CellOpenError as error:
        raise BlockedStartError(str(error)) from error
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
        is_full=lambda: not cell.has_room(0),
        damaged_items=lambda: cell.damaged_items,
        gauges=lambda: embedded_gauges(cell),
        close=cell.close,
        copy=cell.copy,
        look=cell.look_at_file,
        sources=lambda: [CopySource(LOCAL, cell.copying)],
    )


def check_embedded_cell(settings: ServerSettings) -> None:
    """Raise StartError where `open_embedded_cell` would; nothing is changed, or opened."""
    try:
        _check_not_replaced(settings.data)
        check_store(settings.data)
        own = own_in(settings.data)
    except CellOpenError as error:
        raise BlockedStartError(str(error)) from error
    except OSError as error:
        raise StartError(f"data: cannot use {settings.data}: {error.strerror}") from error
    if own is not None:
        raise StartError(f"data: {told_of(settings.data, own)}")


def _check_not_replaced(data: Path) -> None:
    if is_replaced(data / DATA_FILE):
        raise BlockedStartError(
            f"data: {data / DATA_FILE} took the place of the file that was served, and lacks what"
            " was acknowledged last: put that one back, or go on without, which loses it: remove"
            f" {data / REPLACED_NOTE}"
        )


async def _own_of(cell: EmbeddedCell) -> Own | None:
    """Which one of several it is; None: it is the one cell of a service. Raises StartError."""
    try:
        return await read_own(cell)
    except CellUnavailableError:
        return None  # damage where this item would be says nothing, and must not end all starts
    except UnknownItemFormatError as error:
        await cell.close()
        raise BlockedStartError(f"data: a cell of several that cannot be read: {error}") from error


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
