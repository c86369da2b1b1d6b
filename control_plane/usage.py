"""A server's usage: counted for each answer, stored each minute where the settings say."""

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from control_plane.cells import StartError, log_circuit
from control_plane.service import Ground
from data_plane.blobs.opening import BlobsOpenError, open_blobs, place_of
from data_plane.engine import Engine
from data_plane.frontend.served import Served
from data_plane.ports import Blobs, Cell, CellUnavailableError, Clock, Entropy, Offload
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from data_plane.settings import USAGE_OFF, ServerSettings
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import US_PER_MINUTE, Count, Mark
from data_plane.usage.sends import SendRecords, discard
from data_plane.usage.sent import SentRecords, SentStores
from data_plane.usage.writer import WRITTEN, UsageWriter

DIRECTORY: Final = "usage"
"""In the data directory, unless the settings say otherwise."""

WRITER_FILE: Final = "usage.writer"
"""In the data directory of an embedded cell: the first mark of its last server that counted."""

OFF_FILE: Final = "usage.off"
"""Beside it while nothing is counted: since when."""

OFF_SCHEMA: Final = "tidegate.usage.off/1"

_THREADS: Final = 1
_PATIENCE_S: Final = 60.0

LOG: Final = logging.getLogger(__name__)


class _Off(msgspec.Struct, frozen=True):
    """Since which minute usage is off."""

    schema: Literal["tidegate.usage.off/1"]
    off_from: Count


Known = TypeVar("Known", Mark, _Off)
Step = Callable[[], Awaitable[None]]


def _count_nothing(_served: Served) -> None:
    pass


@dataclass(slots=True)
class Usage:
    """Counts what a server answers, and stores it beside requests.

    `writes` are due once a minute, `last_writes` when nothing is answered or sent any more.
    """

    clock: Clock
    served: Callable[[Served], None] = _count_nothing
    gauges: Callable[[], Mapping[str, float]] = dict
    guards: tuple[Guard, ...] = ()
    writes: list[Step] = field(default_factory=list)
    last_writes: list[Step] = field(default_factory=list)
    end: Callable[[], None] = lambda: None
    place: UsagePlace | None = None
    writer: UsageWriter | None = None
    _minute: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._minute = self.clock.now_us() // US_PER_MINUTE

    def follow(self, ground: Ground, engine: Engine) -> None:
        """Count what the engine stores in cells without a ledger, where there are such."""
        cells, fifo_cells = ground.cells, ground.fifo_cells or ground.cells
        alone = all(cell.chooses_stamps for cell in cells.values())
        if self.place is None or self.writer is None or (alone and ground.fifo_cells is None):
            return
        stores = SentStores(ground.control, cells, fifo_cells, alone)
        desks = (engine.bag.sent, engine.log.sent)
        sent = SentRecords(stores, desks, self.place, ground.entropy)
        engine.before_sends = sent.announce
        self.writer.leave_sends(desk.desk for desk in desks)
        self.writes.append(sent.write)
        self.last_writes.append(sent.write_last)
        own = self.gauges

        def gauges() -> Mapping[str, float]:
            told = own()
            return {
                **told,
                WRITTEN: told[WRITTEN] + sent.written,
                "sends_unannounced_total": sent.failures,
            }

        self.gauges = gauges

    async def step(self) -> None:
        """Store what there is, once a minute; due every second. Raises CellUnavailableError."""
        minute = self.clock.now_us() // US_PER_MINUTE
        if minute != self._minute:
            self._minute = minute
            await _each(self.writes)

    async def close(self) -> None:
        """Store all that is left. Raises CellUnavailableError."""
        try:
            await _each(self.last_writes)
        finally:
            self.end()


async def _each(steps: list[Step]) -> None:
    """All of them, whichever fails; then the first failure is raised."""
    failures: list[CellUnavailableError] = []
    for step in steps:
        try:
            await step()
        except CellUnavailableError as error:
            failures.append(error)
    if failures:
        raise failures[0]


async def open_usage(
    settings: ServerSettings, cells: Mapping[str, Cell], clock: Clock, entropy: Entropy
) -> Usage:
    """Usage as the settings want it, of a server on these cells. Raises StartError."""
    ledgers = {name: cell for name, cell in cells.items() if cell.chooses_stamps}
    if settings.usage == USAGE_OFF:
        since = _note_off(settings.data, clock) if ledgers else 0
        return Usage(clock, writes=[partial(discard, cell, since) for cell in ledgers.values()])
    guard = Guard("usage", clock, log_circuit)
    offload = EventLoopOffload(_THREADS, clock, guard, patience_s=_PATIENCE_S)
    try:
        place = UsagePlace(_open_place(settings, clock, offload), offload)
        writer = await _open_writer(settings, place, clock, entropy, ledgers)
    except BlobsOpenError as error:
        offload.close()
        raise StartError(f"usage: {str(error).removeprefix('blobs: ')}") from error
    except StartError:
        offload.close()
        raise
    sends = [SendRecords(cell, place, entropy) for cell in ledgers.values()]

    def gauges() -> Mapping[str, float]:
        own = writer.gauges()
        written = own[WRITTEN] + sum(one.written for one in sends)
        return {**own, WRITTEN: written}

    return Usage(
        clock,
        writer.served,
        gauges,
        (guard,),
        [writer.write, *(one.write for one in sends)],
        [writer.close, *(one.write_last for one in sends)],
        offload.close,
        place,
        writer,
    )


async def _open_writer(
    settings: ServerSettings,
    place: UsagePlace,
    clock: Clock,
    entropy: Entropy,
    ledgers: Collection[str],
) -> UsageWriter:
    """A writer whose mark is stored, if the place takes it. Raises StartError."""
    path = settings.data / WRITER_FILE
    last = _read_known(path, Mark) if ledgers else None
    off = _read_known(settings.data / OFF_FILE, _Off) if ledgers else None
    writer = UsageWriter(
        *(place, clock, entropy, ledgers, last.writer if last else ""),
        off_from=off.off_from if off else 0,
    )
    if ledgers and _write_known(path, writer.mark()):
        # The mark says it from now on.
        (settings.data / OFF_FILE).unlink(missing_ok=True)
    try:
        if last is not None:
            await place.restore_mark(last)
        await writer.open()
    except CellUnavailableError as error:
        LOG.warning("usage cannot be stored yet: %s", error)
    return writer


def _open_place(settings: ServerSettings, clock: Clock, offload: Offload) -> Blobs:
    """The place that the settings name; one that is missing is made. Raises BlobsOpenError."""
    setting = settings.usage or str(settings.data / DIRECTORY)
    place = place_of(
        setting, "", endpoint=settings.usage_endpoint or settings.endpoint, region=settings.region
    )
    return open_blobs(place, clock, offload, connections_max=_THREADS)


def _note_off(data: Path, clock: Clock) -> int:
    """Note that usage is off from now on, unless it has been; since which minute it is."""
    path = data / OFF_FILE
    known = _read_known(path, _Off)
    if known is not None:
        return known.off_from
    off = _Off(OFF_SCHEMA, clock.now_us() // US_PER_MINUTE)
    _write_known(path, off)
    return off.off_from


def _read_known(path: Path, kind: type[Known]) -> Known | None:
    """What a server left in the data directory. Raises StartError where it is not that."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StartError(f"usage: cannot read {path}: {error}") from error


def _write_known(path: Path, known: Mark | _Off) -> bool:
    """Note who counts from now on, or that nobody does; whether it could be.

    Without it a crash would lose usage without a word, and bills would not tell of what nobody
    counted.
    """
    beside = path.with_suffix(".new")
    try:
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(known))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        LOG.warning("bills will not tell what is missing, %s cannot be written: %s", path, error)
        return False
    return True
