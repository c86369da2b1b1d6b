"""The stage that refuses requests without their required parameters."""

from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError, missing_parameter
from data_plane.frontend.exchange import Exchange
from data_plane.protocol.extension_shapes import is_given


async def check_required(exchange: Exchange) -> None:
    """Raise RefusedError for the first required parameter that is absent or empty text.

    What else holds of parameters is each operation's own to check. The queue's address is
    resolved by now. A queue's name that is absent has words of its own (recorded from AWS); one
    that is empty is like any wrong name.
    """
    params = exchange.params
    for name in exchange.chosen.input.required:
        if name == "QueueName":
            if params.get(name) is None:
                raise RefusedError(
                    INVALID_PARAMETER_VALUE,
                    "Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
                )
        elif name != "QueueUrl" and not is_given(params, name):
            raise missing_parameter(name)
