"""Blocking calls beside an event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from data_plane.core.circuit_breaker import BreakerRules
from data_plane.core.deadline import deadline
from data_plane.ports import CellUnavailableError, DeadlinePassedError
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import CircuitOpenError, Guard
from tests.unit.repeatable import HandClock

LIMIT_S = 60


CLOCK = HandClock()
"""It stands still: a deadline is as far away when it is looked at as when it was set."""


def offload_of(threads_max: int, patience_s: float = LIMIT_S) -> EventLoopOffload:
    return EventLoopOffload(threads_max, CLOCK, Guard("test", CLOCK), patience_s=patience_s)


class Hanging:
    """A call that does not return until a test lets it."""

    def __init__(self) -> None:
        self.made = 0
        self._entered = threading.Semaphore(0)
        self._release = threading.Event()
        self.error: Exception | None = None

    def __call__(self) -> None:
        self.made += 1
        self._entered.release()
        assert self._release.wait(LIMIT_S)
        if self.error is not None:
            raise self.error

    async def entered(self) -> None:
        assert await asyncio.to_thread(self._entered.acquire, timeout=LIMIT_S)

    def release(self) -> None:
        self._release.set()


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not fact():  # noqa: ASYNC110 - what another thread brings about
            await asyncio.sleep(0.001)  # between two looks


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


def test_a_caller_whose_deadline_passes_is_answered_and_its_call_keeps_the_thread() -> None:
    call = Hanging()

    async def main() -> None:
        offload = offload_of(1)
        with deadline(CLOCK.now_us() + 10_000), pytest.raises(DeadlinePassedError):
            await offload(call)
        next_one = asyncio.create_task(offload(lambda: "next"))
        await call.entered()
        assert (offload._guard.counters.in_flight, next_one.done()) == (1, False)
        call.release()
        assert await next_one == "next"
        offload.close()

    asyncio.run(main())


def test_nothing_is_begun_when_the_deadline_has_passed() -> None:
    made: list[str] = []

    async def main() -> None:
        offload = offload_of(1)
        with deadline(CLOCK.now_us()), pytest.raises(DeadlinePassedError):
            await offload(lambda: made.append("late"))
        offload.close()

    asyncio.run(main())
    assert made == []


@pytest.mark.parametrize("by_deadline", [True, False])
def test_who_gets_no_thread_in_time_fails_and_leaves_its_place_in_the_queue(
    by_deadline: bool,  # noqa: FBT001 - both bounds, the same case
) -> None:
    call = Hanging()

    async def main() -> None:
        offload = offload_of(1, patience_s=LIMIT_S if by_deadline else 0.01)
        held = asyncio.create_task(offload(call))
        await call.entered()
        for _ in range(3):
            until_us = CLOCK.now_us() + 100_000 if by_deadline else None
            with (
                deadline(until_us),
                pytest.raises(CellUnavailableError, match="no thread was free in time"),
            ):
                await offload(call)
        call.release()
        await held
        assert await offload(lambda: "well") == "well"
        offload.close()

    asyncio.run(main())
    assert call.made == 1


def test_what_waits_for_a_thread_when_the_breaker_opens_is_not_sent() -> None:
    call = Hanging()
    call.error = CellUnavailableError("gone")
    guard = Guard("test", CLOCK, rules=BreakerRules(weight_min=1, open_us=3600 * 1_000_000))

    async def main() -> None:
        offload = EventLoopOffload(1, CLOCK, guard, patience_s=LIMIT_S)
        calls = [asyncio.create_task(offload(call)) for _ in range(20)]
        await call.entered()
        call.release()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[1:]] == [CircuitOpenError] * 19
        with pytest.raises(CircuitOpenError):
            await offload(call)
        offload.close()

    asyncio.run(main())
    assert (call.made, guard.counters.rejected, guard.counters.failed) == (1, 20, 1)


def test_the_guard_learns_how_a_call_ended_for_which_nobody_waited() -> None:
    call = Hanging()
    call.error = CellUnavailableError("gone")

    async def main() -> None:
        offload = offload_of(1)
        with deadline(CLOCK.now_us() + 10_000), pytest.raises(DeadlinePassedError):
            await offload(call)
        await call.entered()
        call.release()
        await until(lambda: offload._guard.counters.failed == 1)
        offload.close()

    asyncio.run(main())


def test_a_timeout_of_the_call_itself_is_its_own() -> None:
    def time_out() -> None:
        raise TimeoutError("a disk's")

    async def main() -> None:
        offload = offload_of(1)
        with deadline(CLOCK.now_us() + 60_000_000), pytest.raises(TimeoutError):
            await offload(time_out)
        offload.close()

    asyncio.run(main())


def test_a_call_sees_the_context_of_its_caller() -> None:
    seen: ContextVar[str] = ContextVar("seen", default="nothing")

    async def main() -> str:
        offload = offload_of(1)
        seen.set("mine")
        try:
            return await offload(seen.get)
        finally:
            offload.close()

    assert asyncio.run(main()) == "mine"
