"""Where a reader is to begin, by a time."""

from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.protocol.operation import Params


def time_of(position: Params, now_us: int) -> int:
    """The time of a starting position in microseconds; 0 where its type has none.

    Raises RefusedError where it has none and needs one, and for what is to come.
    """
    time_ms = position.get("Timestamp")
    if (position["Type"] == "AT_TIMESTAMP") != (time_ms is not None):
        raise RefusedError(
            INVALID_ARGUMENT, "A StartingPosition has a Timestamp if its Type is AT_TIMESTAMP."
        )
    if time_ms is not None and time_ms * 1_000 > now_us:
        raise RefusedError(
            INVALID_ARGUMENT, "The Timestamp of a StartingPosition is in the future."
        )
    return 0 if time_ms is None else int(time_ms) * 1_000
