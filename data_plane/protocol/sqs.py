"""Amazon SQS as a service."""

from collections.abc import Iterable
from typing import Final

from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError, missing_parameter
from data_plane.core.limits import OPERATION_BODY_BYTES_MAX
from data_plane.core.quotas import QUOTA_CLASSES
from data_plane.protocol.extension_shapes import extended_input, is_given
from data_plane.protocol.operation import Operation, Params
from data_plane.protocol.query_xml import NAMESPACE
from data_plane.protocol.service import Service, by_name
from data_plane.protocol.shapes import Structure

NAME: Final = "sqs"
TARGET_PREFIX: Final = "AmazonSQS"
VERSION: Final = "2012-11-05"


def sqs(operations: Iterable[Operation]) -> Service:
    """The service with these operations."""
    return Service(
        NAME,
        TARGET_PREFIX,
        VERSION,
        NAMESPACE,
        by_name(operations),
        OPERATION_BODY_BYTES_MAX,
        QUOTA_CLASSES,
        _extended_input,
        check_required,
        has_queues=True,
    )


def _extended_input(operation: Operation) -> Structure:
    return extended_input(operation.name, operation.input)


def check_required(operation: Operation, params: Params) -> None:
    """Raise RefusedError for the first required parameter that is absent or empty text.

    What else holds of parameters is each operation's own to check. The queue's address is
    resolved by now. A queue's name that is absent has words of its own (recorded from AWS); one
    that is empty is like any wrong name.
    """
    for name in operation.input.required:
        if name == "QueueName":
            if params.get(name) is None:
                raise RefusedError(
                    INVALID_PARAMETER_VALUE,
                    "Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
                )
        elif name != "QueueUrl" and not is_given(params, name):
            raise _missing(operation.name, name)


def _missing(operation: str, name: str) -> RefusedError:
    """SQS does not call all that is missing by the parameter's name."""
    match operation, name:
        case "DeleteMessage", "ReceiptHandle":
            return missing_parameter(
                "MessageHandle"
            )  # aws/aws-sdk-js-v3 #5478; a form: syndesisio/syndesis #6254
        case "SetQueueAttributes", "Attributes":
            return missing_parameter("Attribute.Name")  # pulumi/pulumi-aws #5959
        case _:
            return missing_parameter(name)
