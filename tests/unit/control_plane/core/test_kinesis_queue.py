"""Where queues of the Kinesis API begin."""

import pytest

from control_plane.core.kinesis_queue import position_of
from data_plane.core.errors import RefusedError
from data_plane.core.queue import AT_TIMESTAMP

NOW_US = 1_700_000_000_000_000


@pytest.mark.parametrize(("time_ms", "begins_ms"), [(1, 1), (0, 0), (-1, 0), (-(2**63), 0)])
def test_there_is_nothing_before_1970(time_ms: int, begins_ms: int) -> None:
    position = {"StartingPosition": {"Type": AT_TIMESTAMP, "Timestamp": time_ms}}
    assert position_of(position, NOW_US) == (AT_TIMESTAMP, begins_ms)


def test_the_future_is_refused() -> None:
    position = {"Type": AT_TIMESTAMP, "Timestamp": NOW_US // 1_000 + 1}
    with pytest.raises(RefusedError, match="in the future"):
        position_of({"StartingPosition": position}, NOW_US)
