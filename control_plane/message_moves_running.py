"""Running message move tasks: one bounded step, which servers take about every second.

Any number of servers may take steps at once, and be killed in any of them: a task has an owner for
some seconds at a time, and no message moves twice, whoever moves it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from control_plane.core import move_task
from control_plane.core.move_task import Allowance, MoveTask, Tasks
from control_plane.core.queue_arn import of_today, read_queue_arn
from control_plane.message_moves import Lead, MessageMoves
from data_plane.core.errors import (
    UNSUPPORTED_OPERATION,
    Fault,
    RefusedError,
    queue_does_not_exist,
)
from data_plane.core.message import Message, Redriven
from data_plane.core.queue import Queue
from data_plane.ports import Clock, Entropy, Queues, Waits
from data_plane.stored.bounds import MOVE_LEASE_MS

TASKS_PER_STEP_MAX: Final = 100
BATCH_MESSAGES: Final = 10
STEP_US_MAX: Final = 1_000_000
OWNED_US: Final = 5_000_000
OWNER_GUARD_US: Final = 1_000_000
"""The time of an owner is over this much later for others, whose clocks may differ."""

CUT_OFF_US: Final = MOVE_LEASE_MS * 1000 + 900_000
"""After this, messages whose move was cut off are met again."""

_OWNER_BYTES: Final = 6
_NO_SOURCE: Final = Fault("CouldNotDetermineMessageSource", "CouldNotDetermineMessageSource")

Target = Callable[[Message], Awaitable[Queue]]


class Outcome(NamedTuple):
    """How a task has ended."""

    status: str
    reason: str = ""


class Part(Enum):
    """Whose a task is that a step has met."""

    NONE = auto()
    OWN = auto()
    OTHERS = auto()


class Stepped(NamedTuple):
    """Running tasks that a step has met, its own and those of others; whether it met them all."""

    own: int
    others: int
    all_met: bool


class Redriving(Protocol):
    """What moves the messages; the engines do."""

    async def redrive(self, queue: Queue, *, count: int, target: Target) -> Redriven:
        """Move up to `count` visible messages to the queues that `target` says.

        Raises RefusedError for a queue that was dropped, CellUnavailableError.
        """
        ...


class MoveRunner:
    """One server's part in running the tasks that `moves` has."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a step needs
        self,
        moves: MessageMoves,
        queues: Queues,
        messages: Redriving,
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
    ) -> None:
        self._moves = moves
        self._queues = queues
        self._messages = messages
        self._clock = clock
        self._entropy = entropy
        self._waits = waits
        self._owner = ""
        self._after = b""
        self._looks_until_us: dict[str, int] = {}
        self._own_met: set[str] = set()
        self._has_met_all = True

    async def has_work(self) -> bool:
        """Whether there may be a running task. Raises CellUnavailableError."""
        return bool(await self._moves.leads(b"", 1))

    async def step(self) -> Stepped:
        """Move what is due of up to TASKS_PER_STEP_MAX tasks; which it has met.

        Raises CellUnavailableError; what was not done stays due.
        """
        if not self._after:
            self._own_met, self._has_met_all = set(), True
        leads = await self._moves.leads(self._after, TASKS_PER_STEP_MAX)
        self._after = leads[-1].key.sort if len(leads) == TASKS_PER_STEP_MAX else b""
        met: list[Part] = []
        for outcome in await self._waits.all_of([self._follow(lead) for lead in leads]):
            if isinstance(outcome, Exception):
                self._has_met_all = False
                raise outcome
            met.append(outcome)
        if not self._after and self._has_met_all:
            # Others have ended, or are another server's by now.
            self._looks_until_us = {one: self._looks_until_us[one] for one in self._own_met}
        return Stepped(met.count(Part.OWN), met.count(Part.OTHERS), not self._after)

    async def _follow(self, lead: Lead) -> Part:
        source = await self._queues.find(lead.account, lead.region, lead.name)
        task = move_task.active(await self._moves.tasks(source)) if source is not None else None
        if source is None or task is None:
            await self._moves.leads_nowhere(lead)
            return Part.NONE
        if task.status == move_task.CANCELLING:
            await self._moves.change(source, _on(task, move_task.ended_cancelling))
            return Part.NONE
        if not await self._own(source, task):
            return Part.OTHERS
        self._own_met.add(task.id)
        return Part.OWN if await self._run(source, task) else Part.NONE

    async def _own(self, source: Queue, task: MoveTask) -> bool:
        """Whether the task is this server's by now."""
        self._owner = self._owner or self._entropy.random_bytes(_OWNER_BYTES).hex()
        now_us = self._clock.now_us()
        if task.owner == self._owner:
            # After a restart nothing is known of what was cut off before.
            self._looks_until_us.setdefault(task.id, now_us + CUT_OFF_US)
            return True
        if task.owner and now_us < task.owner_until_us + OWNER_GUARD_US:
            return False

        def take(current: MoveTask) -> MoveTask:
            return self._owned(current) if current.owner == task.owner else current

        tasks = await self._moves.change(source, _on(task, take))
        self._looks_until_us[task.id] = now_us + CUT_OFF_US if task.owner else now_us
        return any(one.id == task.id and one.owner == self._owner for one in tasks)

    def _owned(self, task: MoveTask) -> MoveTask:
        until_us = self._clock.now_us() + OWNED_US
        return replace(task, owner=self._owner, owner_until_us=until_us)

    async def _run(self, source: Queue, task: MoveTask) -> bool:
        """Move as much as the rate allows now, and note it; whether the task goes on."""
        began_us = now_us = self._clock.now_us()
        allowed = move_task.allowance(task, now_us)
        most = min(allowed.messages, move_task.moved_max(task) - task.moved)
        moved, more, failure = 0, True, None
        while (
            moved < most
            and more
            and failure is None
            and began_us <= now_us < began_us + STEP_US_MAX
        ):
            batch = min(most - moved, BATCH_MESSAGES)
            some, more, failure = await self._messages.redrive(
                source, count=batch, target=self._target(task)
            )
            moved += some
            now_us = self._clock.now_us()
        return await self._note(source, task, allowed, Redriven(moved, more, failure))

    def _target(self, task: MoveTask) -> Target:
        """Where the task moves a message to. Raises RefusedError where there is no such queue."""

        async def target(message: Message) -> Queue:
            arn = task.destination or message.dead_letter_source
            if not arn:
                raise RefusedError(_NO_SOURCE, "The message was sent to its dead-letter queue.")
            found = await self._find(arn)
            if found is None:
                raise queue_does_not_exist()
            if found.reads_stream:
                raise RefusedError(
                    UNSUPPORTED_OPERATION, f"{found.name} reads a stream, and takes no messages."
                )
            return found

        return target

    async def _find(self, arn: str) -> Queue | None:
        name = read_queue_arn(of_today(arn))
        return await self._queues.find(name.account, name.region, name.name) if name else None

    async def _note(
        self, source: Queue, task: MoveTask, allowed: Allowance, redriven: Redriven
    ) -> bool:
        """Store what a step has done, and whether the task ends with it; whether it goes on."""
        now_us = self._clock.now_us()
        moved, failure = redriven.moved, redriven.failure
        ended = self._outcome(task, redriven, now_us)
        if failure is not None:
            self._looks_until_us[task.id] = now_us + CUT_OFF_US

        def note(current: MoveTask) -> MoveTask:
            noted = move_task.paid(current, allowed, moved)
            if current.status == move_task.RUNNING and ended is not None:
                return replace(noted, status=ended.status, reason=ended.reason)
            is_short = current.owner_until_us < now_us + OWNED_US // 2
            return self._owned(noted) if current.owner == self._owner and is_short else noted

        await self._moves.change(source, _on(task, note))
        if failure is not None and not isinstance(failure, RefusedError):
            raise failure
        return ended is None

    def _outcome(self, task: MoveTask, redriven: Redriven, now_us: int) -> Outcome | None:
        """How the task ends, if it does."""
        if isinstance(redriven.failure, RefusedError):
            return Outcome(move_task.FAILED, redriven.failure.fault.code)
        if task.moved + redriven.moved >= move_task.moved_max(task):
            return Outcome(move_task.COMPLETED)
        is_empty = not redriven.more and redriven.failure is None
        if is_empty and now_us >= self._looks_until_us[task.id]:
            return Outcome(move_task.COMPLETED)
        return None


def _on(task: MoveTask, edit: Callable[[MoveTask], MoveTask]) -> Callable[[Tasks], Tasks]:
    """The change of this task, as long as it is among the tasks of its queue."""

    def change(tasks: Tasks) -> Tasks:
        return tuple(edit(one) if one.id == task.id else one for one in tasks)

    return change
