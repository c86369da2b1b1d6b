"""CancelMessageMoveTask: what was moved stays moved; the rest stays where it is."""

from control_plane.core import move_task
from control_plane.message_moves import MessageMoves
from control_plane.operations.message_move_queues import move_permissions, queue_by_arn
from control_plane.queue_shapes import (
    CANCEL_MESSAGE_MOVE_TASK_INPUT,
    CANCEL_MESSAGE_MOVE_TASK_OUTPUT,
)
from data_plane.ports import Queues
from data_plane.protocol.operation import Call, Operation, Params, Permission


def cancel_message_move_task(queues: Queues, moves: MessageMoves) -> Operation:
    """The operation: the task is cancelled with the next step of whoever runs it."""

    async def perform(call: Call) -> Params:
        task_id, arn = move_task.read_handle(call.params["TaskHandle"])
        source = await queue_by_arn(call, queues, "SourceArn", arn)
        tasks = await moves.change(source, lambda tasks: move_task.cancelled(tasks, task_id))
        (moved,) = (task.moved for task in tasks if task.id == task_id)
        return {"ApproximateNumberOfMessagesMoved": moved}

    async def permissions(account: str, region: str, params: Params) -> list[Permission]:
        handle = params.get("TaskHandle")
        _, arn = move_task.read_handle(handle) if handle else ("", "")
        return move_permissions("CancelMessageMoveTask", account, region, arn)

    return Operation(
        "CancelMessageMoveTask",
        CANCEL_MESSAGE_MOVE_TASK_INPUT,
        CANCEL_MESSAGE_MOVE_TASK_OUTPUT,
        perform,
        on_queue=False,
        permissions=permissions,
    )
