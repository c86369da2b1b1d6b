"""Opens the several cells that the settings name, and finds out where the registry lies."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from control_plane.cell_folders import NEW_FOLDER, FolderCell, Folders
from control_plane.cells import BlockedStartError, OpenedCell, StartError
from control_plane.core.identity import Found, Judged, Standing, Verdict, judge
from control_plane.core.item_field import UnknownItemFormatError
from control_plane.core.queue_lifecycle import FIFO_SUFFIX
from control_plane.folder_modes import why_unusable
from control_plane.manifest import ManifestFile, check_not_copied, read_manifest
from control_plane.places.beating import QueueName, Served
from control_plane.places.items import REMOVED
from control_plane.places.own import (
    OWN,
    KnownService,
    Own,
    OwnPlacement,
    decode_own,
    read_own,
)
from control_plane.places.report import CellCommandError
from control_plane.places.starting import (
    MANIFEST,
    Ground,
    Plan,
    StartRefusedError,
    WronglyNamedError,
    begin,
    go_on,
    plan_start,
)
from control_plane.several_cells import Opened, SeveralCells
from control_plane.together import Together
from control_plane.whose_cell import own_in, told_of, why_no_cell
from data_plane.core.cell_clock import CellClock
from data_plane.embedded.file_check import FileDamageError
from data_plane.embedded.peeking import check_store, has_items, peek
from data_plane.embedded.store import DATA_FILE, CellInUseError, CellOpenError
from data_plane.http.metrics import QueueTotals
from data_plane.ports import CellUnavailableError, Clock, Entropy
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import ServerSettings
from data_plane.stored.bodies import BodyStore

_NEEDS_ALL: Final = "cells: a new service needs all of its cells"

LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Looked:
    """A directory that may be a cell: it is open in `folder`, where there is anything in it."""

    folder: FolderCell | None = None
    own: Own | None = None
    reason: str = ""
    has_other: bool = False
    is_replaced: bool = False
    is_missing: bool = False


@dataclass(slots=True)
class _Start:
    """What a start goes by."""

    settings: ServerSettings
    folders: Folders
    clock: Clock
    entropy: Entropy
    manifest: KnownService | None
    looked: dict[str, _Looked] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    opened: Opened = field(default_factory=Opened)

    def ground(self) -> Ground:
        keep = ManifestFile(self.settings.data).keep
        waits = EventLoopWaits(self.clock)
        return Ground(self.opened.plain, self.clock, self.entropy, waits, keep, self.folders.data)

    def named(self) -> list[str]:
        """The directories that the settings name."""
        return _wanted(self.settings, self.folders) if self.settings.cell_folders else []

    def several(self, own: OwnPlacement) -> SeveralCells:
        ports = self.clock, self.entropy, EventLoopWaits(self.clock)
        return SeveralCells(self.opened, own, self.folders, *ports)

    async def close(self) -> None:
        """Let go of what was looked at, and of what is open."""
        for one in self.looked.values():
            if one.folder is not None:
                await one.folder.close()
        for folder in self.opened.folders.values():
            await folder.close()

    async def refuse(self) -> None:
        """Let go of everything."""
        await self.close()
        self.folders.unlock()


async def open_several(settings: ServerSettings, clock: Clock, entropy: Entropy) -> Together:
    """The cells of a service that has several. Raises StartError."""
    if settings.cells_dynamodb:
        # Embedded cells start without AWS's SDK, which is slow to load.
        from control_plane.several_tables import open_tables  # noqa: PLC0415 - as above

        return await open_tables(settings, clock, entropy)
    return await open_folders(settings, clock, entropy)


async def open_folders(settings: ServerSettings, clock: Clock, entropy: Entropy) -> SeveralCells:
    """The embedded ones. Raises StartError."""
    start = _start(settings, clock, entropy)
    try:
        with _told():
            start.folders.lock()
            with clock.opening() if isinstance(clock, CellClock) else nullcontext():
                await _look(start, _look_at)
            return await _begin(start)
    except BaseException:
        await start.refuse()
        raise


async def check_folders(settings: ServerSettings, clock: Clock, entropy: Entropy) -> None:
    """Raise StartError where `open_folders` would; nothing is changed, or opened."""
    start = _start(settings, clock, entropy)
    with _told():
        start.folders.lock()
        start.folders.unlock()
        await _look(start, _peek_at)
        if _plan(start).known is None:
            _check_all(start, _new_paths(start).values())


def _start(settings: ServerSettings, clock: Clock, entropy: Entropy) -> _Start:
    _check_data(settings.data)
    manifest = read_manifest(settings.data)
    if not settings.cell_folders:
        check_not_copied(settings.data, manifest)
    start = _Start(settings, Folders(settings.data, clock), clock, entropy, manifest)
    _check_new(start)
    return start


@contextmanager
def _told() -> Iterator[None]:
    """Make a StartError of what refuses a start."""
    try:
        yield
    except WronglyNamedError as error:
        raise StartError(f"cells: {error}") from error
    except (StartRefusedError, UnknownItemFormatError, CellCommandError) as error:
        raise BlockedStartError(f"cells: {error}") from error
    except CellUnavailableError as error:
        raise BlockedStartError(f"cells: the registry does not answer: {error}") from error
    except CellInUseError as error:
        raise BlockedStartError(str(error)) from error
    except OSError as error:
        raise StartError(f"cells: cannot use {error.filename}: {error.strerror}") from error


def _check_data(data: Path) -> None:
    """Raise StartError where one cell lies in the data directory itself."""
    if not (data / DATA_FILE).exists():
        return
    try:
        own = own_in(data)
    except CellInUseError as error:
        raise BlockedStartError(str(error)) from error
    if own is not None:
        raise StartError(f"cells: {told_of(data, own)}")
    raise StartError(f"cells: {data} is the one cell of a service; name another --data for several")


def _check_new(start: _Start) -> None:
    """Raise StartError where a directory that is named, and has nothing yet, may be no new cell."""
    known = start.manifest.paths.values() if start.manifest is not None else ()
    data, named = start.settings.data, start.settings.cell_folders
    for folder in named:
        path = start.folders.text_of(folder.absolute())
        if path in known or start.folders.has_data(path):
            continue
        if reason := why_no_cell(folder, data, named) or why_unusable(folder):
            raise StartError(f"cell-data: cannot use {folder}: {reason}")


def _wanted(settings: ServerSettings, folders: Folders) -> list[str]:
    named = settings.cell_folders
    if named:
        return [folders.text_of(Path(path).absolute()) for path in named]
    return [NEW_FOLDER.format(number=number) for number in range(1, settings.cells + 1)]


async def _look(start: _Start, look_at: Callable[[Folders, str], Awaitable[_Looked]]) -> None:
    """Look at the directories that are named and known, and judge them."""
    settings, folders, manifest = start.settings, start.folders, start.manifest
    wanted = _wanted(settings, folders)
    # Without a manifest any directory beside them may be a cell.
    waiting = [*wanted]
    if not settings.cell_folders:
        waiting += folders.in_data() if manifest is None else _followed(start, manifest)
    knows: list[KnownService] = []
    while waiting or knows:
        if not waiting:  # What is at hand is looked at before anything that is elsewhere.
            waiting += _followed(start, knows.pop(0))
            continue
        path = waiting.pop(0)
        if path in start.looked:
            continue
        looked = start.looked[path] = await look_at(folders, path)
        known = looked.own.known if looked.own is not None else None
        if known is None or settings.cell_folders:
            continue
        if manifest is None or known.service == manifest.service:
            knows.append(known)
    found = [
        Found(
            path,
            one.own.said if one.own is not None else None,
            one.reason,
            one.has_other,
            one.is_replaced,
            one.is_missing,
        )
        for path, one in start.looked.items()
    ]
    knowledge = manifest.knowledge if manifest is not None else None
    start.verdict = judge(knowledge, found, start.named(), settings.cells_given_up)


def _followed(start: _Start, known: KnownService) -> Iterable[str]:
    """Where cells are by what is known: a copy of another data directory leads nowhere outside.

    Where nobody has said which one it was written for, only to cells that were not found here.
    """
    here, data = start.looked.values(), start.folders.data
    found = {one.own.cell for one in here if one.own is not None}
    for name, path in known.paths.items():
        is_ours = known.data == data or (not known.data and name not in found)
        if is_ours or path not in known.elsewhere():
            yield path


async def _look_at(folders: Folders, path: str) -> _Looked:
    """What a directory says. One that is empty is left as it is."""
    if not folders.has_data(path):
        return _Looked(is_missing=folders.is_missing(path))
    if folders.is_replaced(path):
        return _Looked(is_replaced=True)
    folder = folders.open("", path)
    if folder.reason:
        return _Looked(folder, None, folder.reason)
    try:
        own = _as_seen_from(folders, await read_own(folder.cell))
        return _Looked(folder, own, has_other=own is None and bool(folder.cell.partitions("", 1)))
    except CellUnavailableError as error:
        return _Looked(folder, None, str(error))


async def _peek_at(folders: Folders, path: str) -> _Looked:
    """As `_look_at`, and nothing is opened. Raises CellInUseError, UnknownItemFormatError."""
    if not folders.has_data(path):
        return _Looked(is_missing=folders.is_missing(path))
    if folders.is_replaced(path):
        return _Looked(is_replaced=True)
    directory = folders.data / Path(path)
    try:
        check_store(directory)
        item = peek(directory, OWN)
        has_other = item is None and has_items(directory)
    except CellInUseError:
        raise
    except (CellOpenError, FileDamageError) as error:
        return _Looked(reason=str(error))
    except OSError as error:
        return _Looked(reason=f"cannot use {directory}: {error.strerror}")
    own = None if item is None else _as_seen_from(folders, decode_own(item))
    return _Looked(own=own, has_other=has_other)


def _as_seen_from(folders: Folders, own: Own | None) -> Own | None:
    """What a cell says, each directory by one name: another data directory may have served it."""
    if own is None:
        return None
    paths = {name: folders.text_of(path) for name, path in own.known.paths.items()}
    return replace(own, known=replace(own.known, paths=paths))


async def _begin(start: _Start) -> SeveralCells:
    """Start with what was found. Raises StartRefusedError, StartError, and as cells do."""
    gives_up = start.settings.cells_given_up
    plan = _plan(start)
    if plan.known is None:
        return await _begin_new(start)
    await _tell(start)
    several = await _go_on(start, plan, plan.known)
    await several.make_missing()
    for name in sorted(gives_up):
        # Also one that a start gave up which ended before the registry knew.
        if name in several.known.cells and several.known.cells[name].state != REMOVED:
            await several.give_up(name)
        else:
            LOG.warning("cells: there is no cell %s to give up", name)
    for one in plan.leaving:
        if one.name in several.own.empty:
            await _refill(several, one)
    await several.take_back_failed()
    for path in _new_directories(start):
        LOG.warning("cells: %s is new, and %s", path, await several.add(path))
    return several


def _plan(start: _Start) -> Plan:
    """Raises StartRefusedError."""
    said = [one.own.known for one in start.looked.values() if one.own is not None]
    return plan_start(
        start.verdict,
        [start.manifest, *said] if start.manifest is not None else said,
        has_manifest=start.manifest is not None,
        gives_up=start.settings.cells_given_up,
        begins_anew=start.settings.begin_anew,
    )


async def _refill(several: SeveralCells, one: Judged) -> None:
    try:
        await several.give_up_lost(one.name)
    except (CellCommandError, OSError) as error:
        reason = f"{one}, and {error}"
        LOG.error("cells: %s", reason)  # noqa: TRY400 - the line says it all
        await several.cells.folders[one.name].cell.fail(reason)
    else:
        LOG.warning("cells: %s: it is filled from the others", one)


async def _begin_new(start: _Start) -> SeveralCells:
    """A new service, in the directories that the settings name. Raises StartError."""
    paths = _new_paths(start)
    _check_all(start, paths.values())
    await start.close()
    start.looked.clear()
    for name, path in paths.items():
        if start.verdict.cells and (aside := start.folders.set_aside(path)):
            LOG.warning("cells: what was in %s is in %s now", path, aside)
        start.opened.add(start.folders.open(name, path), path)
    reasons = [one.reason for one in start.opened.folders.values() if one.reason]
    if reasons:
        raise StartError("; ".join([_NEEDS_ALL, *reasons]))
    several = start.several(await begin(start.ground(), paths))
    await several.make_missing()
    return several


def _check_all(start: _Start, paths: Iterable[str]) -> None:
    """Raise StartError where a directory of a new service cannot be used."""
    if reasons := [reason for path in paths if (reason := start.looked[path].reason)]:
        raise StartError("; ".join([_NEEDS_ALL, *reasons]))


def _new_paths(start: _Start) -> dict[str, str]:
    """Where the cells of a new service are to be. Raises StartError."""
    wanted = _wanted(start.settings, start.folders)
    others = [path for path in wanted if start.looked[path].has_other]
    if others:
        raise StartError(f"cells: {others[0]} is the one cell of a service; name another directory")
    return {f"cell-{number}": path for number, path in enumerate(wanted, start=1)}


async def _tell(start: _Start) -> None:
    """Say what is not as it should be, a line each, and let go of what is none of the cells."""
    for one in start.verdict.cells.values():
        if one.standing is Standing.FAILED:
            LOG.error("cells: %s", one)
        elif one.standing.is_lost and one.name in start.settings.cells_given_up:
            LOG.warning("cells: %s", one)
    for one in start.verdict.others:
        if one.standing is not Standing.EMPTY:
            LOG.warning("cells: %s, and is not used", one)
    if not start.verdict.service:
        LOG.warning("cells: the service gets an id, and %s", start.settings.data / MANIFEST)
    used = {one.path for one in start.verdict.cells.values() if one.standing is Standing.CURRENT}
    for path, looked in start.looked.items():
        if path not in used and looked.folder is not None:
            await looked.folder.close()


async def _go_on(start: _Start, plan: Plan, known: KnownService) -> SeveralCells:
    """Open the cells that there are, as far as they are current."""
    away = {one.name: one for one in plan.leaving}
    for name, path in known.paths.items():
        folder = start.looked[path].folder if path in start.looked else None
        if name in away or folder is None:
            start.opened.add(start.folders.closed(name, path, str(away[name])), path)
        else:
            start.opened.add(replace(folder, name=name), path)
    own, refused = await go_on(start.ground(), plan, start.verdict)
    for one in refused:
        LOG.error("cells: %s", one)
        await start.opened.folders[one.name].cell.fail(str(one))
    return start.several(own)


def _new_directories(start: _Start) -> list[str]:
    """Those that a setting names, and that are empty and no cell's place: cells to be added."""
    empty = {one.path for one in start.verdict.others if one.standing is Standing.EMPTY}
    return [path for path in start.named() if path in empty]


def as_opened(several: Together) -> OpenedCell:
    """All of them as the one cell that a server asks about the registry."""
    served = several.served.values()
    return OpenedCell(
        name="registry",
        where=f"data in {len(served)} cells: {', '.join(cell.where for cell in served)}",
        cell=several.control,
        control=several.control,
        forgets=several.forgets,
        upkeep=several.upkeep,
        is_full=lambda: False,
        gauges=lambda: several.manager().gauges,
        close=several.close,
        guards=several.guards,
        sources=several.sources if isinstance(several, SeveralCells) else None,
    )


def bodies_of(opened: OpenedCell, several: Together | None) -> Mapping[str, BodyStore]:
    """Bodies apart by the names of cells and groups."""
    if several is not None:
        return several.bodies
    return {} if opened.bodies is None else {opened.name: opened.bodies}


def served_so_far(requests: int, queues: Mapping[QueueName, QueueTotals]) -> Served:
    """What heartbeats make rates of, from a server's metrics."""
    fifo = {name: totals.sent for name, totals in queues.items() if name[2].endswith(FIFO_SUFFIX)}
    return Served(requests, fifo)
