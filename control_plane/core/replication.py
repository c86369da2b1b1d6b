"""How many copies of its messages a queue has: attributes that only their creation decides."""

from collections.abc import Mapping
from typing import Final

from data_plane.core.errors import INVALID_ATTRIBUTE_VALUE, RefusedError
from data_plane.core.queue import AT_LEAST_ONCE

FACTOR: Final = "TidegateReplicationFactor"
ACKNOWLEDGEMENT: Final = "TidegateReplicationAcknowledgement"
FIRST_COPY: Final = "first"
GUARANTEE: Final = "TidegateDeliveryGuarantee"

_FACTOR_DEFAULT: Final = 3


def default_factor(cells: int) -> int:
    """How many copies a queue gets that does not say: three, or as many as there are cells."""
    return min(_FACTOR_DEFAULT, cells)


def wanted_factor(attributes: Mapping[str, str], cells: int) -> int:
    """The copies of a queue with these attributes, where there are so many cells.

    Raises RefusedError (InvalidAttributeValue).
    """
    given = attributes.get(FACTOR)
    factor = int(given) if given else default_factor(cells)
    if factor > cells:
        there_are = f"There are {cells} cells." if cells > 1 else "There is one cell."
        raise RefusedError(
            INVALID_ATTRIBUTE_VALUE,
            f"Invalid value for the parameter {FACTOR}. Reason: {there_are}",
        )
    return factor


def is_fenced(attributes: Mapping[str, str]) -> bool:
    """Whether the delivery guarantee asks for more than at least once."""
    return attributes.get(GUARANTEE, AT_LEAST_ONCE) != AT_LEAST_ONCE
