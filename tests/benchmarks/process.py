"""Processes as Linux sees them: CPU time, anonymous memory, descendants; what fsync costs."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.benchmarks.latency import median

_NS_PER_S: Final = 1e9
_SCHEDULED_TIME: Final = 2
_SYNC_ROUNDS: Final = 200
_SYNC_BYTES: Final = 4096


def descendants(pid: int) -> list[int]:
    """Return the process and all that it started, and those that they started."""
    found = []
    waiting = [pid]
    while waiting:
        at = waiting.pop()
        found.append(at)
        for task in _listed(Path(f"/proc/{at}/task")):
            try:
                children = (task / "children").read_text()
            except FileNotFoundError:
                continue
            waiting.extend(int(child) for child in children.split())
    return found


def cpu_s(pid: int) -> float:
    """CPU time that a process, its threads and its descendants used; 0 for pid 0.

    Descendants that ended are missing. Unlike the counters in `stat` this is in nanoseconds.
    """
    if not pid:
        return 0.0
    used_ns = 0
    for process in descendants(pid):
        # A process that has just ended has no clock any more.
        with suppress(OSError):
            used_ns += time.clock_gettime_ns(_cpu_clock(process))
    return used_ns / _NS_PER_S


def _cpu_clock(pid: int) -> int:
    """The clock of a process, as clock_getcpuclockid(3) makes it, which Python does not offer."""
    return ~pid << 3 | _SCHEDULED_TIME


def machine_cpu_s() -> float:
    """CPU time that the whole machine used since its start, stolen time included."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _io_wait, irq, soft_irq, steal = map(int, fields)
    return (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")


def anonymous_bytes(pid: int) -> int:
    """Return RssAnon of a process and its descendants: memory that no file backs."""
    total = 0
    for process in descendants(pid):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                total += int(line.split()[1]) * 1024
    return total


def folder_bytes(folder: Path) -> int:
    """Disk space that the files of a folder take: what they occupy, not how long they are."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def sync_s(folder: Path) -> float:
    """Return the median time of an fdatasync after 4 KB were written to a file in a folder."""
    path = folder / "sync-probe"
    block = os.urandom(_SYNC_BYTES)
    times_s = []
    handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for at in range(_SYNC_ROUNDS):
            os.pwrite(handle, block, at % 16 * _SYNC_BYTES)
            began_s = time.perf_counter()
            os.fdatasync(handle)
            times_s.append(time.perf_counter() - began_s)
    finally:
        os.close(handle)
        path.unlink()
    return median(times_s)


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds a folder."""
    best = ("", "unknown")
    where = str(folder.resolve()) + "/"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if where.startswith(mount.rstrip("/") + "/") and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
