"""What FIFO queues ask of requests beyond the rules of all queues. Refusals are those of SQS.

Source: the API reference of SendMessage and ReceiveMessage, and answers recorded from AWS.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    MISSING_PARAMETER,
    RefusedError,
    invalid_parameter,
    missing_parameter,
    wrong_queue_type,
)
from data_plane.core.identifiers import is_deduplication_id, is_receive_attempt_id
from data_plane.core.limits import DEDUPLICATION_ID_CHARS_MAX, RECEIVE_ATTEMPT_ID_CHARS_MAX
from data_plane.core.message import Outgoing
from data_plane.core.message_rules import check_group_id, read_content


def read_fifo_outgoing(params: Mapping[str, Any], *, content_based: bool) -> Outgoing:
    """A message for a FIFO queue from the parameters of a send, or of one entry of a batch.

    With `content_based` deduplication a message that brings no id has the SHA-256 of its body for
    one. Its size is not compared with anything yet. Raises RefusedError.
    """
    content = read_content(params)
    group = params.get("MessageGroupId")
    if group is None:
        raise missing_parameter("MessageGroupId")
    check_group_id(group)
    deduplication_id = params.get("MessageDeduplicationId")
    if deduplication_id is not None:
        _check_deduplication_id(deduplication_id)
    elif content_based:
        deduplication_id = hashlib.sha256(content.body.encode()).hexdigest()
    else:
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly",
        )
    # A delay of 0 leaves it to the queue, as no delay does: recorded from AWS.
    if params.get("DelaySeconds"):
        raise wrong_queue_type("DelaySeconds", params["DelaySeconds"])
    return Outgoing(
        body=content.body,
        attributes=content.attributes,
        trace_header=content.trace_header,
        group=group,
        size=content.size_bytes,
        deduplication_id=deduplication_id,
    )


def refusal_of_batch(refusal: RefusedError) -> RefusedError:
    """What a whole batch for a FIFO queue is answered if one of its entries is refused so.

    To leave out an entry would leave a gap in its group. That a parameter is missing is called an
    invalid value there: recorded from AWS.
    """
    if refusal.fault is MISSING_PARAMETER:
        return RefusedError(INVALID_PARAMETER_VALUE, refusal.message)
    return refusal


def check_receive_attempt_id(attempt: str) -> None:
    """Raise RefusedError unless this may name an attempt to receive."""
    if not is_receive_attempt_id(attempt):
        raise invalid_parameter(
            "ReceiveRequestAttemptId",
            attempt,
            "ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. "
            f"1 to {RECEIVE_ATTEMPT_ID_CHARS_MAX} in length.",
        )


def _check_deduplication_id(deduplication_id: str) -> None:
    if not is_deduplication_id(deduplication_id):
        raise invalid_parameter(
            "MessageDeduplicationId",
            deduplication_id,
            "MessageDeduplicationId can only include alphanumeric and punctuation characters. "
            f"1 to {DEDUPLICATION_ID_CHARS_MAX} in length.",
        )
