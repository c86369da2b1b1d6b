"""The ports Waits and Offload on asyncio, for one event loop."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from data_plane.core.deadline import left_us
from data_plane.ports import CellUnavailableError, Clock, DeadlinePassedError
from data_plane.runtime.guard import Guard
from data_plane.runtime.signals import SignalLog

T = TypeVar("T")

Flush = Callable[[list[object]], Awaitable[Sequence[object | Exception]]]

_NAP_S_MAX = 60.0
"""A longer sleep looks at the clock again, which may have jumped meanwhile."""
_STOPPING_NAP_S = 0.02


class _Lane:
    """Entries that wait for the next flush of a lane, and the task that flushes."""

    __slots__ = ("entries", "flush", "outcomes", "task")

    def __init__(self, flush: Flush) -> None:
        self.entries: list[object] = []
        self.outcomes: list[asyncio.Future[object]] = []
        self.flush = flush
        self.task: asyncio.Task[None] | None = None


class EventLoopWaits:
    """Overlapping and waiting on the running event loop. Not thread-safe.

    `waiting` is how many calls of `wait_for` have not returned.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes: dict[Hashable, _Lane] = {}
        self._signals = SignalLog()
        self._waiters: dict[Hashable, deque[asyncio.Future[bool]]] = {}
        self.waiting = 0
        self._stopping = False

    async def sleep_until(self, time_us: int) -> None:
        """Return at this wall-clock time, or at once if it has passed."""
        while (left_us := time_us - self._clock.now_us()) > 0:  # noqa: ASYNC110 - time, no event
            await asyncio.sleep(min(left_us / 1_000_000, _NAP_S_MAX))

    async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        """Run the calls side by side; an exception stands in its call's place."""
        if len(calls) == 1:
            try:
                return [await calls[0]]
            except Exception as error:  # noqa: BLE001 - handed to the caller as the outcome
                return [error]
        outcomes: list[T | Exception] = []
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                raise outcome
            outcomes.append(outcome)
        return outcomes

    async def coalesce(self, lane: Hashable, entry: object, flush: Flush) -> object:
        """Hand the entry to `flush` together with all that arrive in the lane meanwhile.

        One flush of a lane runs at a time; entries that arrive while it runs form the next.
        A caller that is cancelled leaves its entry behind: it may be flushed already.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[object] = loop.create_future()
        waiting = self._lanes.get(lane)
        if waiting is None:
            waiting = self._lanes[lane] = _Lane(flush)
            waiting.task = loop.create_task(self._flush(lane, waiting))
        waiting.entries.append(entry)
        waiting.outcomes.append(outcome)
        waiting.flush = flush
        return await outcome

    async def _flush(self, name: Hashable, lane: _Lane) -> None:
        try:
            while lane.entries:
                entries, lane.entries = lane.entries, []
                owners, lane.outcomes = lane.outcomes, []
                try:
                    outcomes = await lane.flush(entries)
                    if len(outcomes) != len(entries):
                        message = f"{len(outcomes)} outcomes for {len(entries)} entries of {name!r}"
                        raise RuntimeError(message)
                except Exception as error:  # noqa: BLE001 - raised to every owner
                    outcomes = [error] * len(entries)
                except BaseException:
                    lane.outcomes = owners + lane.outcomes
                    raise
                _settle(owners, outcomes)
        finally:
            # Nothing awaits between the last look at the entries and this, so no entry is lost.
            del self._lanes[name]
            for outcome in lane.outcomes:
                outcome.cancel()

    def signals(self, channel: Hashable) -> int:  # noqa: ARG002 - one sequence serves all
        """A mark to hand to `wait_for`: to be read before looking for work."""
        return self._signals.mark

    def signal(self, channel: Hashable, count: int = 1) -> None:
        """Wake up to `count` waiters of the channel, those first that wait longest."""
        self._signals.note(channel)
        self._wake(channel, count)

    def _wake(self, channel: Hashable, count: int) -> None:
        waiters = self._waiters.get(channel)
        if waiters is None:
            return
        while waiters and count > 0:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)
                count -= 1
        if not waiters:
            del self._waiters[channel]

    async def wait_for(self, channel: Hashable, seen: int, until_us: int) -> bool:
        """Return when the channel was signalled after `seen` was read, or at this time.

        False means that `stop_waiting` was called: what merely waits for work ends now. What waits
        for something else may call again, and does not spin.
        """
        if self._signals.has_passed(channel, seen):
            return not self._stopping
        left_us = until_us - self._clock.now_us()
        if left_us <= 0:
            return not self._stopping
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.setdefault(channel, deque()).append(waiter)
        delay_s = left_us / 1_000_000
        if self._stopping:
            delay_s = min(delay_s, _STOPPING_NAP_S)
        timer = loop.call_later(delay_s, _expire, waiter)
        woken = False
        self.waiting += 1
        try:
            woken = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                # The signal meant for this one goes to the next, or its message would lie there.
                woken = True
                self._wake(channel, 1)
            raise
        finally:
            self.waiting -= 1
            timer.cancel()
            if not woken:
                self._leave(channel, waiter)
        return not self._stopping

    def _leave(self, channel: Hashable, waiter: asyncio.Future[bool]) -> None:
        waiters = self._waiters.get(channel)
        if waiters is None or waiter not in waiters:
            return  # a signal passed over it, because its time was up
        waiters.remove(waiter)
        if not waiters:
            del self._waiters[channel]

    def stop_waiting(self) -> None:
        """The process stops: all that wait on a channel return now, later ones within moments."""
        self._stopping = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                _expire(waiter)


def _expire(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


def _settle(owners: list[asyncio.Future[object]], outcomes: Sequence[Any]) -> None:
    for owner, outcome in zip(owners, outcomes, strict=True):
        if owner.done():
            continue
        if isinstance(outcome, Exception):
            owner.set_exception(outcome)
        else:
            owner.set_result(outcome)


class EventLoopOffload:
    """Calls that block, on at most `threads_max` threads beside the event loop, behind a guard.

    What more there is waits for a thread, for `patience_s` or until the deadline of its request.
    A caller that is cancelled, or whose deadline passes, does not end its call: it keeps its thread
    until it returns, and the guard then learns how it ended.
    """

    def __init__(self, threads_max: int, clock: Clock, guard: Guard, *, patience_s: float) -> None:
        self._pool = ThreadPoolExecutor(threads_max, guard.name)
        self._free = asyncio.Semaphore(threads_max)
        self._clock = clock
        self._guard = guard
        self._patience_s = patience_s
        self._closed = False

    async def __call__(self, call: Callable[[], T]) -> T:
        """Answer what `call` returns, or raise what it raises.

        Raises CircuitOpenError, CellUnavailableError where no thread got free in time,
        DeadlinePassedError.
        """
        self._guard.check()
        left = left_us(self._clock.now_us())
        left_s = None if left is None else left / 1_000_000
        if left_s is not None and left_s <= 0:
            raise DeadlinePassedError(f"{self._guard.name}: the request's time is over")
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        await self._take_thread(asked_s, left_s)
        try:
            permit = self._guard.admit()
        except CellUnavailableError:
            self._free.release()
            raise

        def ended(returned: asyncio.Future[T]) -> None:
            self._free.release()
            dropped = asyncio.CancelledError() if returned.cancelled() else None
            self._guard.ended(permit, dropped or returned.exception())

        returned = loop.run_in_executor(self._pool, partial(copy_context().run, call))
        returned.add_done_callback(ended)
        if left_s is None:
            return await asyncio.shield(returned)
        try:
            async with asyncio.timeout_at(asked_s + left_s) as limit:
                return await asyncio.shield(returned)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlinePassedError(f"{self._guard.name} did not answer in time") from error

    async def _take_thread(self, asked_s: float, left_s: float | None) -> None:
        if not self._free.locked():
            await self._free.acquire()  # at once
        else:
            patience_s = self._patience_s if left_s is None else min(self._patience_s, left_s)
            try:
                async with asyncio.timeout_at(asked_s + patience_s):
                    await self._free.acquire()
            except TimeoutError as error:
                raise CellUnavailableError(
                    f"{self._guard.name}: no thread was free in time"
                ) from error
        if self._closed:
            self._free.release()
            raise CellUnavailableError(f"{self._guard.name}: its threads have ended")

    def close(self) -> None:
        """End the threads, when the calls that have one have returned; the others are not made."""
        self._closed = True
        self._pool.shutdown(cancel_futures=True)
