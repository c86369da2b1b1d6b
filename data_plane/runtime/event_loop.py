"""The ports Waits and Offload on asyncio, for one event loop."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from data_plane.core.begun import is_begun, note_begun
from data_plane.core.concurrency_limit import ConcurrencyLimit
from data_plane.core.deadline import left_us
from data_plane.ports import CellUnavailableError, Clock, DeadlinePassedError, NoThreadError
from data_plane.runtime.guard import Guard
from data_plane.runtime.signals import SignalLog
from data_plane.runtime.turnstile import Turnstile

T = TypeVar("T")

Flush = Callable[[list[object]], Awaitable[Sequence[object | Exception]]]

_NAP_S_MAX = 60.0
"""A longer sleep looks at the clock again, which may have jumped meanwhile."""
_STOPPING_NAP_S = 0.02
_SLICE_S = 0.001
_TIME_OVER = "the request's time was over before it was done"
_LET_GO_EVERY_S = 0.1
"""How often those are looked for whose time ends: a timer for each of them costs more."""


class LongWork:
    """Long work takes turns: a slice of one at a time, and half of the time at most.

    Between two slices everything else that is due goes on. So what a slice takes is what others
    wait for it, however much long work there is. Before the first everything else goes on once,
    too: whoever has long work has often done other things of that size just now.
    """

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._free_s = 0.0

    async def __call__(self, work: Generator[None, None, T]) -> T:
        """What the work returns; it yields where it may be interrupted."""
        await asyncio.sleep(0)
        began_s = monotonic()
        while True:
            try:
                next(work)
            except StopIteration as done:
                self._rest(began_s)
                result: T = done.value
                return result
            if self._rest(began_s) or self._one.locked():
                async with self._one:
                    await asyncio.sleep(max(0.0, self._free_s - monotonic()))
                began_s = monotonic()

    def _rest(self, began_s: float) -> bool:
        """Whether it is time for others: all long work has as long a rest as this slice took."""
        now_s = monotonic()
        if now_s - began_s >= _SLICE_S:
            self._free_s = max(self._free_s, now_s) + now_s - began_s
        return self._free_s > now_s


class _Lane:
    """Entries that wait for the next flush of a lane, by their outcomes, and the task."""

    __slots__ = ("entries", "flush", "task")

    def __init__(self, flush: Flush) -> None:
        self.entries: dict[asyncio.Future[object], object] = {}
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
        self._bounded: list[tuple[int, asyncio.Future[object]]] = []
        """Until when outcomes of `coalesce` are waited for; those that are there, for a while."""
        self.in_turns = LongWork()
        self.on_signal: Callable[[Hashable], None] | None = None
        """Told of each signal that woke fewer than it could."""

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

    async def coalesce(
        self, lane: Hashable, entry: object, flush: Flush, until_us: int | None = None
    ) -> object:
        """Hand the entry to `flush` together with all that arrive in the lane meanwhile.

        One flush of a lane runs at a time; entries that arrive while it runs form the next.
        The entry of a caller that is cancelled, or let go soon after `until_us` by
        DeadlinePassedError, is not flushed any more; but that may be under way already.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[object] = loop.create_future()
        waiting = self._lanes.get(lane)
        if waiting is None:
            waiting = self._lanes[lane] = _Lane(flush)
            waiting.task = loop.create_task(self._flush(lane, waiting))
        waiting.entries[outcome] = entry
        waiting.flush = flush
        if until_us is not None:
            self._bounded.append((until_us, outcome))
            if len(self._bounded) == 1:
                self._let_go()
        try:
            return await outcome
        finally:
            # While a flush hangs many may come and go: nothing is kept for them.
            waiting.entries.pop(outcome, None)

    def _let_go(self) -> None:
        """Tell those whose time is over, and look again as long as there are others."""
        now_us = self._clock.now_us()
        for until_us, outcome in self._bounded:
            if until_us <= now_us and not outcome.done():
                outcome.set_exception(DeadlinePassedError(_TIME_OVER))
        self._bounded = [one for one in self._bounded if not one[1].done()]
        if self._bounded:
            left_s = (min(until_us for until_us, _ in self._bounded) - now_us) / 1_000_000
            loop = asyncio.get_running_loop()
            loop.call_later(min(left_s, _LET_GO_EVERY_S), self._let_go)

    async def _flush(self, name: Hashable, lane: _Lane) -> None:
        try:
            while lane.entries:
                entries, lane.entries = lane.entries, {}
                try:
                    outcomes = await lane.flush(list(entries.values()))
                    if len(outcomes) != len(entries):
                        message = f"{len(outcomes)} outcomes for {len(entries)} entries of {name!r}"
                        raise RuntimeError(message)
                except Exception as error:  # noqa: BLE001 - raised to every owner
                    outcomes = [error] * len(entries)
                except BaseException:
                    lane.entries = entries | lane.entries
                    raise
                _settle(list(entries), outcomes)
        finally:
            # Nothing awaits between the last look at the entries and this, so no entry is lost.
            del self._lanes[name]
            for outcome in lane.entries:
                outcome.cancel()

    def signals(self, channel: Hashable) -> int:  # noqa: ARG002 - one sequence serves all
        """A mark to hand to `wait_for`: to be read before looking for work."""
        return self._signals.mark

    def signal(self, channel: Hashable, count: int = 1) -> None:
        """Wake up to `count` waiters of the channel, those first that wait longest."""
        left = self.signal_here(channel, count)
        if left > 0 and self.on_signal is not None:
            self.on_signal(channel)

    def signal_here(self, channel: Hashable, count: int = 1) -> int:
        """As `signal`, and `on_signal` is not told: it comes from another server."""
        self._signals.note(channel)
        return self._wake(channel, count)

    def _wake(self, channel: Hashable, count: int) -> int:
        """Wake so many; how many more could have been."""
        waiters = self._waiters.get(channel)
        if waiters is None:
            return count
        while waiters and count > 0:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)
                count -= 1
        if not waiters:
            del self._waiters[channel]
        return count

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

    As many run at a time as their dependency sustains (core/concurrency_limit.py). What more there
    is waits for a place (turnstile.py), for `patience_s` or until the deadline of its request.
    A caller that is cancelled, or whose deadline passes, does not end its call: it keeps its thread
    until it returns, and the guard then learns how it ended.
    """

    def __init__(
        self,
        threads_max: int,
        clock: Clock,
        guard: Guard,
        *,
        patience_s: float,
        threads: Executor | None = None,
    ) -> None:
        self._pool = threads or ThreadPoolExecutor(threads_max, guard.name)
        self._limit = ConcurrencyLimit(threads_max)
        self._turnstile = Turnstile(lambda: self._limit.calls)
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
        await self._take_thread(left_s)
        try:
            permit = self._guard.admit()
        except CellUnavailableError:
            self._turnstile.leave()
            raise
        note_begun()
        began_us = round(loop.time() * 1_000_000)

        def ended(returned: asyncio.Future[T]) -> None:
            dropped = asyncio.CancelledError() if returned.cancelled() else None
            failed = self._guard.ended(permit, dropped or returned.exception())
            self._limit.ended(began_us, round(loop.time() * 1_000_000), failed=failed)
            self._turnstile.leave()

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

    async def _take_thread(self, left_s: float | None) -> None:
        patience_s = self._patience_s if left_s is None else min(self._patience_s, left_s)
        try:
            await self._turnstile.enter(patience_s, begun=is_begun())
        except TimeoutError as error:
            raise NoThreadError(f"{self._guard.name}: no thread was free in time") from error
        if self._closed:
            self._turnstile.leave()
            raise CellUnavailableError(f"{self._guard.name}: its threads have ended")

    def close(self) -> None:
        """End the threads, when the calls that have one have returned; the others are not made."""
        self._closed = True
        self._pool.shutdown(cancel_futures=True)
