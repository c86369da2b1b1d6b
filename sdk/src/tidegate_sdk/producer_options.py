"""What a producer is made with: a mistake there shows when it is made, not at each record."""

from typing import Any, Final

DELIVERY_S_MAX: Final = 150
"""Tidegate finds a repeated call for five minutes, and boto3 may take two for one call."""


def check_options(client: Any, stream: object, delivery_s_max: float, senders: int) -> None:
    """Raises TypeError, ValueError."""
    service = client.meta.service_model.service_name
    if service != "kinesis":
        raise TypeError(f"a producer's client is one of kinesis, not of {service}")
    if not isinstance(stream, str):
        raise TypeError(f"a stream is a name or an ARN, not {type(stream).__name__}")
    if not stream:
        raise ValueError("the stream has no name")
    if not 0 < delivery_s_max <= DELIVERY_S_MAX:
        raise ValueError(f"delivery_s_max is above 0, and {DELIVERY_S_MAX} at most")
    if senders < 1:
        raise ValueError("senders is 1 or more")
