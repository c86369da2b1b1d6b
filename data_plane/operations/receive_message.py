"""ReceiveMessage."""

from typing import Final

from data_plane.core.errors import (
    INVALID_ATTRIBUTE_NAME,
    INVALID_PARAMETER_VALUE,
    RefusedError,
    invalid_parameter,
)
from data_plane.core.extended_times import extended_visibility_s
from data_plane.core.fifo_rules import check_receive_attempt_id
from data_plane.core.limits import (
    RECEIVE_ATTRIBUTE_NAMES_MAX,
    RECEIVE_MESSAGES_MAX,
    RECEIVE_WAIT_S_MAX,
)
from data_plane.core.queue import Queue
from data_plane.core.turns import InTurns, at_once
from data_plane.operations import hand_over
from data_plane.operations.batch import queue_of
from data_plane.operations.change_message_visibility import check_visibility_timeout
from data_plane.operations.message_engine import MessageEngine
from data_plane.operations.message_rendering import (
    SYSTEM_ATTRIBUTES,
    Choice,
    measure_messages,
    rendered_in_slices,
)
from data_plane.protocol.message_shapes import RECEIVE_MESSAGE_INPUT, RECEIVE_MESSAGE_OUTPUT
from data_plane.protocol.operation import Call, Operation, Params

_US_PER_S: Final = 1_000_000
_ALL_OF_SYSTEM: Final = "all"
"""In any case: users send `ALL` to SQS (celery/kombu #2300, aws/aws-sdk-js #93)."""
_ALL_NAMES: Final = frozenset({"All", "*"})
"""Either asks for all message attributes, as the empty prefix `.*` does: recorded from AWS."""


def receive_message(engine: MessageEngine, in_turns: InTurns = at_once) -> Operation:
    """ReceiveMessage: up to 10 messages, waiting for the first if asked to."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        params = call.params
        count = params.get("MaxNumberOfMessages", 1)
        if not 1 <= count <= RECEIVE_MESSAGES_MAX:
            raise invalid_parameter(
                "MaxNumberOfMessages",
                count,
                f"Must be between 1 and {RECEIVE_MESSAGES_MAX}, if provided.",
            )
        wait_s = params.get("WaitTimeSeconds", queue.receive_wait_s)
        if not 0 <= wait_s <= RECEIVE_WAIT_S_MAX:
            raise invalid_parameter(
                "WaitTimeSeconds",
                wait_s,
                f"Must be >= 0 and <= {RECEIVE_WAIT_S_MAX}, if provided.",
            )
        visibility_s = extended_visibility_s(params, queue)
        if visibility_s is None:
            visibility_s = params.get("VisibilityTimeout", queue.visibility_timeout_s)
            check_visibility_timeout(visibility_s)
        attempt = _read_attempt(params, queue)
        choice = _read_choice(params)
        deliveries = await hand_over.receive(
            engine,
            queue,
            count=count,
            visibility_s=visibility_s,
            until_us=call.now_us + wait_s * _US_PER_S,
            attempt=attempt,
        )
        if not deliveries:
            return {}
        return {"Messages": await in_turns(rendered_in_slices(deliveries, choice))}

    return Operation(
        "ReceiveMessage",
        RECEIVE_MESSAGE_INPUT,
        RECEIVE_MESSAGE_OUTPUT,
        perform,
        measure=measure_messages,
        wait_member="WaitTimeSeconds",
    )


def _read_attempt(params: Params, queue: Queue) -> str:
    """The attempt's name; without effect on a standard queue, as in SQS.

    Source: the API reference says that it applies only to FIFO queues, and Spring's listeners have
    sent it to all of them (awspring/spring-cloud-aws #529, #579).
    """
    attempt: str | None = params.get("ReceiveRequestAttemptId")
    if attempt is None or not queue.fifo:
        return ""
    check_receive_attempt_id(attempt)
    return attempt


def _read_choice(params: Params) -> Choice:
    system: set[str] = set()
    for name in (*params.get("AttributeNames", ()), *params.get("MessageSystemAttributeNames", ())):
        if name.lower() == _ALL_OF_SYSTEM:
            system |= SYSTEM_ATTRIBUTES
        elif name in SYSTEM_ATTRIBUTES:
            system.add(name)
        else:
            raise RefusedError(INVALID_ATTRIBUTE_NAME, f"Unknown Attribute {name}.")
    names = frozenset(params.get("MessageAttributeNames", ()))
    if len(names) > RECEIVE_ATTRIBUTE_NAMES_MAX:
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            f"Number of message attribute names [{len(names)}] exceeds the allowed maximum "
            f"[{RECEIVE_ATTRIBUTE_NAMES_MAX}].",
        )
    prefixes = [name.removesuffix(".*") for name in names if name.endswith(".*")]
    if not names.isdisjoint(_ALL_NAMES):
        prefixes.append("")
    return Choice(system, names, tuple(prefixes))
