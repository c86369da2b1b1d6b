"""What servers run on, and how it gives way under them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final, Protocol

from data_plane.http.scrapes import HEALTH_KEPT_S
from tests.drills.caller import UNAVAILABLE, Caller, RefusedError
from tests.drills.disk import Disk
from tests.drills.subject import Subject

DISK_BYTES_LEAST: Final = 128 * 1024 * 1024
DISK_BYTES_PER_CELL: Final = 2 * 1024 * 1024 * 1024
"""The file is sparse. Servers that crash every second collect nothing of what was deleted."""

_HOW_TO_CUT: Final = ("nothing", "journal", "everything")
_HOW_OFTEN: Final = (90, 7, 3)
_DEAD_DISK_SHARE: Final = 0.3
_DEAD_DISK_S_MAX: Final = 1.0
_SAID_S_MAX: Final = 30.0
"""What was said just before stands for HEALTH_KEPT_S; a probe under way may be from before, too."""


class Ground(Protocol):
    """A folder for data."""

    folder: Path

    def crash(self, subjects: Sequence[Subject], random: Random) -> None:
        """End all servers at once, the hard way."""

    def recover(self) -> None:
        """Make the folder usable again."""


class Kills:
    """A crash is kill -9, the mild one: what was written stays in the kernel's memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def crash(self, subjects: Sequence[Subject], random: Random) -> None:  # noqa: ARG002
        """End all servers."""
        for subject in subjects:
            subject.server.kill()

    def recover(self) -> None:
        """Nothing was broken."""


class PowerCuts:
    """A crash is a power cut: what was not synced is gone. All data lies on one file system."""

    def __init__(self, disk: Disk) -> None:
        self.folder = disk.mount_point
        self._disk = disk

    def crash(self, subjects: Sequence[Subject], random: Random) -> None:
        """Cut the file system off, then end the servers."""
        self._disk.cut(random.choices(_HOW_TO_CUT, _HOW_OFTEN)[0])
        if random.random() < _DEAD_DISK_SHARE:
            # Let the servers meet a dead disk, and the clients what is answered then.
            for subject in subjects:
                failed = subject.ledger.tally["unavailable"]
                if subject.ledger.wait_for("unavailable", failed + 1, _DEAD_DISK_S_MAX):
                    _expect_unavailable(subject)
        for subject in subjects:
            subject.server.kill()

    def recover(self) -> None:
        """Mount what is on the disk."""
        self._disk.unmount()
        self._disk.mount()


def _expect_unavailable(subject: Subject) -> None:
    """A server that cannot go on says so to whoever watches over it, if not at once."""
    until_s = time.monotonic() + _SAID_S_MAX
    said = ""
    while time.monotonic() < until_s:
        try:
            with Caller(subject.server.port) as caller:
                said = caller.page("/health")
        except RefusedError as error:
            if error.status == UNAVAILABLE:
                return
            said = str(error)
        time.sleep(HEALTH_KEPT_S)  # what /health said stands for so long
    subject.ledger.accuse("answer", f"/health of a server without a disk says {said}")


@contextmanager
def power_cuts(folder: Path, cells: int) -> Iterator[PowerCuts]:
    """A file system of its own for so many servers, which has to be without damage at the end.

    Raises DiskError.
    """
    with Disk(folder, DISK_BYTES_LEAST + cells * DISK_BYTES_PER_CELL) as disk:
        yield PowerCuts(disk)
        disk.unmount()
        disk.check()
