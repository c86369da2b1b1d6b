"""Blocking calls beside an event loop."""

import asyncio
import threading

import pytest

from data_plane.ports import CellUnavailableError
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from tests.unit.repeatable import HandClock


def offload_of(threads_max: int, patience_s: float = 60) -> EventLoopOffload:
    clock = HandClock()
    return EventLoopOffload(threads_max, clock, Guard("test", clock), patience_s=patience_s)


def test_it_answers_what_the_call_returns_or_raises() -> None:
    async def main() -> None:
        offload = offload_of(2)
        assert await offload(lambda: 6 * 7) == 42
        with pytest.raises(ZeroDivisionError):
            await offload(lambda: 1 // 0)
        offload.close()

    asyncio.run(main())


def test_no_more_calls_run_than_there_are_threads() -> None:
    running: set[int] = set()
    most: list[int] = []
    full = threading.Barrier(3)

    def call() -> None:
        running.add(threading.get_ident())
        full.wait(timeout=60)  # returns when all three threads are inside
        most.append(len(running))

    async def main() -> None:
        offload = offload_of(3)
        await asyncio.gather(*(offload(call) for _ in range(9)))
        offload.close()

    asyncio.run(main())
    assert most == [3] * 9


def test_a_cancelled_caller_leaves_the_others_their_threads() -> None:
    entered, release = threading.Event(), threading.Event()

    def call() -> None:
        entered.set()
        release.wait(timeout=60)

    async def main() -> None:
        offload = offload_of(1)
        doomed = asyncio.create_task(offload(call))
        await asyncio.to_thread(entered.wait, 60)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        release.set()
        assert await offload(lambda: "next") == "next"
        offload.close()

    asyncio.run(main())


def test_close_leaves_out_calls_that_have_no_thread_yet() -> None:
    entered, release = threading.Event(), threading.Event()
    made: list[str] = []

    def call() -> None:
        entered.set()
        release.wait(timeout=60)
        made.append("first")

    async def main() -> None:
        offload = offload_of(1)
        first = asyncio.create_task(offload(call))
        second = asyncio.create_task(offload(lambda: made.append("second")))
        await asyncio.to_thread(entered.wait, 60)
        release.set()
        offload.close()
        await first
        with pytest.raises(CellUnavailableError, match="threads have ended"):
            await second

    asyncio.run(main())
    assert made == ["first"]
