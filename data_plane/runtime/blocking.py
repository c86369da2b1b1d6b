"""Coroutines without an event loop: how engines run where one call is served after the other.

That is so in a Lambda function. All coroutines of a call are stepped in the thread that serves it,
so each step between two awaits is atomic for the others, as on an event loop, and engines need no
locks. Only calls that block (`BlockingDriver.offload`) leave the thread, and only while something
else of the same call goes on: what has nothing to overlap with costs no hop between threads.

Nothing runs between two calls. What survives in the driver is idle threads and the log of signals;
an engine that was built on the driver keeps its memory likewise. The next call finds it as the last
one left it, however long ago that was: it is a cache for which conditions of writes decide, as
that of any front end.
"""

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

from data_plane.core.turns import at_once
from data_plane.ports import Clock
from data_plane.runtime.drive import Drive, DriverError, Outcome
from data_plane.runtime.signals import SignalLog

T = TypeVar("T")

Flush = Callable[[list[object]], Awaitable[Sequence[object | Exception]]]


class BlockingDriver:
    """Runs coroutines that await nothing but `offload` and the `BlockingWaits` of this driver.

    It serves one call at a time, from whatever thread, and has at most `threads_max` threads of
    its own, which start when they are needed. `sleep` takes seconds, and `clock` moves meanwhile.
    """

    def __init__(self, clock: Clock, sleep: Callable[[float], object], *, threads_max: int) -> None:
        self.clock = clock
        self._sleep = sleep
        self._threads_max = threads_max
        self._pool: Executor | None = None
        self._in_use = threading.Lock()
        self._closed = False
        self._drive: Drive | None = None
        self._thread = 0

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and all that it starts to their ends; what it returns or raises.

        An exception that is no Exception (KeyboardInterrupt, say) ends all of them; it is raised
        when the calls that are under way have returned. Raises DriverError where the driver is in
        use or closed, DeadlockError where nothing is going to happen.
        """
        if not self._in_use.acquire(blocking=False):
            main.close()
            raise DriverError(f"the driver is in use by thread {self._thread}")
        try:
            if self._closed:
                main.close()
                raise DriverError("the driver is closed")
            self._thread = threading.get_ident()
            self._drive = Drive(self.clock, self._sleep, self._threads)
            return self._drive.run(main)
        finally:
            self._drive = None
            self._in_use.release()

    @property
    def drive(self) -> Drive:
        """The run under way in this thread. Raises DriverError where there is none."""
        if self._drive is None or self._thread != threading.get_ident():
            raise DriverError("the blocking driver does not run this coroutine")
        return self._drive

    @property
    def is_running(self) -> bool:
        """Whether a call is being served."""
        return self._drive is not None

    async def offload(self, call: Callable[[], T]) -> T:
        """Answer what `call` returns, or raise what it raises. Implements the port Offload."""
        drive = self.drive
        if drive.is_alone():
            return call()
        return await drive.submit(call)

    def close(self) -> None:
        """End the threads; nothing runs any more. Waits for the call that is being served."""
        with self._in_use:
            self._closed = True
            if self._pool is not None:
                self._pool.shutdown()

    def _threads(self) -> Executor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads_max, "blocking-call")
        return self._pool


class _Lane:
    """Entries that wait for the next flush of a lane, with the outcomes of their owners."""

    __slots__ = ("entries", "flush")

    def __init__(self, flush: Flush) -> None:
        self.entries: list[tuple[object, Outcome[object]]] = []
        self.flush = flush


class BlockingWaits:
    """Implements the port Waits within one run of the driver at a time.

    Whoever waits for a signal gets it from a coroutine of the same run, or waits until its time:
    what other processes do is found by looking again, as every front end must.
    """

    def __init__(self, driver: BlockingDriver) -> None:
        self._driver = driver
        self._signals = SignalLog()

    async def sleep_until(self, time_us: int) -> None:
        """Return at this wall-clock time, or at once if it has passed."""
        driver = self._driver
        if time_us > driver.clock.now_us():
            await driver.drive.alarm(time_us, "a time")

    async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        """Run the calls side by side; an exception stands in its call's place."""
        drive = self._driver.drive
        started = calls if len(calls) == 1 else [drive.start(call) for call in calls]
        outcomes: list[T | Exception] = []
        for call in started:
            try:
                outcomes.append(await call)
            except Exception as error:  # noqa: BLE001 - handed to the caller as the outcome
                outcomes.append(error)
        return outcomes

    async def in_turns(self, work: Generator[None, None, T]) -> T:
        """What the work returns: nothing else goes on in this run that would wait for it."""
        return await at_once(work)

    async def coalesce(
        self,
        lane: Hashable,
        entry: object,
        flush: Flush,
        until_us: int | None = None,  # noqa: ARG002 - a run has one call, and that one deadline
    ) -> object:
        """Hand the entry to `flush` together with all that arrive in the lane meanwhile.

        One flush of a lane runs at a time; entries that arrive while it runs form the next.
        """
        drive = self._driver.drive
        outcome: Outcome[object] = Outcome(drive, ("lane", lane))
        waiting = drive.lanes.get(lane)
        if waiting is None:
            waiting = drive.lanes[lane] = _Lane(flush)
            drive.start(_flush(drive, lane, waiting))
        waiting.entries.append((entry, outcome))
        waiting.flush = flush
        return await outcome

    def signals(self, channel: Hashable) -> int:  # noqa: ARG002 - one sequence serves all
        """A mark to hand to `wait_for`: to be read before looking for work."""
        return self._signals.mark

    def signal(self, channel: Hashable, count: int = 1) -> None:
        """Wake up to `count` waiters of the channel, those first that wait longest."""
        self._signals.note(channel)
        waiters = self._driver.drive.waiters.get(channel) if self._driver.is_running else None
        while waiters and count > 0:
            waiter = waiters.popleft()
            if not waiter.done:
                waiter.resolve(None)
                count -= 1

    async def wait_for(self, channel: Hashable, seen: int, until_us: int) -> bool:
        """Return when the channel was signalled after `seen` was read, or at this time.

        Never False: where calls are served one by one, no process stops in the midst of one.
        """
        driver = self._driver
        if self._signals.has_passed(channel, seen) or until_us <= driver.clock.now_us():
            return True
        drive = driver.drive
        waiter = drive.alarm(until_us, ("signal", channel))
        waiters = drive.waiters.setdefault(channel, deque())
        waiters.append(waiter)
        await waiter
        if waiter in waiters:
            waiters.remove(waiter)
        return True


async def _flush(drive: Drive, name: Hashable, lane: _Lane) -> None:
    while lane.entries:
        entries, lane.entries = lane.entries, []
        outcomes: Sequence[object | Exception]
        try:
            outcomes = await lane.flush([entry for entry, _ in entries])
            if len(outcomes) != len(entries):
                message = f"{len(outcomes)} outcomes for {len(entries)} entries of {name!r}"
                raise RuntimeError(message)
        except Exception as error:  # noqa: BLE001 - raised to every owner
            outcomes = [error] * len(entries)
        for (_, owner), outcome in zip(entries, outcomes, strict=True):
            if isinstance(outcome, Exception):
                owner.fail(outcome)
            else:
                owner.resolve(outcome)
    # Nothing awaits between the last look at the entries and this, so no entry is lost.
    del drive.lanes[name]
