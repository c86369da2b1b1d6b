"""The stage that refuses requests without their required parameters."""

from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError, missing_parameter
from data_plane.frontend.exchange import Exchange
from data_plane.protocol.extension_shapes import is_given


async def check_required(exchange: Exchange) -> None:
    """Raise RefusedError for the first required parameter that is absent or empty text.

    What else holds of parameters is each operation's own to check. The queue's address is
    resolved by now; a queue's name has words of its own (recorded from AWS).
    """
    for name in exchange.chosen.input.required:
        if name != "QueueUrl" and not is_given(exchange.params, name):
            if name == "QueueName":
                raise RefusedError(
                    INVALID_PARAMETER_VALUE,
                    "Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
                )
            raise missing_parameter(name)
