"""When a FIFO queue's messages go to other logs: with its throughput limit, and when it is split.

Order holds over the change, because what lies in earlier generations is read first, group by group.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import Final

from data_plane.core.errors import OVER_LIMIT, RefusedError
from data_plane.core.limits import RETENTION_S_MAX
from data_plane.core.queue import Generation

HIGH_THROUGHPUT_PARTITIONS: Final = 8
PARTITIONS_MAX: Final = 64
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
    if current and _serves(current[-1].partitions, partitions):
        return current
    kept = current[drained(current, now_s) :]
    if len(kept) == GENERATIONS_MAX:
        raise RefusedError(
            OVER_LIMIT,
            f"The FifoThroughputLimit of a queue can be changed {GENERATIONS_MAX - 1} times in "
            f"{RETENTION_S_MAX // 86_400} days.",
        )
    number = kept[-1].number + 1 if kept else 0
    return (*kept, Generation(number, partitions, now_s))


def drained(generations: tuple[Generation, ...], now_s: int) -> int:
    """How many of the first generations hold nothing that has not expired in everybody's view."""
    ends_s = (later.since_s for later in generations[1:])
    return sum(1 for _ in takewhile(lambda s: s + RETENTION_S_MAX + _SLACK_S <= now_s, ends_s))


def may_split(generations: tuple[Generation, ...], attributes: Mapping[str, str]) -> bool:
    """Whether the groups of such a queue may be shared out over more partitions.

    Those without the higher throughput limit have one order for the deduplication of all.
    """
    return (
        partitions_for(attributes) > 1
        and generations[-1].partitions * 2 <= PARTITIONS_MAX
        and len(generations) < GENERATIONS_MAX
    )


def split(generations: tuple[Generation, ...], now_s: int) -> tuple[Generation, ...]:
    """A new generation with twice the partitions."""
    last = generations[-1]
    return (*generations, Generation(last.number + 1, last.partitions * 2, now_s))


def _serves(present: int, wanted: int) -> bool:
    """Whether so many partitions do for a queue that wants so many: splits stay."""
    return present == wanted or present > wanted > 1


def partitions_for(attributes: Mapping[str, str]) -> int:
    """How many partitions the log of such a queue has: groups are shared out over them."""
    if attributes.get("FifoThroughputLimit") == "perMessageGroupId":
        return HIGH_THROUGHPUT_PARTITIONS
    return 1
