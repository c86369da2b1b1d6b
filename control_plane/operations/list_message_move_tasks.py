"""ListMessageMoveTasks: the last tasks of a dead-letter queue, the newest first."""

from control_plane.core import move_task
from control_plane.core.move_task import MoveTask
from control_plane.message_moves import MessageMoves
from control_plane.operations.message_move_queues import move_permissions, queue_by_arn
from control_plane.queue_shapes import (
    LIST_MESSAGE_MOVE_TASKS_INPUT,
    LIST_MESSAGE_MOVE_TASKS_OUTPUT,
)
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.limits import MOVE_TASKS_LISTED_MAX
from data_plane.core.queue import Queue
from data_plane.ports import Queues
from data_plane.protocol.operation import Call, Operation, Params, Permission


def list_message_move_tasks(queues: Queues, moves: MessageMoves) -> Operation:
    """The operation on these tasks."""

    async def perform(call: Call) -> Params:
        count = call.params.get("MaxResults", 1)
        if not 1 <= count <= MOVE_TASKS_LISTED_MAX:
            raise RefusedError(
                INVALID_PARAMETER_VALUE,
                "Value for parameter MaxResults is invalid. Reason: You must enter a number "
                f"that's between 1 and {MOVE_TASKS_LISTED_MAX}.",
            )
        source = await queue_by_arn(call, queues, "SourceArn", call.params["SourceArn"])
        tasks = await moves.tasks(source)
        return {"Results": [_shown(task, source) for task in tasks[:count]]}

    return Operation(
        "ListMessageMoveTasks",
        LIST_MESSAGE_MOVE_TASKS_INPUT,
        LIST_MESSAGE_MOVE_TASKS_OUTPUT,
        perform,
        on_queue=False,
        permissions=_permissions,
    )


async def _permissions(account: str, region: str, params: Params) -> list[Permission]:
    arn = params.get("SourceArn") or ""
    return move_permissions("ListMessageMoveTasks", account, region, arn)


def _shown(task: MoveTask, source: Queue) -> Params:
    shown = {
        "Status": task.status,
        "SourceArn": source.arn,
        "ApproximateNumberOfMessagesMoved": task.moved,
        "ApproximateNumberOfMessagesToMove": task.to_move,
        "StartedTimestamp": task.started_ms,
    }
    if task.status == move_task.RUNNING:
        shown["TaskHandle"] = move_task.to_handle(task.id, source)
    if task.destination:
        shown["DestinationArn"] = task.destination
    if task.rate:
        shown["MaxNumberOfMessagesPerSecond"] = task.rate
    if task.reason:
        shown["FailureReason"] = task.reason
    return shown
