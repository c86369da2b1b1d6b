"""The queues that a message move task is about, from their ARNs."""

from control_plane.core.queue_arn import read_queue_arn
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RESOURCE_NOT_FOUND, RefusedError
from data_plane.core.queue import Queue
from data_plane.ports import Queues
from data_plane.protocol.operation import Call, Permission

_ARN_PARTS = 6
_ON_SOURCE = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")


def move_permissions(action: str, account: str, region: str, source_arn: str) -> list[Permission]:
    """What an action on a queue's message move tasks needs (SQS developer guide, "redrive").

    For what is no queue's ARN it is the action on the caller's queues as such.
    """
    source = read_queue_arn(source_arn)
    if source is None:
        return [Permission(action, account, region, "")]
    return [Permission(name, *source) for name in (action, *_ON_SOURCE)]


async def queue_by_arn(call: Call, queues: Queues, parameter: str, arn: str) -> Queue:
    """The caller's queue that the parameter names.

    Raises RefusedError: InvalidParameterValue for what is no ARN, ResourceNotFoundException.
    """
    if not arn.startswith("arn:") or len(arn.split(":")) != _ARN_PARTS:
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            f"You must use this format to specify the {parameter}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
        )
    name = read_queue_arn(arn)
    found = None
    if name is not None and (name.account, name.region) == (call.account, call.region):
        found = await queues.find(name.account, name.region, name.name)
    if found is None:
        raise RefusedError(
            RESOURCE_NOT_FOUND,
            f"The resource that you specified for the {parameter} parameter doesn't exist.",
        )
    return found
