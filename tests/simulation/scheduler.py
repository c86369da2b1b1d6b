"""Coroutines under one seed and a virtual clock; nothing here knows what it runs.

Whatever is to happen lies in one heap, ordered by time and, at one time, by a random number: so
the seed decides every interleaving, and one seed always gives the same one.
"""

import heapq
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from random import Random
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")

STEPS_MAX = 400_000
"""A universe that needs more is taken to run in circles."""


IDLE_TURNS_MAX = 10_000
"""A task that asks so often to wait, and need not, within one step, holds up everybody."""


class StuckError(BaseException):
    """The universe makes no progress. Not an Exception: no task may take it for a fault."""


class Owner(Protocol):
    """A process: its tasks run only while it lives, and not while it is frozen."""

    alive: bool
    frozen_until_us: int


class Future(Generic[T]):
    """A value that one task waits for."""

    __slots__ = ("_error", "_scheduler", "_task", "_value", "done")

    def __init__(self, scheduler: "Scheduler") -> None:
        self.done = False
        self._scheduler = scheduler
        self._task: Task | None = None
        self._value: T
        self._error: Exception | None = None

    def resolve(self, value: T) -> None:
        """Set the value, unless there is an outcome already."""
        if not self.done:
            self.done = True
            self._value = value
            self._wake()

    def fail(self, error: Exception) -> None:
        """Raise this to the waiting task, unless there is an outcome already."""
        if not self.done:
            self.done = True
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._task is not None:
            self._scheduler.at(self._scheduler.now_us, self._task.step)

    def wait(self, task: "Task") -> None:
        """The task goes on when there is an outcome."""
        self._task = task

    def __await__(self) -> Generator["Future[T]", None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value


class Task:
    """A running coroutine of a process; `outcome` gets its result or its exception."""

    __slots__ = ("_context", "_coroutine", "_owner", "_scheduler", "outcome")

    def __init__(
        self, scheduler: "Scheduler", coroutine: Coroutine[Any, Any, Any], owner: Owner
    ) -> None:
        self._scheduler = scheduler
        self._coroutine = coroutine
        self._owner = owner
        self.outcome: Future[Any] = Future(scheduler)
        self._context = copy_context()

    def step(self) -> None:
        """Run to the next suspension."""
        owner = self._owner
        if self.outcome.done or not owner.alive:
            return
        if owner.frozen_until_us > self._scheduler.now_us:
            self._scheduler.at(owner.frozen_until_us, self.step)
            return
        try:
            awaited = self._context.run(self._coroutine.send, None)
        except StopIteration as stop:
            self.outcome.resolve(stop.value)
        except Exception as error:  # noqa: BLE001 - raised to whoever waits for the task
            self.outcome.fail(error)
        else:
            awaited.wait(self)

    def drop(self) -> None:
        """End the coroutine where it is: its process crashed."""
        if not self.outcome.done:
            self._context.run(self._coroutine.close)


class Scheduler:
    """`now_us` is the true time, which no process sees unless its clock is right."""

    def __init__(self, random: Random, start_us: int) -> None:
        self.now_us = start_us
        self.steps = 0
        self._idle_turns = 0
        self._random = random.random
        self._heap: list[tuple[int, float, int, Callable[[], None]]] = []
        self._numbered = 0

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        """Do this at that time; what is due at one time is done in random order."""
        self._numbered += 1
        heapq.heappush(
            self._heap, (max(time_us, self.now_us), self._random(), self._numbered, action)
        )

    def last_at(self, time_us: int, action: Callable[[], None]) -> None:
        """Do this at that time, after all else: nothing is drawn, so it changes no other order."""
        self._numbered += 1
        heapq.heappush(self._heap, (max(time_us, self.now_us), 1.0, self._numbered, action))

    def after(self, wait_us: int, action: Callable[[], None]) -> None:
        """Do this so much later."""
        self.at(self.now_us + wait_us, action)

    async def pause(self, wait_us: int) -> None:
        """Go on so much later."""
        over: Future[None] = Future(self)
        self.at(self.now_us + wait_us, lambda: over.resolve(None))
        await over

    def start(self, coroutine: Coroutine[Any, Any, Any], owner: Owner) -> Task:
        """Run a coroutine for a process, from some moment of the present on."""
        task = Task(self, coroutine, owner)
        self.at(self.now_us, task.step)
        return task

    def count_idle_turn(self) -> None:
        """A task asked to wait, and need not. Raises StuckError where it does nothing else."""
        self._idle_turns += 1
        if self._idle_turns > IDLE_TURNS_MAX:
            raise StuckError("a task spins: it waits for what is over, without end")

    def leap(self, wait_us: int) -> None:
        """Let time pass in which nobody did anything."""
        self.now_us += wait_us

    def run(self, until: Future[T]) -> T:
        """Run until there is an outcome. Raises StuckError, and the future's own exception."""
        heap = self._heap
        while not until.done:
            if not heap:
                raise StuckError("everyone waits, and nothing is going to happen")
            self.steps += 1
            self._idle_turns = 0
            if self.steps > STEPS_MAX:
                raise StuckError(f"not at its end after {STEPS_MAX} steps")
            time_us, _, _, action = heapq.heappop(heap)
            self.now_us = max(self.now_us, time_us)
            action()
        return _outcome(until)


def _outcome(future: Future[T]) -> T:
    try:
        next(future.__await__())
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("a future that is done suspends nobody")
