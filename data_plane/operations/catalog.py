"""The message operations that every entry point serves."""

from data_plane.operations.change_message_visibility import (
    change_message_visibility,
    change_message_visibility_batch,
)
from data_plane.operations.delete_message import delete_message, delete_message_batch
from data_plane.operations.message_bag import MessageBag
from data_plane.operations.receive_message import receive_message
from data_plane.operations.send_message import send_message, send_message_batch
from data_plane.protocol.operation import Operation


def message_operations(bag: MessageBag) -> tuple[Operation, ...]:
    """All actions on messages, over one bag."""
    return (
        send_message(bag),
        send_message_batch(bag),
        receive_message(bag),
        delete_message(bag),
        delete_message_batch(bag),
        change_message_visibility(bag),
        change_message_visibility_batch(bag),
    )
