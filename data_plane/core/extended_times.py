"""Delays and visibility timeouts past the bounds of SQS, up to the queue's retention period.

They have members of their own (`TidegateDelaySeconds`, `TidegateVisibilityTimeout`), so that the
bounds of DelaySeconds and VisibilityTimeout stay those of SQS.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from data_plane.core.errors import invalid_parameter, wrong_queue_type
from data_plane.core.message import Outgoing
from data_plane.core.queue import Queue


def with_extended_delay(message: Outgoing, params: Mapping[str, Any], queue: Queue) -> Outgoing:
    """The message with the extended delay that its parameters ask for, if they do.

    Retention counts from sending: a delay as long as it would hide the message for all its life.
    Raises RefusedError.
    """
    delay_s = params.get("TidegateDelaySeconds")
    if delay_s is None:
        return message
    if queue.fifo:
        raise wrong_queue_type("TidegateDelaySeconds", delay_s)
    _refuse_both(params, "DelaySeconds", "TidegateDelaySeconds")
    if not 0 <= delay_s < queue.retention_s:
        raise invalid_parameter(
            "TidegateDelaySeconds",
            delay_s,
            f"Must be >= 0 and < {queue.retention_s}, the queue's MessageRetentionPeriod.",
        )
    return replace(message, delay_s=delay_s)


def extended_visibility_s(params: Mapping[str, Any], queue: Queue) -> int | None:
    """The extended visibility timeout that the parameters ask for; None: they do not.

    Raises RefusedError.
    """
    timeout_s: int | None = params.get("TidegateVisibilityTimeout")
    if timeout_s is None:
        return None
    _refuse_both(params, "VisibilityTimeout", "TidegateVisibilityTimeout")
    if not 0 <= timeout_s <= queue.retention_s:
        raise invalid_parameter(
            "TidegateVisibilityTimeout",
            timeout_s,
            f"Must be >= 0 and <= {queue.retention_s}, the queue's MessageRetentionPeriod.",
        )
    return timeout_s


def _refuse_both(params: Mapping[str, Any], plain: str, extended: str) -> None:
    if params.get(plain) is not None:
        raise invalid_parameter(extended, params[extended], f"It cannot be given with {plain}.")
