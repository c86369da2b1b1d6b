"""What a producer is made with: a mistake there shows when it is made, not at each record."""

from typing import Any, Final

from tidegate_sdk.option_checks import check_seconds

DELIVERY_S_MAX: Final = 150
"""Tidegate finds a repeated call for five minutes, and boto3 may take two for one call."""


def check_client(client: Any) -> None:
    """Raises TypeError."""
    service = client.meta.service_model.service_name
    if service != "kinesis":
        raise TypeError(f"a producer's client is one of kinesis, not of {service}")


def check_delivery(delivery_s_max: object) -> None:
    """Raises TypeError, ValueError."""
    if not 0 < check_seconds("delivery_s_max", delivery_s_max) <= DELIVERY_S_MAX:
        raise ValueError(f"delivery_s_max is above 0, and {DELIVERY_S_MAX} at most")
