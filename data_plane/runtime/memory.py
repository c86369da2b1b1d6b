"""Memory that is free goes back to the system, and how much there is.

glibc keeps what is free where nobody asks for it; on other systems nothing is done. (What Granian
allocates is looked after in `data_plane.http`.)
"""

import asyncio
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

GROWN_BYTES_MIN: Final = 16 * 1_048_576
"""Below this it is not worth the milliseconds."""

_LOOKS_MAX: Final = 6
"""After so many looks it is trimmed again as long as it has more than it once did: what was in use
at the last trim may be free now."""

_LIMIT_OF_BEFORE: Final = "memory.limit_in_bytes"

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_TRIM_BYTES: Final = 4 * 1_048_576
_MMAP_BYTES: Final = 1_114_112
"""What is longer, a body of a mebibyte for one, has pages of its own, which go back when it is
freed. Left alone glibc raises this to 32 MB after the first such body, and keeps holes of that
size. With half of it, and a trim at a mebibyte, a GetRecords of 500 KB took 500 new pages, and a
quarter more CPU."""


class Memory:
    """Gives back what is free after the process has grown. Made once, when it starts."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self._trim = getattr(libc, "malloc_trim", None)
        if self._trim is not None:
            libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
            libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
        self._level_bytes = 0
        self._least_bytes = 0
        self._looks = 0

    async def give_back(self) -> None:
        """Trim, in a thread, where the process has grown, and now and then while it is big.

        To be called every few seconds.
        """
        if self._trim is None:
            return
        now_bytes = resident_bytes()
        self._looks += 1
        has_grown = now_bytes > self._level_bytes + GROWN_BYTES_MIN
        is_big = now_bytes > self._least_bytes + GROWN_BYTES_MIN
        if has_grown or (is_big and self._looks >= _LOOKS_MAX):
            await asyncio.to_thread(self._trim, 0)
            now_bytes = resident_bytes()
            self._level_bytes = now_bytes
            self._looks = 0
        self._level_bytes = min(self._level_bytes, now_bytes)
        self._least_bytes = min(self._least_bytes or now_bytes, now_bytes)


def resident_bytes() -> int:
    """What this process has in memory, without pages of files; 0 where nobody says."""
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def memory_bytes(system: Path = Path("/")) -> int:
    """What this process may have: the machine's memory, or less by a control group it is in."""
    there_is = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([there_is, *_limits(system)])


def _limits(system: Path) -> Iterator[int]:
    """Those of its control groups, of version 2 or 1, by what is mounted where it usually is."""
    groups = system / "sys/fs/cgroup"
    try:
        lines = (system / "proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        _number, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        mount, name = (groups, "memory.max") if not kinds else (groups / "memory", _LIMIT_OF_BEFORE)
        own = PurePosixPath(path.lstrip("/"))
        # In a container its group may be the root of what is mounted.
        for group in (own, *own.parents, PurePosixPath()):
            try:
                yield int((mount / group / name).read_text(encoding="ascii"))
            except (OSError, ValueError):  # "max", or there is none
                continue
