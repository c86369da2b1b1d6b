"""StartMessageMoveTask: move what is in a dead-letter queue, in the background."""

from control_plane.core import move_task
from control_plane.core.move_task import MoveTask
from control_plane.core.queue_arn import read_queue_arn
from control_plane.message_moves import MessageMoves
from control_plane.operations.message_move_queues import move_permissions, queue_by_arn
from control_plane.operations.queue_messages import QueueMessages
from control_plane.queue_shapes import (
    START_MESSAGE_MOVE_TASK_INPUT,
    START_MESSAGE_MOVE_TASK_OUTPUT,
)
from control_plane.registry import Registry
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.limits import LIST_RESULTS_MAX, MOVED_PER_SECOND_MAX
from data_plane.core.queue import Queue
from data_plane.protocol.operation import Call, Operation, Params, Permission


def start_message_move_task(
    registry: Registry, messages: QueueMessages, moves: MessageMoves
) -> Operation:
    """The operation: it stores the task, and servers run it in their upkeep."""

    async def perform(call: Call) -> Params:
        arn = call.params["SourceArn"]
        destination = call.params.get("DestinationArn")
        rate = call.params.get("MaxNumberOfMessagesPerSecond")
        source = await queue_by_arn(call, registry, "SourceArn", arn)
        if destination is not None:
            target = await queue_by_arn(call, registry, "DestinationArn", destination)
            _check_target(source, target)
        if rate is not None and not 1 <= rate <= MOVED_PER_SECOND_MAX:
            raise _refused(
                "Value for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: You must "
                f"enter a number that's between 1 and {MOVED_PER_SECOND_MAX}."
            )
        if not await registry.dead_letter_sources(
            source.account, source.region, source.name, limit=1
        ):
            raise _refused("Source queue must be configured as a Dead Letter Queue.")
        task = MoveTask(
            id=moves.new_id(),
            started_ms=call.now_us // 1000,
            to_move=(await messages.counts(source)).visible,
            destination=destination or "",
            rate=rate or 0,
        )
        await moves.start(source, task)
        return {"TaskHandle": move_task.to_handle(task.id, source)}

    async def permissions(account: str, region: str, params: Params) -> list[Permission]:
        """On the source, and to send to the destination: without one, to every queue it serves."""
        arn = params.get("SourceArn") or ""
        needed = move_permissions("StartMessageMoveTask", account, region, arn)
        source, target = read_queue_arn(arn), read_queue_arn(params.get("DestinationArn") or "")
        if target is not None:
            needed.append(Permission("SendMessage", *target))
        elif source is not None and source[:2] == (account, region):
            names = await registry.dead_letter_sources(*source, limit=LIST_RESULTS_MAX)
            needed += [Permission("SendMessage", account, region, name) for name in names]
        return needed

    return Operation(
        "StartMessageMoveTask",
        START_MESSAGE_MOVE_TASK_INPUT,
        START_MESSAGE_MOVE_TASK_OUTPUT,
        perform,
        on_queue=False,
        permissions=permissions,
    )


def _check_target(source: Queue, target: Queue) -> None:
    if target.uid == source.uid:
        raise _refused("Source queue arn and destination queue arn cannot be the same.")
    if target.reads_stream:
        raise _refused("The destination queue reads a stream, and takes no messages.")
    if target.fifo != source.fifo:
        raise _refused("The source queue and destination queue must be of the same queue type.")


def _refused(message: str) -> RefusedError:
    return RefusedError(INVALID_PARAMETER_VALUE, message)
