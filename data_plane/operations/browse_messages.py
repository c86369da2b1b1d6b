"""TidegateBrowseMessages: messages as they lie in their queue, without receiving them."""

from typing import Final

from data_plane.core.browsing import Browsed, from_token, to_token
from data_plane.core.errors import invalid_parameter
from data_plane.core.limits import BROWSE_MESSAGES_MAX
from data_plane.core.message import Delivery
from data_plane.operations.batch import queue_of
from data_plane.operations.message_engine import MessageEngine
from data_plane.operations.message_rendering import EVERYTHING, measure_messages, rendered
from data_plane.protocol.extension_shapes import BROWSE_MESSAGES_INPUT, BROWSE_MESSAGES_OUTPUT
from data_plane.protocol.operation import Call, Operation, Params

_COUNT_DEFAULT: Final = 10


def browse_messages(engine: MessageEngine) -> Operation:
    """A page of messages; without NextToken it was the last one."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        count = call.params.get("MaxNumberOfMessages", _COUNT_DEFAULT)
        if not 1 <= count <= BROWSE_MESSAGES_MAX:
            raise invalid_parameter(
                "MaxNumberOfMessages",
                count,
                f"Must be between 1 and {BROWSE_MESSAGES_MAX}, if provided.",
            )
        token = call.params.get("NextToken")
        position = from_token(queue, token) if token else b""
        page = await engine.browse(queue, count=count, position=position)
        output: dict[str, object] = {}
        if page.messages:
            output["Messages"] = [_render(browsed) for browsed in page.messages]
        if page.next_position:
            output["NextToken"] = to_token(queue, page.next_position)
        return output

    return Operation(
        "TidegateBrowseMessages",
        BROWSE_MESSAGES_INPUT,
        BROWSE_MESSAGES_OUTPUT,
        perform,
        measure=measure_messages,
        action="ReceiveMessage",
    )


def _render(browsed: Browsed) -> Params:
    """As a receive shows it, with its state, and without what only a receive gives."""
    delivery = Delivery(browsed.message, "", browsed.receive_count, browsed.first_received_ms)
    answer = rendered(delivery, EVERYTHING)
    del answer["ReceiptHandle"]
    if not browsed.first_received_ms:
        del answer["Attributes"]["ApproximateFirstReceiveTimestamp"]
    answer["State"] = browsed.state
    if browsed.visible_ms:
        answer["VisibleTimestamp"] = str(browsed.visible_ms)
    return answer
