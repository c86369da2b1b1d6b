"""One execution of the cluster manager inside a process: observe, plan, act, verify.

Step Functions interprets the state machine where it is deployed; a server runs the same steps here.
How often a step is tried again, after how long, and how many actions are done at a time are read
from the state machine's file. A test runs both with the same tasks and compares every call
(tests/integration/test_executing.py).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Self

from control_plane.cluster.state_machine import definition
from data_plane.ports import CellUnavailableError, Entropy

OBSERVE: Final = "Observe"
PLAN: Final = "Plan"
DO: Final = "Do"
VERIFY: Final = "Verify"

FAILED: Final = "failed"
"""The outcome of an action that failed for good."""

TIMEOUT: Final = "States.Timeout"

_ANY: Final = "States.ALL"
_FRACTION_BYTES: Final = 4

LOG: Final = logging.getLogger(__name__)

Event = Mapping[str, Any]
Perform = Callable[[Event], Awaitable[Event]]


class StepFailedError(Exception):
    """A step failed for good: `name` is the error's, as the state machine has it."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}" if message else name)
        self.name = name


class StepTimeoutError(Exception):
    """A step took too long, and was cancelled."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Which errors are tried again, how often, and after how many seconds at most."""

    errors: frozenset[str]
    attempts_max: int
    interval_s: float
    backoff: float
    delay_s_max: float

    def covers(self, error: str) -> bool:
        """Whether it is about this error."""
        return error in self.errors or _ANY in self.errors

    def delay_s(self, attempts: int) -> float:
        """The longest wait after so many attempts."""
        return min(self.interval_s * self.backoff**attempts, self.delay_s_max)


@dataclass(frozen=True, slots=True)
class Step:
    """A step's retries, of which the first that covers an error counts, and its longest time."""

    timeout_s: float
    retries: tuple[Retry, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps by the names of their states; `at_once` actions are done at a time."""

    by_name: Mapping[str, Step]
    at_once: int

    @classmethod
    def read(cls) -> Self:
        """Those of the state machine."""
        states = definition("")["States"]
        act = states["Act"]
        tasks = {**states, **act["ItemProcessor"]["States"]}
        return cls(
            {name: _step_of(tasks[name]) for name in (OBSERVE, PLAN, DO, VERIFY)},
            act["MaxConcurrency"],
        )

    def within(self, timeouts_s: Mapping[str, float]) -> Self:
        """The same steps, with shorter times where these are shorter."""
        return type(self)(
            {
                name: Step(min(step.timeout_s, timeouts_s.get(name, inf)), step.retries)
                for name, step in self.by_name.items()
            },
            self.at_once,
        )


def _step_of(state: Mapping[str, Any]) -> Step:
    retries = (
        Retry(
            frozenset(retry["ErrorEquals"]),
            retry["MaxAttempts"],
            retry["IntervalSeconds"],
            retry["BackoffRate"],
            retry.get("MaxDelaySeconds", inf),
        )
        for retry in state["Retry"]
    )
    return Step(state["TimeoutSeconds"], tuple(retries))


@dataclass(frozen=True, slots=True)
class Finished:
    """How an execution ended: the results of its actions, and its error ("": it succeeded)."""

    results: tuple[Event, ...] = ()
    error: str = ""
    cause: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether it did, all of its actions included."""
        return not self.error


@dataclass(slots=True)
class Executor:
    """Executes the steps; `perform` does one, and raises what the state machine is told by name.

    `timed_out` is told which event took longer than how many seconds.
    """

    perform: Perform
    steps: Steps
    entropy: Entropy
    timed_out: Callable[[Event, float], None] = lambda _event, _timeout_s: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def execute(self, tasks: Sequence[object] = ()) -> Finished:
        """Observe, plan, act and verify; `tasks` are done behind what is planned."""
        wanted, unplanned = tasks, ""
        try:
            seen = await self._step(OBSERVE, {"task": "observe"})
            asked = {"task": "plan", "observed": seen["observed"], "tasks": tasks}
            wanted = (await self._step(PLAN, asked))["tasks"]
        except StepFailedError as error:
            unplanned = str(error)
        results = await self._act(wanted)
        if failed := [result for result in results if result["outcome"] == FAILED]:
            return Finished(results, "TaskFailed", f"{len(failed)} of {len(results)} actions")
        if unplanned:
            return Finished(results, "NotPlanned", unplanned)
        try:
            verified = await self._step(VERIFY, {"task": "verify", "results": list(results)})
        except StepFailedError as error:
            return Finished(results, "NotVerified", str(error))
        if verified["met"] is not True:
            return Finished(results, "NotVerified", "; ".join(verified.get("unmet", ())))
        return Finished(results)

    async def _act(self, tasks: Sequence[object]) -> tuple[Event, ...]:
        turns = asyncio.Semaphore(self.steps.at_once)

        async def one(task: object) -> Event:
            async with turns:
                return await self._do(task)

        async with asyncio.TaskGroup() as group:
            acts = [group.create_task(one(task)) for task in tasks]
        return tuple(act.result() for act in acts)

    async def _do(self, task: object) -> Event:
        """One action: the result of a round is the event of the next."""
        event: Event = {"task": task}
        while True:
            try:
                event = await self._step(DO, event)
            except StepFailedError as error:
                return {"task": event["task"], "outcome": FAILED, "error": error.name}
            if event["more"] is not True:
                return event

    async def _step(self, name: str, event: Event) -> Event:
        """Try a step until it succeeds. Raises StepFailedError."""
        step = self.steps.by_name[name]
        attempts: Counter[Retry] = Counter()
        while True:
            try:
                return await self._try(event, step.timeout_s)
            except Exception as error:
                told = _name_of(error)
                retry = next((one for one in step.retries if one.covers(told)), None)
                if retry is None or attempts[retry] >= retry.attempts_max:
                    raise StepFailedError(told, str(error)) from error
            delay_s = retry.delay_s(attempts[retry])
            attempts[retry] += 1
            await self.sleep(delay_s * self._fraction())

    async def _try(self, event: Event, timeout_s: float) -> Event:
        """What `perform` answers. Raises what it raises, and StepTimeoutError.

        A step that hangs may not answer to being cancelled, either: nobody waits for that.
        """
        call = asyncio.ensure_future(self.perform(event))
        call.add_done_callback(_log_failure)
        try:
            await asyncio.wait({call}, timeout=timeout_s)
        finally:
            is_over = not call.done()
            call.cancel()
        if is_over:
            self.timed_out(event, timeout_s)
            raise StepTimeoutError(f"no answer within {timeout_s:g} s")
        if call.cancelled():
            raise CellUnavailableError("what it waited for was cancelled")
        return call.result()

    def _fraction(self) -> float:
        drawn = int.from_bytes(self.entropy.random_bytes(_FRACTION_BYTES), "big")
        return drawn / (1 << 8 * _FRACTION_BYTES)


def _name_of(error: Exception) -> str:
    return TIMEOUT if isinstance(error, StepTimeoutError) else type(error).__name__


def _log_failure(call: "asyncio.Future[Event]") -> None:
    if call.cancelled() or (error := call.exception()) is None:
        return
    if isinstance(error, CellUnavailableError):
        LOG.info("a step failed: %r", error)
    else:
        LOG.error("a step failed", exc_info=error)
