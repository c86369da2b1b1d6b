"""A server's usage: counted for each answer, stored each minute where the settings say."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from control_plane.billing_terms import BillingTerms, read_terms
from control_plane.budgets import BudgetWatch, Record
from control_plane.cells import BlockedStartError, StartError, log_circuit
from control_plane.folder_modes import is_pipe, why_unusable
from control_plane.service import RunningService, ServicePorts
from control_plane.telling import Telling
from control_plane.tenant_usage import MonthCosts
from control_plane.webhooks import Webhooks
from data_plane.blobs.opening import open_blobs
from data_plane.blobs.place import BlobsOpenError, place_of
from data_plane.core.undecodable import UNDECODABLE
from data_plane.core.utc import utc_time
from data_plane.frontend.served import Served
from data_plane.ports import Blobs, Cell, CellUnavailableError, Clock, Entropy, Offload
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from data_plane.settings import USAGE_OFF, ServerSettings
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import US_PER_MINUTE, Count, Mark, UsageRecord
from data_plane.usage.register import Register
from data_plane.usage.sends import SendRecords, discard, discard_all
from data_plane.usage.sent import SentRecords, SentStores
from data_plane.usage.summary import UsageSummary
from data_plane.usage.writer import WRITTEN, UsageWriter

DIRECTORY: Final = "usage"
"""In the data directory, unless the settings say otherwise."""

WRITER_FILE: Final = "usage.writer"
"""In the data directory of an embedded cell: the first mark of its last server that counted."""

OFF_FILE: Final = "usage.off"
"""Beside it while nothing is counted: since when."""

OFF_SCHEMA: Final = "tidegate.usage.off/1"

_READING_PAUSE_US: Final = 5_000
"""Between pages of what was sent, in which requests have their turn."""

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


async def _tell_nobody() -> None:
    pass


@dataclass(slots=True)
class Usage:
    """Counts what a server answers, and stores it beside requests.

    `open` says who counts, before anything is answered, and after what is to be known by `follow`.
    `writes` are due once a minute, `last_writes` when nothing is answered or sent any more. `due`
    says that a step is to be taken before its time. `costs` knows what accounts have used, and
    budgets may name `webhooks`.
    """

    clock: Clock
    served: Callable[[Served], None] = _count_nothing
    gauges: Callable[[], Mapping[str, float]] = dict
    guards: tuple[Guard, ...] = ()
    writes: list[Step] = field(default_factory=list)
    last_writes: list[Step] = field(default_factory=list)
    open: Step = _tell_nobody
    end: Callable[[], None] = lambda: None
    place: UsagePlace | None = None
    webhooks: Sequence[str] = ()
    costs: MonthCosts | None = None
    writer: UsageWriter | None = None
    due: asyncio.Event = field(default_factory=asyncio.Event)
    sends: tuple[SendRecords, ...] = ()
    sent: SentRecords | None = None
    _minute: int = field(default=0, init=False)
    _sent_minute: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._minute = self._sent_minute = self.clock.now_us() // US_PER_MINUTE
        if self.writer is not None:
            self.writer.hurry = self.due.set

    def follow(self, ground: ServicePorts, service: RunningService) -> None:
        """Count what the service stores in cells without a ledger, where there are such."""
        engine = service.engine
        cells, fifo_cells = ground.cells, ground.fifo_cells or ground.cells
        alone = all(cell.chooses_stamps for cell in cells.values())
        if self.place is None or self.writer is None or (alone and ground.fifo_cells is None):
            return
        stores = SentStores(ground.control, cells, fifo_cells, alone)
        desks = (engine.bag.sent, engine.log.sent)
        clock, waits = ground.clock, ground.waits

        async def pause() -> None:
            await waits.sleep_until(clock.now_us() + _READING_PAUSE_US)

        sent = SentRecords(stores, desks, self.place, ground.entropy, pause)
        engine.before_sends = sent.announce
        service.sweep.note_sent = sent.note
        self.sent = sent
        self.writer.leave_sends(desk.desk for desk in desks)
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

    async def pending(self) -> list[UsageRecord]:
        """Records of what is counted, and not stored yet. Raises CellUnavailableError."""
        # The ledger is read first: what follows is of one moment.
        found = [its for one in self.sends for its in await one.pending()]
        found += self.sent.pending() if self.sent is not None else []
        return [*found, *(self.writer.pending() if self.writer is not None else ())]

    def watch(self, service: RunningService, record: Record) -> Step | None:
        """The step that looks after budgets; None where nothing is counted."""
        if self.costs is None:
            return None
        guard = Guard("webhooks", self.clock, log_circuit)
        offload = EventLoopOffload(_THREADS, self.clock, guard, patience_s=_PATIENCE_S)
        told = Telling(Webhooks(offload), service.registry, service.engine, self.clock)
        watch = BudgetWatch(service.budgets, self.costs, self.clock, told.tell, record)
        costs, own, end = self.costs, self.gauges, self.end
        self.gauges = lambda: {**own(), **costs.gauges(), **watch.gauges()}

        def ended() -> None:
            offload.close()
            end()

        self.end = ended

        async def step() -> None:
            await costs.step()
            await watch.step()

        return step

    async def step(self) -> None:
        """Store what there is, once a minute, and between what a crash would lose.

        Due every second, and when `due` says so. Raises CellUnavailableError.
        """
        minute = self.clock.now_us() // US_PER_MINUTE
        if minute != self._minute:
            self._minute = minute
            await _each(self.writes)
        elif self.writer is not None:
            await self.writer.keep()

    async def record_sent(self) -> None:
        """Store what was sent to cells without a ledger, once a minute.

        Due every second, beside `step`: what servers that have crashed left may take long to read.
        Raises CellUnavailableError.
        """
        minute = self.clock.now_us() // US_PER_MINUTE
        if self.sent is not None and minute != self._sent_minute:
            self._sent_minute = minute
            await self.sent.write()

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


def check_usage(settings: ServerSettings, clock: Clock) -> None:
    """Raise StartError where the terms cannot be read, or the directory cannot be used or made."""
    if settings.usage == USAGE_OFF:
        return
    if settings.billing is None or not is_pipe(settings.billing):
        terms_of(settings, clock)
    if "://" not in settings.usage:
        place = Path(settings.usage) if settings.usage else settings.data / DIRECTORY
        if reason := why_unusable(place):
            raise StartError(f"usage: cannot use {place}: {reason}")


def terms_of(settings: ServerSettings, clock: Clock) -> BillingTerms:
    """What usage costs this month. Raises StartError."""
    at = utc_time(clock.now_us() // 1_000_000)
    return read_terms(settings.billing, f"{at.year:04}-{at.month:02}")


async def open_usage(
    settings: ServerSettings,
    cells: Mapping[str, Cell],
    control: Cell,
    clock: Clock,
    entropy: Entropy,
) -> Usage:
    """Usage as the settings want it, of a server on these cells, whose registry is in `control`.

    Raises StartError.
    """
    ledgers = {name: cell for name, cell in cells.items() if cell.chooses_stamps}
    if settings.usage == USAGE_OFF:
        since = _note_off(settings.data, clock) if ledgers else 0
        return Usage(clock, writes=[partial(discard, cell, since) for cell in ledgers.values()])
    terms = terms_of(settings, clock)
    guard = Guard("usage", clock, log_circuit)
    offload = EventLoopOffload(_THREADS, clock, guard, patience_s=_PATIENCE_S)
    try:
        place = UsagePlace(_open_place(settings, clock, offload), offload)
        writer = await _open_writer(settings, place, clock, entropy, ledgers)
        register = await _enter(control, place, writer, alone=len(ledgers) == len(cells))
    except BlobsOpenError as error:
        offload.close()
        kind = BlockedStartError if "://" in settings.usage else StartError
        raise kind(f"usage: {str(error).removeprefix('blobs: ')}") from error
    except StartError:
        offload.close()
        raise
    sends = tuple(SendRecords(cell, place, entropy) for cell in ledgers.values())

    def gauges() -> Mapping[str, float]:
        own = writer.gauges()
        written = own[WRITTEN] + sum(one.written for one in sends)
        return {**own, WRITTEN: written}

    usage = Usage(
        clock,
        writer.served,
        gauges,
        (guard,),
        [register.write, register.end_others, *(one.write for one in sends)],
        [register.close, *(one.write_last for one in sends)],
        partial(_tell_of, writer, settings.data, has_ledgers=bool(ledgers)),
        offload.close,
        place,
        terms.webhooks,
        writer=writer,
        sends=sends,
    )
    _open_costs(settings, usage, terms)
    return usage


def _open_costs(settings: ServerSettings, usage: Usage, terms: BillingTerms) -> None:
    """Let the usage know what it costs. Threads of its own read: writing waits for none of them."""
    guard = Guard("usage-summary", usage.clock, log_circuit)
    offload = EventLoopOffload(_THREADS, usage.clock, guard, patience_s=_PATIENCE_S)
    summary = UsageSummary(_open_place(settings, usage.clock, offload), offload, usage.clock)
    end = usage.end
    usage.costs = MonthCosts(
        summary, usage.pending, lambda: usage.gauges()[WRITTEN], terms, usage.clock
    )
    usage.guards = (*usage.guards, guard)

    def ended() -> None:
        offload.close()
        end()

    usage.end = ended


async def _open_writer(
    settings: ServerSettings,
    place: UsagePlace,
    clock: Clock,
    entropy: Entropy,
    ledgers: Mapping[str, Cell],
) -> UsageWriter:
    """A writer, and the mark of the one before, if the place takes it. Raises StartError."""
    last = _read_known(settings.data / WRITER_FILE, Mark) if ledgers else None
    off = _read_known(settings.data / OFF_FILE, _Off) if ledgers else None
    if off is not None:
        await _discard_uncounted(ledgers.values(), off.off_from)
    if last is not None:
        try:
            await place.restore_mark(last)
        except CellUnavailableError as error:
            LOG.warning("usage cannot be stored yet: %s", error)
    return UsageWriter(
        *(place, clock, entropy, ledgers, last.writer if last else ""),
        off_from=off.off_from if off else 0,
    )


async def _tell_of(writer: UsageWriter, data: Path, *, has_ledgers: bool) -> None:
    """Store the writer's mark, if the place takes it, and where the next server looks for it."""
    if has_ledgers and _write_known(data / WRITER_FILE, writer.mark()):
        # The mark says it from now on.
        (data / OFF_FILE).unlink(missing_ok=True)
    try:
        await writer.open()
    except CellUnavailableError as error:
        LOG.warning("usage cannot be stored yet: %s", error)


async def _discard_uncounted(cells: Iterable[Cell], off_from: int) -> None:
    """Let go of what was sent last while usage was off: it would be billed."""
    for cell in cells:
        try:
            await discard_all(cell, off_from)
        except CellUnavailableError as error:
            LOG.warning("usage: what was sent while it was off may be recorded: %s", error)


async def _enter(control: Cell, place: UsagePlace, writer: UsageWriter, *, alone: bool) -> Register:
    """The register, with this writer in it, and with the end of those that were cut off."""
    register = Register(control, place, writer, alone=alone)
    try:
        await register.open()
        await register.end_others()
    except CellUnavailableError as error:
        LOG.warning("usage: the register of writers is tried again: %s", error)
    return register


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
    except (OSError, *UNDECODABLE) as error:
        raise BlockedStartError(f"usage: cannot read {path}: {error}") from error


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
