"""When a FIFO queue's messages go to other logs: with its throughput limit.

Order holds over the change, because what lies in earlier generations is read first, group by group.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from data_plane.core.errors import OVER_LIMIT, RefusedError
from data_plane.core.limits import RETENTION_S_MAX
from data_plane.core.queue import Generation

HIGH_THROUGHPUT_PARTITIONS: Final = 8
GENERATIONS_MAX: Final = 8
_SLACK_S: Final = 86_400
"""Of messages that have expired in every front end's view, also where clocks differ."""


def generations_after(
    current: tuple[Generation, ...], attributes: Mapping[str, str], now_s: int
) -> tuple[Generation, ...]:
    """The generations of a FIFO queue that has these attributes from now on.

    Those whose messages have all expired are left out. Raises RefusedError (OverLimit) where the
    limit was changed too often for the others.
    """
    partitions = partitions_for(attributes)
    if current and current[-1].partitions == partitions:
        return current
    kept = [
        generation
        for generation, later in pairwise(current)
        if later.since_s + RETENTION_S_MAX + _SLACK_S > now_s
    ]
    kept += current[-1:]
    if len(kept) == GENERATIONS_MAX:
        raise RefusedError(
            OVER_LIMIT,
            f"The FifoThroughputLimit of a queue can be changed {GENERATIONS_MAX - 1} times in "
            f"{RETENTION_S_MAX // 86_400} days.",
        )
    number = kept[-1].number + 1 if kept else 0
    return (*kept, Generation(number, partitions, now_s))


def partitions_for(attributes: Mapping[str, str]) -> int:
    """How many partitions the log of such a queue has: groups are shared out over them."""
    if attributes.get("FifoThroughputLimit") == "perMessageGroupId":
        return HIGH_THROUGHPUT_PARTITIONS
    return 1
