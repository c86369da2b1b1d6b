"""The queue operations that a front end serves."""

from control_plane.message_moves import MessageMoves
from control_plane.operations.add_permission import add_permission
from control_plane.operations.cancel_message_move_task import cancel_message_move_task
from control_plane.operations.create_queue import create_queue
from control_plane.operations.delete_queue import delete_queue
from control_plane.operations.get_queue_attributes import get_queue_attributes
from control_plane.operations.get_queue_url import get_queue_url
from control_plane.operations.list_dead_letter_source_queues import (
    list_dead_letter_source_queues,
)
from control_plane.operations.list_message_move_tasks import list_message_move_tasks
from control_plane.operations.list_queues import list_queues
from control_plane.operations.purge_queue import purge_queue
from control_plane.operations.queue_messages import QueueMessages
from control_plane.operations.remove_permission import remove_permission
from control_plane.operations.set_queue_attributes import set_queue_attributes
from control_plane.operations.start_message_move_task import start_message_move_task
from control_plane.operations.tag_queue import list_queue_tags, tag_queue, untag_queue
from control_plane.registry import Registry
from data_plane.operations.stream_address import KnownStreams
from data_plane.protocol.operation import Operation


def queue_operations(
    registry: Registry,
    messages: QueueMessages,
    moves: MessageMoves,
    streams: KnownStreams | None = None,
) -> tuple[Operation, ...]:
    """All operations on queues as such, over this registry and these messages (the engines).

    `streams` are those that queues may read; without them there are none.
    """
    return (
        create_queue(registry, messages, streams),
        get_queue_url(registry),
        list_queues(registry),
        delete_queue(registry, messages),
        get_queue_attributes(messages),
        set_queue_attributes(registry, messages),
        purge_queue(registry, messages),
        tag_queue(registry),
        untag_queue(registry),
        list_queue_tags(registry),
        list_dead_letter_source_queues(registry),
        add_permission(registry),
        remove_permission(registry),
        start_message_move_task(registry, messages, moves),
        list_message_move_tasks(registry, moves),
        cancel_message_move_task(registry, moves),
    )
