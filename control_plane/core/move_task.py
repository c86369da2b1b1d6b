"""Message move tasks as values: their states, their rate, their handles.

Sources: SQS API reference (StartMessageMoveTask and its siblings), answers recorded from AWS.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from control_plane.core.queue_arn import of_today
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RESOURCE_NOT_FOUND, RefusedError
from data_plane.core.limits import MOVE_TASKS_LISTED_MAX
from data_plane.core.queue import Queue

RUNNING: Final = "RUNNING"
COMPLETED: Final = "COMPLETED"
CANCELLING: Final = "CANCELLING"
CANCELLED: Final = "CANCELLED"
FAILED: Final = "FAILED"

RATE_DEFAULT: Final = 500
"""Messages a second where the caller leaves it to the system."""

MOVED_BEYOND_MAX: Final = 1_000

BURST_US: Final = 3_000_000
"""For so long a task that was held up makes good for it."""

_US_PER_S: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class MoveTask:
    """A task as it is stored (docs/storage.md): times in ms or us as their names say."""

    id: str
    started_ms: int
    to_move: int
    destination: str = ""
    rate: int = 0
    status: str = RUNNING
    reason: str = ""
    moved: int = 0
    owner: str = ""
    owner_until_us: int = 0
    paid_us: int = 0

    @property
    def is_active(self) -> bool:
        """Whether it keeps other tasks of its queue from starting."""
        return self.status in (RUNNING, CANCELLING)


_NAMES: Final = {
    "id": "id",
    "started_ms": "started",
    "to_move": "count",
    "destination": "to",
    "rate": "rate",
    "status": "status",
    "reason": "reason",
    "moved": "moved",
    "owner": "owner",
    "owner_until_us": "until",
    "paid_us": "paid",
}

Tasks = tuple[MoveTask, ...]
"""The last tasks of a queue, newest first."""


def encode(tasks: Tasks) -> str:
    """The tasks as stored."""
    items = [{_NAMES[name]: value for name, value in asdict(task).items()} for task in tasks]
    return json.dumps(items, separators=(",", ":"))


def decode(text: str) -> Tasks:
    """Read what `encode` wrote."""
    items: Sequence[Mapping[str, Any]] = json.loads(text)
    return tuple(
        MoveTask(**{name: item[stored] for name, stored in _NAMES.items()}) for item in items
    )


def active(tasks: Tasks) -> MoveTask | None:
    """The one that is running, or being cancelled."""
    return next((task for task in tasks if task.is_active), None)


def started(tasks: Tasks, new: MoveTask) -> Tasks:
    """With a new task. Raises RefusedError where there is an active one.

    One that is there already, by a write whose reply was lost, stays as it is.
    """
    if any(task.id == new.id for task in tasks):
        return tasks
    if active(tasks) is not None:
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            "There is already a task running. Only one active task is allowed for a source queue "
            "arn at a given time.",
        )
    return (new, *tasks)[:MOVE_TASKS_LISTED_MAX]


def cancelled(tasks: Tasks, task_id: str) -> Tasks:
    """With the task being cancelled. Raises RefusedError unless it is running."""
    if not any(task.id == task_id and task.status == RUNNING for task in tasks):
        raise _no_such_task()
    return tuple(replace(t, status=CANCELLING) if t.id == task_id else t for t in tasks)


def ended_cancelling(task: MoveTask) -> MoveTask:
    """Cancelled, if that was under way."""
    return replace(task, status=CANCELLED) if task.status == CANCELLING else task


def moved_max(task: MoveTask) -> int:
    """A task ends with so many, for messages may come back as fast as they are redriven."""
    return 2 * task.to_move + MOVED_BEYOND_MAX


# The rate


class Allowance(NamedTuple):
    """How many messages may be moved now; `since_us` is from when on their time counts."""

    messages: int
    since_us: int


def allowance(task: MoveTask, now_us: int) -> Allowance:
    """What the task's rate allows now, from its start on; the first message at once."""
    begun_us = task.paid_us or min(task.started_ms * 1000, now_us - _us_each(task))
    since_us = max(begun_us, now_us - BURST_US)
    return Allowance(max(0, (now_us - since_us) // _us_each(task)), since_us)


def paid(task: MoveTask, allowed: Allowance, moved: int) -> MoveTask:
    """The task after it has moved so many messages of an allowance."""
    if not moved:
        return task
    paid_us = allowed.since_us + moved * _us_each(task)
    return replace(task, moved=task.moved + moved, paid_us=paid_us)


def _us_each(task: MoveTask) -> int:
    return -(-_US_PER_S // (task.rate or RATE_DEFAULT))


# Handles


def to_handle(task_id: str, source: Queue) -> str:
    """The TaskHandle of a task: as SQS's it names its source. Nobody guesses a random UUID."""
    text = json.dumps({"taskId": task_id, "sourceArn": source.arn}, separators=(",", ":"))
    return base64.b64encode(text.encode()).decode()


def read_handle(handle: str) -> tuple[str, str]:
    """The id of a task, and the ARN of its source.

    Raises RefusedError (InvalidParameterValue) for what is no handle.
    """
    try:
        parts = json.loads(base64.b64decode(handle, validate=True))
    except (binascii.Error, ValueError, RecursionError):
        parts = None
    match parts:
        case {"taskId": str(task_id), "sourceArn": str(source_arn)}:
            return task_id, of_today(source_arn)
    raise RefusedError(INVALID_PARAMETER_VALUE, "Value for parameter TaskHandle is invalid.")


def _no_such_task() -> RefusedError:
    return RefusedError(RESOURCE_NOT_FOUND, "Task does not exist.")
