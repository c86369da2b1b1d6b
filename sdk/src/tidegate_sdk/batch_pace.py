"""How many records a batch may have, so that its handler is done in time to give its shard up.

A member that has not given up a shard within the rebalance timeout is dropped from its group. So a
batch is to take a third of that, by what the last one of its shard took.
"""

from typing import Final, NamedTuple

from tidegate_sdk.group_shards import GroupShard

_PART: Final = 1 / 3
"""Of the rebalance timeout."""

_MUCH: Final = 1 / 2
"""What takes more of it is too long."""

_AS_LONG: Final = 3 / 4
"""Half of the records that take so much of the time make nothing better."""


class _Batch(NamedTuple):
    records: int
    seconds: float


class BatchPace:
    """What is known of a shard is kept when it is lost: it may come back."""

    def __init__(self, records_max: int) -> None:
        self._records_max = self._latest = records_max
        self._next: dict[GroupShard, int] = {}
        self._last: dict[GroupShard, _Batch] = {}

    def records_max(self, shard: GroupShard) -> int:
        """Of its next batch. One that is new is taken to be as the one that was handled last."""
        return self._next.get(shard, self._latest)

    def has_taken(
        self, shard: GroupShard, records: int, seconds: float, rebalance_s: float
    ) -> None:
        """A handler took so long for so many records of the shard."""
        before, self._last[shard] = self._last.get(shard), _Batch(records, seconds)
        fits = records * _PART * rebalance_s / seconds if seconds > 0 else self._records_max
        if seconds < rebalance_s * _MUCH:
            # A little more in any case: most of the time may go into what each batch takes once.
            following = max(fits, records + records // 4 + 1)
        elif before and _made_nothing_better(before, self._last[shard]):
            following = before.records
        else:
            following = min(fits, records // 2)
        self._latest = max(1, min(int(following), self._records_max))
        self._next[shard] = self._latest


def _made_nothing_better(before: _Batch, fewer: _Batch) -> bool:
    is_half = fewer.records <= before.records / 2
    return is_half and fewer.seconds >= before.seconds * _AS_LONG
