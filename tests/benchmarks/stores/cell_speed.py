"""How fast the embedded cell itself is, under an event loop."""

import asyncio
import time
from pathlib import Path
from statistics import median, quantiles

from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import Append
from tests.benchmarks.stores.speed import Report

TASKS = 64
MESSAGE_BYTES = 1_024


class SystemClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000


def record(size_bytes: int) -> Append:
    return Append("B|0|00|0", b"suffix-0001", {"v": 1, "k": "s", "z": bytes(size_bytes)}, 0)


async def measure_single_appends(directory: Path, rounds: int, report: Report) -> None:
    """64 tasks that each append 1 KiB, again and again: what group commit makes of it."""
    cell = EmbeddedCell(directory, SystemClock())
    taken_s: list[float] = []

    async def send() -> None:
        for _ in range(rounds):
            started_s = time.perf_counter()
            await cell.append(record(MESSAGE_BYTES))
            taken_s.append(time.perf_counter() - started_s)

    started_s = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(TASKS)))
    _report(f"{TASKS} tasks append 1 KiB each", taken_s, started_s, cell, report)
    await cell.close()


async def measure_coalesced_appends(
    directory: Path, rounds: int, report: Report, *, work_us: int = 0
) -> None:
    """The same tasks, with whatever waits packed into one append at a time.

    Each task computes for `work_us` before each message, as a server does for a request.
    """
    cell = EmbeddedCell(directory, SystemClock())
    taken_s: list[float] = []
    waiting: list[asyncio.Future[None]] = []
    arrived = asyncio.Event()

    async def flush() -> None:
        while True:
            await arrived.wait()
            arrived.clear()
            packed = waiting[:]
            waiting.clear()
            await cell.append(record(MESSAGE_BYTES * len(packed)))
            for answer in packed:
                answer.set_result(None)

    async def send() -> None:
        for _ in range(rounds):
            _compute(work_us)
            started_s = time.perf_counter()
            answer = asyncio.get_running_loop().create_future()
            waiting.append(answer)
            arrived.set()
            await answer
            taken_s.append(time.perf_counter() - started_s)

    started_s = time.perf_counter()
    flushing = asyncio.create_task(flush())
    await asyncio.gather(*(send() for _ in range(TASKS)))
    _report(
        f"{TASKS} tasks, 1 KiB each, coalesced, {work_us} us of work",
        taken_s,
        started_s,
        cell,
        report,
    )
    flushing.cancel()
    await cell.close()


def _compute(work_us: int) -> None:
    end_s = time.perf_counter() + work_us / 1e6
    while time.perf_counter() < end_s:
        pass


def _report(
    what: str, taken_s: list[float], started_s: float, cell: EmbeddedCell, report: Report
) -> None:
    elapsed_s = time.perf_counter() - started_s
    commits, commit_s = cell.counters.commits, cell.counters.commit_s
    report(
        what,
        f"{len(taken_s) / elapsed_s:8.0f}/s  p50 {median(taken_s) * 1e6:7.0f} us  "
        f"p99 {quantiles(taken_s, n=100)[98] * 1e6:7.0f} us  "
        f"{commits / elapsed_s:6.0f} commits/s of {commit_s / commits * 1e6:.0f} us",
    )
