"""What a store still does when its disk is full: facts, not times."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

from tests.benchmarks.stores.candidates import CANDIDATES, Failures
from tests.benchmarks.stores.speed import Report, rows_from, small_key

DISK_BYTES = 32 * 1024 * 1024


@contextmanager
def small_disk(report: Report) -> Iterator[Path]:
    """A directory with little room: a small file system, or limited files without the right."""
    with tempfile.TemporaryDirectory() as directory:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", directory]
        if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
            report("disk", f"tmpfs of {DISK_BYTES >> 20} MiB")
            try:
                yield Path(directory)
            finally:
                subprocess.run(["umount", directory], check=True)
            return
        report("disk", f"files limited to {DISK_BYTES >> 20} MiB each")
        soft, hard = getrlimit(RLIMIT_FSIZE)
        setrlimit(RLIMIT_FSIZE, (DISK_BYTES, hard))
        try:
            yield Path(directory)
        finally:
            setrlimit(RLIMIT_FSIZE, (soft, hard))


def observe_full_disk(name: str, report: Report) -> None:
    """Fill a small disk, then try what a queue must still do, in this order."""
    with small_disk(report) as directory:
        store = CANDIDATES[name](directory)
        acknowledged = 0
        refusals: list[str] = []
        while len(refusals) < 6:
            try:
                store.put(rows_from(acknowledged, 8, 1_000))
                acknowledged += 8
            except Failures as error:
                refusals.append(f"{type(error).__name__}: {error}"[:60])
        report("acknowledged before it was full", f"{acknowledged} items")
        report("refusals", " | ".join(dict.fromkeys(refusals)))
        _try("read when full", lambda: _count(store.get, acknowledged), report)
        _try("delete 1 when full", lambda: store.delete([small_key(0)]), report)
        _try("delete half in commits of 8", lambda: _delete(store.delete, acknowledged), report)
        _try("put after that", lambda: store.put(rows_from(1 << 40, 8, 1_000)), report)
        store.close()
        reopened = CANDIDATES[name](directory)
        _try("read after reopening", lambda: _count(reopened.get, acknowledged), report)
        _try("delete after reopening", lambda: reopened.delete([small_key(1)]), report)
        reopened.close()


def _try(what: str, call: Callable[[], object], report: Report) -> None:
    try:
        answer = call()
    except Failures as error:
        report(what, f"refused: {type(error).__name__}: {error}"[:90])
    else:
        report(what, "done" if answer is None else str(answer))


def _count(get: Callable[[bytes], bytes | None], items: int) -> str:
    return f"{sum(get(small_key(number)) is not None for number in range(items))} items"


def _delete(delete: Callable[[list[bytes]], None], items: int) -> None:
    for first in range(0, items // 2, 8):
        delete([small_key(first + n) for n in range(8)])
