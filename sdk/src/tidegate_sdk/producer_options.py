"""What a producer is made with: a mistake there shows when it is made, not at each record."""

from typing import Any, Final

DELIVERY_S_MAX: Final = 150
"""Tidegate finds a repeated call for five minutes, and boto3 may take two for one call."""


def check_stream(client: Any, stream: object) -> None:
    """Raises TypeError, ValueError."""
    service = client.meta.service_model.service_name
    if service != "kinesis":
        raise TypeError(f"a producer's client is one of kinesis, not of {service}")
    if not isinstance(stream, str):
        raise TypeError(f"a stream is a name or an ARN, not {type(stream).__name__}")
    if not stream:
        raise ValueError("the stream has no name")


def check_seconds(*, delivery_s_max: float, **others: float) -> None:
    """Raises TypeError, ValueError."""
    options: dict[str, object] = {"delivery_s_max": delivery_s_max, **others}
    for name, value in options.items():
        if not isinstance(value, int | float):
            raise TypeError(f"{name} is a number of seconds, not {type(value).__name__}")
        # What is not a number is not above anything either.
        if not value >= 0:
            raise ValueError(f"{name} is 0 or more")
    if not 0 < delivery_s_max <= DELIVERY_S_MAX:
        raise ValueError(f"delivery_s_max is above 0, and {DELIVERY_S_MAX} at most")


def check_counts(**options: object) -> None:
    """Raises TypeError, ValueError."""
    for name, value in options.items():
        if not isinstance(value, int):
            raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
        if value < 1:
            raise ValueError(f"{name} is 1 or more")
