"""How a group's member lets the program's handler work on batches, and what it learns of them."""

from collections.abc import Callable
from typing import Final

from tidegate_sdk.batch_pace import BatchPace
from tidegate_sdk.clock import Clock
from tidegate_sdk.consumer_log import ConsumerLog
from tidegate_sdk.group_shards import GroupShard, RecordBatch
from tidegate_sdk.program_functions import that_ends

BatchHandler = Callable[[RecordBatch], object]
"""What it returns means nothing; that it returns means that the batch is done."""

TOO_LONG: Final = (
    "a batch with its on_revoked, and on_assigned, are to take less than the group's rebalance "
    "timeout. Make the consumer with fewer records_max, or the group with more "
    "RebalanceTimeoutSeconds"
)


class BatchHandling:
    """Calls the handler. A shard is handled by one thread at a time."""

    def __init__(
        self, handler: BatchHandler, records_max: int, clock: Clock, log: ConsumerLog
    ) -> None:
        self._handler, self._clock = that_ends("handler", handler), clock
        self._log = log
        self._pace = BatchPace(records_max)

    def records_max(self, shard: GroupShard) -> int:
        """Of the next batch of a shard."""
        return self._pace.records_max(shard)

    def handle(self, batch: RecordBatch, rebalance_s: float) -> None:
        """Raises what the handler raises."""
        records, begun_s = len(batch.records), self._clock.now_s()
        try:
            self._handler(batch)
        except BaseException:
            # At once: `run` raises it when all else is done, and of several the first one alone.
            text = "The handler failed on %d records of %s, which ends the consumer"
            self._log.exception(text, records, batch.shard)
            raise
        took_s = self._clock.now_s() - begun_s
        self._pace.has_taken(batch.shard, records, took_s, rebalance_s)
        if took_s >= rebalance_s:
            text = "%d records of %s took %.1f s: %s"
            self._log.warning(text, records, batch.shard, took_s, TOO_LONG)
