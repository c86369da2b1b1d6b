"""One incarnation of a front end, as its code sees the world: clock, entropy, waits."""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from inspect import iscoroutine
from random import Random
from typing import Any, TypeVar

from data_plane.ports import DeadlinePassedError
from tests.simulation.scheduler import Future, Scheduler, Task

T = TypeVar("T")
Flush = Callable[[list[object]], Awaitable[Sequence[object | Exception]]]


class _Lane:
    """Entries that wait for the next flush, with the futures of their owners."""

    __slots__ = ("entries", "flush")

    def __init__(self, flush: Flush) -> None:
        self.entries: list[tuple[object, Future[object]]] = []
        self.flush = flush


class Process:
    """Implements the ports Clock, Entropy and Waits for one front end.

    `offset_us` is by how much its clock is wrong; with `clock_us` it goes by that instead.
    Tasks of a process that is frozen go on when it
    thaws; those of one that crashed never do. Until `sends_until_us` requests may leave it that it
    decided upon before it froze, also where it thawed earlier.
    """

    def __init__(self, name: str, scheduler: Scheduler, seed: str, offset_us: int = 0) -> None:
        self.name = name
        self.alive = True
        self.frozen_until_us = 0
        self.sends_until_us = 0
        self.offset_us = offset_us
        self.clock_us: Callable[[], int] | None = None
        self.on_crash: list[Callable[[], None]] = []
        self._scheduler = scheduler
        self._random = Random(seed)
        self._tasks: dict[Task, None] = {}
        self._lanes: dict[Hashable, _Lane] = {}
        self._signals: dict[Hashable, int] = {}
        self._waiters: dict[Hashable, deque[Future[None]]] = {}

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Task:
        """Run a coroutine in this process."""
        task = self._scheduler.start(coroutine, self)
        self._tasks[task] = None
        if len(self._tasks) > 64:
            self._tasks = {task: None for task in self._tasks if not task.outcome.done}
        return task

    @property
    def settles_us(self) -> int:
        """When it stands still no more, and nothing of before is left in it."""
        return max(self.frozen_until_us, self.sends_until_us)

    def freeze(self, for_us: int) -> None:
        """Stand still from now for so long, or for as long as it was to already."""
        self.frozen_until_us = max(self.frozen_until_us, self._scheduler.now_us + for_us)

    def crash(self) -> None:
        """Stop for good, between any two steps."""
        if not self.alive:
            return
        self.alive = False
        for task in self._tasks:
            task.drop()
        for notice in self.on_crash:
            notice()

    # Clock, Entropy

    def now_us(self) -> int:
        """The time, as wrong as this process has it."""
        if self.clock_us is not None:
            return self.clock_us()
        return self.machine_us()

    def machine_us(self) -> int:
        """Its machine's clock."""
        return self._scheduler.now_us + self.offset_us

    def random_bytes(self, count: int) -> bytes:
        """Bytes that depend on the seed alone."""
        return self._random.randbytes(count)

    # Waits

    async def sleep_until(self, time_us: int) -> None:
        """Return at this time of the own clock, which may jump meanwhile."""
        while (left_us := time_us - self.now_us()) > 0:
            await self._scheduler.pause(min(left_us, 60_000_000))

    async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        """Run the calls side by side; an exception stands in its call's place."""
        # What is dropped before it began must know that nobody will await it.
        tasks = [self.start(call if iscoroutine(call) else _awaiting(call)) for call in calls]
        outcomes: list[T | Exception] = []
        for task in tasks:
            try:
                outcomes.append(await task.outcome)
            except Exception as error:  # noqa: BLE001 - the outcome of its call
                outcomes.append(error)
        return outcomes

    async def in_turns(self, work: Generator[None, None, T]) -> T:
        """What the work returns; others go on wherever it may be interrupted."""
        while True:
            try:
                next(work)
            except StopIteration as done:
                result: T = done.value
                return result
            await self._scheduler.pause(1)

    async def coalesce(
        self, lane: Hashable, entry: object, flush: Flush, until_us: int | None = None
    ) -> object:
        """Hand the entry to `flush` together with all that arrive in the lane meanwhile."""
        outcome: Future[object] = Future(self._scheduler)
        waiting = self._lanes.get(lane)
        if waiting is None:
            self._lanes[lane] = waiting = _Lane(flush)
            self.start(self._flush_all(lane, waiting))
        waiting.entries.append((entry, outcome))
        waiting.flush = flush
        if until_us is not None:
            passed = DeadlinePassedError("the request's time was over before it was done")
            at_us = self._scheduler.now_us + until_us - self.now_us()
            self._scheduler.last_at(at_us, lambda: outcome.fail(passed))
        return await outcome

    async def _flush_all(self, lane: Hashable, waiting: "_Lane") -> None:
        while waiting.entries:
            entries, waiting.entries = waiting.entries, []
            outcomes: Sequence[object]
            try:
                outcomes = await waiting.flush([entry for entry, _ in entries])
            except Exception as error:  # noqa: BLE001 - raised to every owner
                outcomes = [error] * len(entries)
            for (_, owner), outcome in zip(entries, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    owner.fail(outcome)
                else:
                    owner.resolve(outcome)
        del self._lanes[lane]

    def signals(self, channel: Hashable) -> int:
        """How often the channel was signalled so far."""
        return self._signals.get(channel, 0)

    def signal(self, channel: Hashable, count: int = 1) -> None:
        """Wake up to `count` waiters of the channel, those first that wait longest."""
        self._signals[channel] = self._signals.get(channel, 0) + 1
        waiters = self._waiters.get(channel)
        while waiters and count:
            waiter = waiters.popleft()
            if not waiter.done:
                waiter.resolve(None)
                count -= 1

    async def wait_for(self, channel: Hashable, seen: int, until_us: int) -> bool:
        """Return when the channel was signalled after `seen` was read, or at this time."""
        left_us = until_us - self.now_us()
        if self.signals(channel) > seen or left_us <= 0:
            self._scheduler.count_idle_turn()
            return True
        waiter: Future[None] = Future(self._scheduler)
        self._waiters.setdefault(channel, deque()).append(waiter)
        self._scheduler.after(left_us, lambda: waiter.resolve(None))
        await waiter
        return True


class MachineClock:
    """Implements the port Clock: that of the machine on which a process runs."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_us(self) -> int:
        """Microseconds."""
        return self._process.machine_us()


async def _awaiting(call: Awaitable[T]) -> T:
    return await call
