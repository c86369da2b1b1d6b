"""What operators do to cells: each act ends where the operator turns to something else.

None waits for the manager. Directories are only destroyed where all copies are there: what is
destroyed then has copies, and nothing may be lost. That everything is lost has to be said before.
"""

import shutil
from pathlib import Path
from random import Random
from typing import Final

from tests.drills.operated import CELLS, CELLS_MAX, Act, Operated, Start, copy_folder

_LAST_MESSAGES: Final = 10


def fail(site: Operated, random: Random) -> None:
    """Call a cell failed."""
    site.note_loss()
    site.ask("TidegateFailCell", CellName=_any_cell(site, random))


def restore(site: Operated, random: Random) -> None:
    """Restore a cell, whatever it is."""
    site.ask("TidegateRestoreCell", CellName=_any_cell(site, random))


def add(site: Operated, random: Random) -> None:
    """Add a cell: in a new directory, or in one that was a cell's."""
    told = site.told()
    if random.random() < 1 / 4:
        site.ask("TidegateAddCell", Path=random.choice(site.folders()).name)
    else:
        site.add_one(told)


def drain(site: Operated, random: Random) -> None:
    """Let everything move away from a cell."""
    site.note_loss()
    site.ask("TidegateDrainCell", CellName=_any_cell(site, random))


def remove(site: Operated, random: Random) -> None:
    """Part with a cell, if that may be: one that drains, rather."""
    cells = site.told()["Cells"]
    draining = [cell["CellName"] for cell in cells if cell["State"] == "draining"]
    site.note_loss()
    named = [cell["CellName"] for cell in cells]
    site.ask("TidegateRemoveCell", CellName=random.choice(draining or named))


def move(site: Operated, random: Random) -> None:
    """Move a queue alone to cells that are chosen; maybe it is on its way when they fail."""
    queue = random.choice(site.books).name
    cells = sorted(site.places())
    wanted = random.sample(cells, random.randint(1, min(CELLS, len(cells))))
    site.ask("TidegateMoveQueue", QueueName=queue, CellNames=wanted)


def swap(site: Operated, random: Random) -> None:
    """Swap two directories, of a server that is stopped, or of one that runs: back, or till a stop.

    Neither is served meanwhile. The next start finds each where it is.
    """
    folders = site.folders()
    if len(folders) < 2:
        return  # two were deleted just now
    one, other = random.sample(folders, 2)
    if random.random() < 1 / 2:
        with site.stopped(random):
            _swap(site, one, other)
        return
    site.note_loss()
    _swap(site, one, other)
    site.pause(random)
    is_back = random.random() < 1 / 2
    if is_back:
        _swap(site, one, other)
    if not is_back or random.random() < 1 / 2:
        with site.stopped(random):
            pass


def empty(site: Operated, random: Random) -> None:
    """Replace a disk by an empty one: of a cell that is failed, or of a server that is stopped."""
    site.await_well()
    cell, folder = _victim(site, random)
    if random.random() < 1 / 2:
        with site.stopped(random):
            site.destroy(cell, folder)
        return
    site.note_loss()
    if not site.ask("TidegateFailCell", CellName=cell):
        site.pause(random)
        site.destroy(cell, folder)
        site.ask("TidegateRestoreCell", CellName=cell)


def delete(site: Operated, random: Random) -> None:
    """Delete a directory while it is in use."""
    site.await_well()
    site.destroy(*_victim(site, random))


def two(site: Operated, random: Random) -> None:
    """Delete two directories: one copy is left of everything."""
    site.await_well()
    places = site.places()
    victims = random.sample(sorted(_holders(site)), 2)
    if random.random() < 1 / 2:
        with site.stopped(random):
            for cell in victims:
                site.destroy(cell, places[cell])
        return
    for cell in victims:
        site.destroy(cell, places[cell])


def old(site: Operated, random: Random) -> None:
    """Put an old copy of a directory back."""
    site.await_well()
    if not site.copies:
        with site.stopped(random):
            site.back_up(random.choice(site.folders()))
        site.pause(random)
        site.await_well()
    folder, copy = random.choice(site.copies)
    cells = [cell for cell, path in site.places().items() if path == folder]
    site.note_loss()
    if cells and random.random() < 1 / 2:
        if not site.ask("TidegateFailCell", CellName=cells[0]):
            _put_back(site, folder, copy)
            site.ask("TidegateRestoreCell", CellName=cells[0])
        return
    with site.stopped(random):
        _put_back(site, folder, copy)


def live(site: Operated, random: Random) -> None:
    """Put a copy of this run in the place of a directory that is in use; then stop, or fail it."""
    site.await_well()
    cell, folder = _victim(site, random)
    copy = site.data.parent / "live"
    site.say(f"copy {folder.name}, which is in use")
    copy_folder(folder, copy)
    site.pause(random)
    site.destroy(cell, folder)
    site.say("put the copy in its place")
    copy.rename(folder)
    what_then = random.choice(("stop", "fail", "nothing"))
    if what_then == "stop":
        site.stop()
        site.start()
    elif what_then == "fail" and not site.ask("TidegateFailCell", CellName=cell):
        site.ask("TidegateRestoreCell", CellName=cell)


def cells(site: Operated, random: Random) -> None:
    """Start with another number of cells."""
    random.choice((site.stop, site.kill))()
    site.start(Start(random.randint(1, CELLS_MAX - 1)))


def kill(site: Operated, random: Random) -> None:
    """Kill the process, and start it."""
    site.kill()
    if random.random() < 1 / 4:
        site.back_up(random.choice(site.folders()))
    site.start()


def lose_all(site: Operated, random: Random) -> None:
    """Lose all directories, and the last messages with them: once a line has said so."""
    url = site.server.queue_url(site.standard.name)
    for number in range(_LAST_MESSAGES):
        site.call("SendMessage", QueueUrl=url, MessageBody=f"last {number}")
    folders = list(site.places().values())
    random.choice((site.stop, site.kill))()
    for folder in folders:
        site.say(f"delete {folder.name}")
        shutil.rmtree(folder)
        if random.random() < 1 / 2:
            folder.mkdir()
    if site.begins_anew_as_told():
        site.standard.note("announced", _LAST_MESSAGES)
    else:
        site.standard.accuse("lost", f"{_LAST_MESSAGES} messages, and no line had said so")


LOSE_ALL: Final = "lose all"
"""The last act of a round, if it is one."""

ACTS: Final[dict[str, Act]] = {
    "fail": fail,
    "restore": restore,
    "add": add,
    "drain": drain,
    "remove": remove,
    "move": move,
    "swap": swap,
    "empty": empty,
    "delete": delete,
    "two": two,
    "old": old,
    "live": live,
    "cells": cells,
    "kill": kill,
}


def _any_cell(site: Operated, random: Random) -> str:
    return random.choice(sorted(site.places()))


def _holders(site: Operated) -> set[str]:
    """Cells with copies of queues."""
    return {
        member["CellName"]
        for group in site.groups()
        if group["GroupName"].startswith("g3.")
        for member in group["Members"]
    }


def _victim(site: Operated, random: Random) -> tuple[str, Path]:
    """A cell with copies, and its directory."""
    places = site.places()
    cell = random.choice(sorted(_holders(site)))
    return cell, places[cell]


def _swap(site: Operated, one: Path, other: Path) -> None:
    site.say(f"swap {one.name} and {other.name}")
    aside = site.data / "aside"
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def _put_back(site: Operated, folder: Path, copy: Path) -> None:
    site.say(f"put {copy.name} back as {folder.name}")
    if folder.exists():
        shutil.rmtree(folder)
    copy_folder(copy, folder)
