"""A service of several cells as its operator has it: directories, options, and lines to go by.

What is refused has to name a way out, and this operator takes it: the first command that a line
names. He looks at `tidegate cells list` until everything is well.
"""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from control_plane.places.groups import REGISTRY
from tests.benchmarks.server_process import ServerError
from tests.drills.caller import LostConnectionError, RefusedError
from tests.drills.service import Service

CELLS: Final = 3
CELLS_MAX: Final = 6
COPIES: Final = "g3."
"""How groups of three copies are named: queues of a service of three cells have them."""

WELL_S_MAX: Final = 900.0
_WAYS_MAX: Final = 5
_STUCK_S: Final = 45.0
"""After so long without a change for the better the operator starts the server again."""

_LOOK_S: Final = 0.5
_PAUSE_S_MAX: Final = 3.0
_SERVER_ERROR: Final = 500
_COMMAND: Final = re.compile(r"`tidegate cells (restore|add|fail)(?: (cell-\d+))?`")
_START_AGAIN: Final = "start the server again"
_LOSES_ALL: Final = "begin with an empty store, which loses all queues and messages: --begin-anew"
_GIVE_UP: Final = re.compile(r"--give-up ([\w,.-]+)")


class StuckError(Exception):
    """The service cannot be brought back, or not by what it says."""


class Start(NamedTuple):
    """How a server is started: with so many cells, and without those that are given up."""

    cells: int = CELLS
    given_up: str = ""

    def options(self) -> tuple[str, ...]:
        """As on the command line."""
        give_up = ("--give-up", self.given_up) if self.given_up else ()
        return ("--cells", str(self.cells), *give_up)


def way_out(line: str, asked: Start) -> Start | None:
    """How to start instead, by the line that refused it; None where that names no way.

    To lose everything is none, nor to do the same again.
    """
    found = _GIVE_UP.search(line)
    if "--cells" in line and asked.cells != CELLS:
        return asked._replace(cells=CELLS)
    if found is not None and found[1] != asked.given_up:
        return asked._replace(given_up=found[1])
    if "without --give-up" in line and asked.given_up:
        return asked._replace(given_up="")
    return None


def commands(told: Mapping[str, Any], lost: set[str]) -> Iterator[tuple[str, str]]:
    """What to do by what is told of the cells: of each line the first command and its cell.

    To call a cell failed is for who knows that it is `lost`.
    """
    reasons = [cell["Reason"] for cell in told["Cells"] if "Reason" in cell]
    seen = set()
    for line in (*told.get("ManagerWaits", ()), *reasons):
        for act, cell in _COMMAND.findall(line):
            if act != "fail" or cell in lost:
                if (act, cell) not in seen:
                    yield act, cell
                seen.add((act, cell))
                break
    for cell in told["Cells"]:  # one that was failed says so in its state
        name = cell["CellName"]
        if cell["State"] == "failed" and ("restore", name) not in seen:
            yield "restore", name


@dataclass
class Operated(Service):
    """The service; `data` has its directories, `notes` is a file of everything that was done."""

    data: Path = Path()
    notes: Path = Path()
    copies: list[tuple[Path, Path]] = field(default_factory=list)
    """Directories, and copies of them from before."""

    destroyed: set[str] = field(default_factory=set)
    """Cells whose directories were, since everything was well."""

    options: tuple[str, ...] = ()

    # What is done

    def say(self, what: str) -> None:
        """Note it, for whoever looks for what went wrong."""
        with self.notes.open("a") as file:
            print(f"{time.strftime('%H:%M:%S')} {what}", file=file)

    def ask(self, operation: str, **params: object) -> str:
        """Do something about cells: "" if it was done, or what was answered instead."""
        try:
            self.call(operation, **params)
        except RefusedError as error:
            answer = str(error)
            if error.status == _SERVER_ERROR:
                self.standard.accuse("answer", f"{operation} {params} was answered {error}")
        except LostConnectionError as error:
            answer = f"no answer: {error}"
        else:
            answer = ""
        self.say(f"{operation} {params}: {answer or 'done'}")
        return answer

    def start(self, asked: Start | None = None) -> None:
        """Start the server, by the ways that refusals name. Raises StuckError."""
        how, line = asked or Start(), "no start was over in time"
        for _ in range(_WAYS_MAX):
            self.server.options = (*self.options, *how.options())
            try:
                self.server.start()
            except ServerError:
                if self.server.process is not None and self.server.process.poll() is None:
                    self.say(f"a start with {how.options()} takes too long: another one")
                    self.server.kill()
                    continue
                self.server.process = None
            else:
                self.say(f"started with {how.options()}")
                return
            line = self._last_line()
            self.say(f"a start with {how.options()} was refused: {line}")
            instead = way_out(line, how)
            if instead is None:
                raise StuckError(f"a refusal names no way out: {line}")
            how = instead
        raise StuckError(f"no way out of {_WAYS_MAX} leads anywhere: {line}")

    def begins_anew_as_told(self) -> bool:
        """Whether a start says that everything is lost; then the service is begun anew.

        Raises StuckError where that is refused, too.
        """
        options = (*self.options, *Start().options())
        self.server.options = options
        try:
            self.server.start()
        except ServerError:
            self.server.process = None
        else:
            self.say("a start without any cell was not refused")
            return False
        line = self._last_line()
        self.say(f"all is lost: {line}")
        if not line.endswith(_LOSES_ALL):
            raise StuckError(f"a refusal names no way out: {line}")
        self.server.options = (*options, "--begin-anew")
        self.server.start()
        return True

    def _last_line(self) -> str:
        return self.server.log.read_text().rstrip().rpartition("\n")[2]

    def stop(self) -> None:
        """End the server as an operator does. Raises ServerError."""
        self.say("stop")
        self.server.stop()

    def kill(self) -> None:
        """End it with kill -9: what it told one cell alone may be lost with that one."""
        self.say("kill -9")
        self.note_loss()
        self.server.kill()

    @contextmanager
    def stopped(self, random: Random) -> Iterator[None]:
        """While the server is stopped, or was killed."""
        random.choice((self.stop, self.kill))()
        yield
        self.start()

    def destroy(self, cell: str, folder: Path) -> None:
        """Delete the directory of a cell."""
        self.say(f"delete {folder.name} ({cell})")
        self.note_loss()
        self.destroyed.add(cell)
        shutil.rmtree(folder)

    def back_up(self, folder: Path) -> None:
        """Copy a directory that nobody has open."""
        copy = self.data.parent / f"copy-{len(self.copies)}"
        self.say(f"copy {folder.name} to {copy.name}")
        copy_folder(folder, copy)
        self.copies.append((folder, copy))

    # What is seen

    def told(self) -> dict[str, Any]:
        """What `tidegate cells list` knows. Raises RefusedError, LostConnectionError."""
        return self.call("TidegateListCells")

    def places(self) -> dict[str, Path]:
        """The cells' directories, by their names. Raises as `told`."""
        return {cell["CellName"]: Path(cell["Address"]) for cell in self.told()["Cells"]}

    def folders(self) -> list[Path]:
        """Directories that have a data file."""
        return sorted(path.parent for path in self.data.glob("*/data.mdb"))

    def await_progress(self, random: Random) -> None:
        """As for all services, of the queues that are received from meanwhile."""
        others, self.others = self.others, ()
        try:
            super().await_progress(random)
        finally:
            self.others = others

    def pause(self, random: Random) -> None:
        """Let clients go on for a moment: until they have noted something, or cannot."""
        enough = self.standard.tally["deletes"] + random.randint(1, 30)
        self.standard.wait_for("deletes", enough, random.uniform(0, _PAUSE_S_MAX))

    def await_well(self) -> None:
        """Do what is said until all groups of queues have their copies, and clients go on.

        Raises StuckError where that does not help.
        """
        until_s, better_s = time.monotonic() + WELL_S_MAX, time.monotonic()
        best, told = -1, dict[str, Any]()
        while time.monotonic() < until_s and not self.is_violated:
            try:
                told = self.told()
                groups = _of_queues(told)
                whole = sum(map(_is_whole, groups))
                if whole == len(groups) and self._is_all_there(told):
                    self.destroyed.clear()
                    return
                if whole > best:
                    best, better_s = whole, time.monotonic()
                self._do_what_is_said(told)
            except (RefusedError, LostConnectionError) as error:
                self.say(f"no list: {error}")
                self._start_if_it_ended()
            if time.monotonic() > better_s + _STUCK_S:
                self.say("nothing gets better: another start")
                self.stop()
                self.start()
                better_s = time.monotonic()
            time.sleep(_LOOK_S)  # between two looks at what the manager does
        if not self.is_violated:
            waits = told.get("ManagerWaits")
            raise StuckError(f"not well after {WELL_S_MAX:.0f} s, by what is said: {waits}")

    def _is_all_there(self, told: Mapping[str, Any]) -> bool:
        """Whether what was destroyed is noticed, and made good."""
        return all(
            _inode(Path(cell["Address"])) == cell.get("Inode")
            for cell in told["Cells"]
            if cell["CellName"] in self.destroyed
        )

    def _do_what_is_said(self, told: Mapping[str, Any]) -> None:
        for act, cell in commands(told, self.destroyed):
            if act == "add":
                self.add_one(told)
                continue
            operation = "TidegateRestoreCell" if act == "restore" else "TidegateFailCell"
            if _START_AGAIN in self.ask(operation, CellName=cell):
                self.stop()
                self.start()
                return

    def add_one(self, told: Mapping[str, Any]) -> None:
        """Add a cell in a new directory, if there are not enough of them."""
        if len(told["Cells"]) < CELLS_MAX:
            number = next(n for n in range(1, 100) if not (self.data / f"cell-{n}").exists())
            self.ask("TidegateAddCell", Path=f"cell-{number}")

    def _start_if_it_ended(self) -> None:
        process = self.server.process
        if process is not None and process.poll() is not None:
            self.standard.accuse("answer", f"the server ended by itself, with {process.poll()}")


def copy_folder(folder: Path, to: Path) -> None:
    """Copy a directory with all that is in it, sockets, too. Raises subprocess.SubprocessError."""
    subprocess.run(("cp", "-r", "--sparse=always", folder, to), check=True)


def _of_queues(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What queues need: their groups, and the registry, which lies in all cells."""
    groups: list[Mapping[str, Any]] = told["PlacementGroups"]
    return [group for group in groups if group["GroupName"].startswith((COPIES, REGISTRY))]


def _inode(folder: Path) -> int | None:
    file = folder / "data.mdb"
    return file.stat().st_ino if file.exists() else None


def _is_whole(group: Mapping[str, Any]) -> bool:
    members = group["Members"]
    is_enough = len(members) >= CELLS if group["GroupName"] == REGISTRY else len(members) == CELLS
    return is_enough and all(member["State"] == "full" for member in members)


Act = Callable[[Operated, Random], None]
