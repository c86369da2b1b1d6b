"""Opens the several cells that the settings name, and finds out where the registry lies."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from control_plane.cell_folders import NEW_FOLDER, FolderCell, Folders
from control_plane.cells import OpenedCell, StartError
from control_plane.core.queue_lifecycle import FIFO_SUFFIX
from control_plane.places import changes
from control_plane.places.beating import QueueName, Served
from control_plane.places.items import UnreadablePlaceError
from control_plane.places.own import OwnPlacementError, names_of, open_own_placement
from control_plane.places.report import CellCommandError
from control_plane.places.stored import NONCE_BYTES
from control_plane.several_cells import Opened, SeveralCells
from control_plane.several_tables import open_tables
from control_plane.together import Together
from data_plane.http.metrics import QueueTotals
from data_plane.ports import CellUnavailableError, Clock, Entropy
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import ServerSettings
from data_plane.stored.bodies import BodyStore

_DATA_FILE: Final = "data.mdb"

LOG: Final = logging.getLogger(__name__)


async def open_several(settings: ServerSettings, clock: Clock, entropy: Entropy) -> Together:
    """The cells of a service that has several. Raises StartError."""
    if settings.cells_dynamodb:
        return await open_tables(settings, clock, entropy)
    return await open_folders(settings, clock, entropy)


async def open_folders(settings: ServerSettings, clock: Clock, entropy: Entropy) -> SeveralCells:
    """The embedded ones. Raises StartError."""
    if (settings.data / _DATA_FILE).exists():
        raise StartError(
            f"cells: {settings.data} is the one cell of a service; name another --data for several"
        )
    folders = Folders(settings.data, clock)
    opened = await _open_folders(folders, _wanted(settings, folders))
    try:
        return await _put_together(folders, opened, clock, entropy)
    except (OwnPlacementError, UnreadablePlaceError, changes.PlacementChangeError) as error:
        reasons = [folder.cell.reason for folder in opened.folders.values() if folder.cell.reason]
        await _close(opened)
        raise StartError("; ".join([f"cells: {error}", *reasons])) from error
    except CellUnavailableError as error:
        await _close(opened)
        raise StartError(f"cells: the registry does not answer: {error}") from error
    except BaseException:
        await _close(opened)
        raise


def check_one_cell(settings: ServerSettings) -> None:
    """Raise StartError where the data are those of a service of several cells."""
    first = settings.data / NEW_FOLDER.format(number=1)
    if settings.cell == "embedded" and (first / _DATA_FILE).exists():
        raise StartError(f"cells: {settings.data} has several cells; how many, say --cells")


def _wanted(settings: ServerSettings, folders: Folders) -> list[str]:
    named = settings.cell_folders
    if named:
        return [folders.text_of(Path(path).absolute()) for path in named]
    return [NEW_FOLDER.format(number=number) for number in range(1, settings.cells + 1)]


async def _open_folders(folders: Folders, wanted: Sequence[str]) -> Opened:
    """Those that are wanted, and others that they know of, by the names that they know."""
    found: list[tuple[str, FolderCell, str | None]] = []
    others: dict[str, str] = {}
    for path in wanted:
        folder = folders.open("", path)
        known = None if folder.cell.reason else await names_of(folder.cell)
        if known is not None:
            others.update(known[1])
        found.append((path, folder, known[0] if known is not None else None))
    taken = {name for _, _, name in found if name is not None}
    opened = Opened()
    for path, folder, known_name in found:
        name = known_name or next(
            (name for name, known in others.items() if known == path and name not in taken), None
        )
        if name is None:
            unused = (NEW_FOLDER.format(number=number) for number in range(1, 1000))
            name = next(one for one in unused if one not in taken and one not in others)
        taken.add(name)
        opened.add(replace(folder, name=name), path)
    for name, path in others.items():
        if name not in taken:
            opened.add(folders.open(name, path), path)
    for folder in opened.folders.values():
        if folder.cell.reason:
            LOG.error("%s cannot be opened: %s", folder.name, folder.cell.reason)
    return opened


async def _put_together(
    folders: Folders, opened: Opened, clock: Clock, entropy: Entropy
) -> SeveralCells:
    waits = EventLoopWaits(clock)
    own = await open_own_placement(opened.plain, opened.paths, clock, entropy, waits)
    for name in [name for name in opened.folders if name not in own.paths]:
        LOG.warning("%s was removed: what is in %s is not used", name, opened.folders[name].path)
        await opened.drop(name).cell.close()
    for name, folder in opened.folders.items():
        if folder.cell.reason or name in own.empty:
            placement = own.placement()
            await own.change(
                placement.epoch,
                entropy.random_bytes(NONCE_BYTES),
                lambda held, name=name: changes.without(  # type: ignore[misc]
                    held.placement, name, held.factor, clock.now_us()
                ),
            )
    several = SeveralCells(opened, own, folders, clock, entropy, waits)
    await several.make_missing()
    for name in sorted(own.empty):
        LOG.warning("%s has lost what it held", name)
        try:
            await several.give_up_lost(name)
        except CellCommandError as error:
            await opened.folders[name].cell.fail(str(error))
    await several.take_back_failed()
    return several


async def _close(opened: Opened) -> None:
    for folder in opened.folders.values():
        await folder.cell.close()


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
        gauges=dict,
        close=several.close,
        guards=several.guards,
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
