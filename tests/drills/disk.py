"""File systems in a file: made, mounted, cut off like power cuts them off, mounted again.

Needs root, or `sudo` without a password, which is used for mounting and for cutting only.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from tests.drills.cut import FLAGS, cut

IMAGE_PROBE_BYTES: Final = 4 * 1024 * 1024
_FOLDER: Final = re.compile(r"drill-(\d+)-\w+")
_COMMAND_S_MAX: Final = 60
_SAID_CHARS_MAX: Final = 200


class DiskError(Exception):
    """A file system cannot be made, mounted or cut; the message is one line."""


def as_root() -> tuple[str, ...]:
    """What to put before a command that needs root."""
    return ("sudo", "-n") if os.geteuid() else ()


def run(*command: str | Path, needs_root: bool = False) -> str:
    """Run a command and return what it printed. Raises DiskError."""
    words = [*(as_root() if needs_root else ()), *map(str, command)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_COMMAND_S_MAX, check=False
        )
    except OSError as error:
        raise DiskError(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        said = " ".join((done.stderr + done.stdout).split())
        raise DiskError(f"{command[0]} ended with {done.returncode}: {said[:_SAID_CHARS_MAX]}")
    return done.stdout


class Disk:
    """An ext4 file system in a file of a folder, mounted beside it."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.mount_point = folder / "mounted"
        self._image = folder / "image"
        self._size_bytes = size_bytes

    def __enter__(self) -> Self:
        self.mount_point.mkdir()
        with self._image.open("wb") as image:
            image.truncate(self._size_bytes)
        # No blocks are kept for root: a full disk is full for everybody.
        owner = f"root_owner={os.geteuid()}:{os.getegid()}"
        run(_tool("mkfs.ext4"), "-q", "-F", "-m", "0", "-E", owner, self._image)
        try:
            self.mount()
        except DiskError:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def mount(self) -> None:
        """Mount it; what power was cut from is recovered by that."""
        run("mount", "-o", "loop", self._image, self.mount_point, needs_root=True)

    def unmount(self) -> None:
        """Let go of it."""
        run("umount", self.mount_point, needs_root=True)

    def cut(self, how: str) -> None:
        """From now on nothing reaches the disk: see `FLAGS`. Raises DiskError."""
        if os.geteuid():
            run(sys.executable, "-m", "tests.drills.cut", self.mount_point, how, needs_root=True)
        else:
            cut(self.mount_point, FLAGS[how])

    def check(self) -> None:
        """Look for damage of the file system itself, while it is not mounted. Raises DiskError."""
        run(_tool("e2fsck"), "-f", "-n", self._image)

    def close(self) -> None:
        """Unmount it, whoever still uses it, and remove it."""
        if self.mount_point.is_mount():
            run("umount", "--lazy", self.mount_point, needs_root=True)
        self.mount_point.rmdir()
        self._image.unlink()


def reason_to_skip(folder: Path) -> str:
    """Why file systems cannot be mounted here; empty if they can."""
    probe = Path(tempfile.mkdtemp(prefix="probe-", dir=folder))
    try:
        with Disk(probe, IMAGE_PROBE_BYTES) as disk:
            disk.cut("nothing")
    except (DiskError, OSError) as error:
        return f"needs root (or sudo without a password) and loop devices ({error})"
    finally:
        shutil.rmtree(probe, ignore_errors=True)
    return ""


def work_folder(parent: Path) -> Path:
    """A new folder that tells whose it is."""
    return Path(tempfile.mkdtemp(prefix=f"drill-{os.getpid()}-", dir=parent))


def remove_leftovers(parent: Path) -> None:
    """End, unmount and remove what drills left behind that were killed. Raises DiskError."""
    for folder in parent.glob("drill-*"):
        owner = _FOLDER.fullmatch(folder.name)
        if owner is None or Path(f"/proc/{owner.group(1)}").exists():
            continue
        for pid in _users_of(folder):
            os.kill(pid, signal.SIGKILL)
        for mounted in (folder / "mounted", *folder.glob("*/mounted")):
            if mounted.is_mount():
                run("umount", "--lazy", mounted, needs_root=True)
        shutil.rmtree(folder)


def _users_of(folder: Path) -> Iterator[int]:
    """Processes that were started with this folder in their arguments."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(folder) in arguments:
            yield int(process.name)


def _tool(name: str) -> str:
    """Tools for file systems are often where only root looks."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin") or name
