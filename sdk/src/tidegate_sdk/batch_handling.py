"""How a group's member lets the program's handler work on batches, and what it learns of them."""

import logging
from collections.abc import Callable
from typing import Final

from tidegate_sdk.batch_pace import BatchPace
from tidegate_sdk.clock import Clock
from tidegate_sdk.group_shards import GroupShard, RecordBatch
from tidegate_sdk.program_functions import that_ends

BatchHandler = Callable[[RecordBatch], object]
"""What it returns means nothing; that it returns means that the batch is done."""

TOO_LONG: Final = (
    "a batch, or on_revoked, is to take less than the group's rebalance timeout. Make the consumer "
    "with fewer records_max, or the group with more RebalanceTimeoutSeconds"
)

_log = logging.getLogger("tidegate_sdk")


class BatchHandling:
    """Calls the handler. A shard is handled by one thread at a time."""

    def __init__(self, handler: BatchHandler, records_max: int, clock: Clock) -> None:
        self._handler, self._clock = that_ends("handler", handler), clock
        self._pace = BatchPace(records_max)

    def records_max(self, shard: GroupShard) -> int:
        """Of the next batch of a shard."""
        return self._pace.records_max(shard)

    def handle(self, batch: RecordBatch, rebalance_s: float) -> None:
        """Raises what the handler raises."""
        records, begun_s = len(batch.records), self._clock.now_s()
        self._handler(batch)
        took_s = self._clock.now_s() - begun_s
        self._pace.has_taken(batch.shard, records, took_s, rebalance_s)
        if took_s >= rebalance_s:
            _log.warning("%d records of %s took %.1f s: %s", records, batch.shard, took_s, TOO_LONG)
