"""The coroutines of one call, stepped in one thread: what the blocking driver runs.

A coroutine suspends by one thing alone: it awaits an `Outcome` of its drive, which is settled by
another coroutine, by the clock, or by a call that returns from the pool.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from data_plane.ports import Clock

T = TypeVar("T")

NAP_S_MAX = 60.0
"""A longer sleep looks at the clock again, which may have jumped meanwhile."""


class DriverError(RuntimeError):
    """The driver is used in a way that it does not serve: a mistake of ours."""


class ForeignAwaitableError(DriverError):
    """A coroutine awaits something that only another driver could settle."""


class DeadlockError(DriverError):
    """Every coroutine waits for another one, and nothing is going to happen."""


class Outcome(Generic[T]):
    """What one coroutine waits for. `name` says what it is, for the message of a deadlock."""

    __slots__ = ("_drive", "_error", "_value", "_waiting", "done", "name")

    def __init__(self, drive: "Drive", name: object) -> None:
        self.name = name
        self.done = False
        self._drive = drive
        self._waiting: Task[Any] | None = None
        self._value: T
        self._error: BaseException | None = None

    def resolve(self, value: T) -> None:
        """Let the coroutine go on with this value."""
        self._value = value
        self._settle()

    def fail(self, error: BaseException) -> None:
        """Raise this in the coroutine."""
        self._error = error
        self._settle()

    def _settle(self) -> None:
        self.done = True
        self._drive.settled(self, self._waiting)

    def wakes(self, task: "Task[Any]", drive: "Drive") -> bool:
        """Let the task go on when this is settled; False where that is up to another drive."""
        self._waiting = task
        return self._drive is drive

    def result(self) -> T:
        """The value of an outcome that is settled; raises its error."""
        if self._error is not None:
            raise self._error
        return self._value

    def __await__(self) -> Generator["Outcome[T]", None, T]:
        if not self.done:
            yield self
        return self.result()


class Task(Outcome[T]):
    """A coroutine under way, as the outcome that it will have.

    It has a context of its own, which begins as that of whoever starts it.
    """

    __slots__ = ("awaits", "context", "coroutine")

    def __init__(self, drive: "Drive", call: Awaitable[T]) -> None:
        super().__init__(drive, call)
        self.coroutine = call if isinstance(call, Coroutine) else _awaiting(call)
        self.awaits: Outcome[Any] | None = None
        self.context = copy_context()


async def _awaiting(call: Awaitable[T]) -> T:
    return await call


class Drive:
    """One run of a driver. `lanes` and `waiters` are its Waits' own."""

    def __init__(
        self, clock: Clock, sleep: Callable[[float], object], pool: Callable[[], Executor]
    ) -> None:
        self.lanes: dict[Hashable, Any] = {}
        self.waiters: dict[Hashable, deque[Outcome[None]]] = {}
        self._clock = clock
        self._sleep = sleep
        self._pool = pool
        self._tasks: dict[Task[Any], None] = {}
        self._ready: deque[Task[Any]] = deque()
        self._alarms: dict[Outcome[None], int] = {}
        self._calls: dict[Future[Any], Outcome[Any]] = {}
        self._returned: SimpleQueue[Future[Any]] = SimpleQueue()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Step until all coroutines have ended; what `main` returns or raises."""
        try:
            task = self.start(main)
            while self._tasks:
                self._turn()
        except BaseException as reason:
            for failure in self._abandon():
                reason.add_note(f"while everything was ended: {failure!r}")
            raise
        return task.result()

    def start(self, call: Awaitable[T]) -> Task[T]:
        """Run a coroutine beside the others, from one of the next turns on."""
        task = Task(self, call)
        self._tasks[task] = None
        self._ready.append(task)
        return task

    def alarm(self, time_us: int, name: object) -> Outcome[None]:
        """An outcome that is settled at this time of the clock, if nobody does it before."""
        outcome: Outcome[None] = Outcome(self, name)
        self._alarms[outcome] = time_us
        return outcome

    def is_alone(self) -> bool:
        """Whether nothing goes on but the coroutine that asks, and those that wait for it."""
        return not (self._ready or self._alarms or self._calls)

    def submit(self, call: Callable[[], T]) -> Outcome[T]:
        """Make the call in a thread of the pool."""
        outcome: Outcome[T] = Outcome(self, call)
        future = self._pool().submit(partial(copy_context().run, call))
        self._calls[future] = outcome
        future.add_done_callback(self._returned.put)
        return outcome

    def settled(self, outcome: Outcome[Any], waiting: Task[Any] | None) -> None:
        """The outcome is there: the coroutine that waits for it may go on."""
        self._alarms.pop(outcome, None)
        if waiting is not None:
            self._ready.append(waiting)

    def _turn(self) -> None:
        if self._ready:
            self._step(self._ready.popleft())
            return
        wait_s = self._ring()
        if self._ready:
            return
        if self._calls:
            self._receive(wait_s)
        elif wait_s is not None:
            self._sleep(wait_s)
        else:
            awaited = ", ".join(str(task.awaits and task.awaits.name) for task in self._tasks)
            raise DeadlockError(f"nothing is going to happen, and these are awaited: {awaited}")

    def _step(self, task: Task[Any]) -> None:
        coroutine = task.coroutine
        try:
            awaited = task.context.run(coroutine.send, None)
            while not isinstance(awaited, Outcome) or not awaited.wakes(task, self):
                message = f"{coroutine!r} awaits {awaited!r}, which the blocking driver cannot do"
                awaited = task.context.run(coroutine.throw, ForeignAwaitableError(message))
        except StopIteration as stop:
            del self._tasks[task]
            task.resolve(stop.value)
        except Exception as error:  # noqa: BLE001 - raised to whoever waits for the task
            del self._tasks[task]
            task.fail(error)
        else:
            task.awaits = awaited

    def _ring(self) -> float | None:
        """Settle what is due; the seconds until something may be, None where nothing will."""
        if not self._alarms:
            return None
        now_us = self._clock.now_us()
        for outcome, time_us in sorted(self._alarms.items(), key=itemgetter(1)):
            if time_us > now_us:
                return min((time_us - now_us) / 1_000_000, NAP_S_MAX)
            outcome.resolve(None)
        return None

    def _receive(self, wait_s: float | None) -> None:
        """Wait for a call to return, at most so long."""
        try:
            future = self._returned.get(timeout=wait_s)
        except Empty:
            return
        outcome = self._calls.pop(future)
        error = future.exception()
        if error is None:
            outcome.resolve(future.result())
        else:
            outcome.fail(error)

    def _abandon(self) -> list[BaseException]:
        """End everything; what fails meanwhile.

        Calls that have no thread yet are not made, the others return first. Then coroutines end
        where they are, the youngest first, since the elder wait for them.
        """
        failures: list[BaseException] = []
        self._ready.clear()
        self._alarms.clear()
        try:
            for future in self._calls:
                future.cancel()
            while self._calls:
                future = self._returned.get()
                del self._calls[future]
                error = None if future.cancelled() else future.exception()
                failures += [] if error is None else [error]
        finally:
            for task in reversed(list(self._tasks)):
                try:
                    task.context.run(task.coroutine.close)
                except BaseException as error:  # noqa: BLE001 - the others must end, too
                    failures.append(error)
        return failures
