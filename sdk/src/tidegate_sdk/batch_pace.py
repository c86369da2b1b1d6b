"""How many records a batch may have, so that its handler is done in time to give its shard up.

A member that has not given up a shard within the rebalance timeout is dropped from its group. So a
batch is to take a third of that, by what the last one of its shard took, and the one before.
"""

from typing import Final, NamedTuple

from tidegate_sdk.group_shards import GroupShard

_PART: Final = 1 / 3
"""Of the rebalance timeout."""

_MUCH: Final = 1 / 2
"""What takes more of it is too long."""

_AS_LONG: Final = 3 / 4
"""Half of the records that take so much of the time make nothing better."""


_SHARDS_MAX: Final = 1_000
"""Of so many it is known how long their batches take: of those that had one last."""


class _Batch(NamedTuple):
    records: int
    seconds: float


class _Known(NamedTuple):
    records_next: int
    last: _Batch


class BatchPace:
    """What is known of a shard is kept when it is lost: it may come back."""

    def __init__(self, records_max: int) -> None:
        self._records_max = self._latest = records_max
        self._known: dict[GroupShard, _Known] = {}

    def records_max(self, shard: GroupShard) -> int:
        """Of its next batch. One that is new is taken to be as the one that was handled last."""
        known = self._known.get(shard)
        return known.records_next if known else self._latest

    def has_taken(
        self, shard: GroupShard, records: int, seconds: float, rebalance_s: float
    ) -> None:
        """A handler took so long for so many records of the shard."""
        known, last = self._known.pop(shard, None), _Batch(records, seconds)
        before, much_s = known.last if known else last, rebalance_s * _MUCH
        fits = records * _PART * rebalance_s / seconds if seconds > 0 else self._records_max
        if seconds < much_s:
            # A little more in any case: most of the time may go into what each batch takes once.
            following = max(fits, records + records // 4 + 1)
            if _took_little_longer(before, last):
                following = max(following, 2 * records)
            elif _took_as_long(before, last) and before.seconds < much_s:
                # There were no more records, which says nothing of many.
                following, last = max(following, before.records), before
        elif _made_nothing_better(before, last):
            following = before.records
        else:
            following = min(fits, records // 2)
        self._latest = max(1, min(int(following), self._records_max))
        self._known[shard] = _Known(self._latest, last)
        if len(self._known) > _SHARDS_MAX:
            del self._known[next(iter(self._known))]


def _made_nothing_better(before: _Batch, fewer: _Batch) -> bool:
    is_half = fewer.records <= before.records / 2
    return is_half and fewer.seconds >= before.seconds * _AS_LONG


def _took_as_long(before: _Batch, fewer: _Batch) -> bool:
    is_longer = fewer.seconds * _AS_LONG > before.seconds
    return _made_nothing_better(before, fewer) and not is_longer


def _took_little_longer(before: _Batch, more: _Batch) -> bool:
    """Whether time goes by batches: a quarter of what records would take, at most, came to it."""
    longer_s = before.seconds * (more.records / before.records - 1)
    return longer_s > 0 and more.seconds - before.seconds <= longer_s / 4
