"""A world of streams on demand, in which queues of the Kinesis API read them."""

from dataclasses import dataclass

from control_plane.kinesis_queues import KinesisQueues
from control_plane.stream_operations.paging import PURPOSE
from control_plane.stream_operations.stream_queue_catalog import stream_queue_operations
from control_plane.streams import StreamRegistry
from data_plane.core.message import Counts
from data_plane.core.queue import Queue
from data_plane.operations.catalog import queue_record_operations
from data_plane.operations.kinesis_queue import read_queue_arn
from data_plane.ports import CellUnavailableError
from data_plane.protocol.operation import Operation
from tests.simulation.kinesis_queues.plan import KinesisQueuesPlan
from tests.simulation.replicated.plan import SECOND_US
from tests.simulation.replicated.promised import Promised
from tests.simulation.stream_queues.world import StreamQueuesWorld
from tests.simulation.world import Slot

COUNTERS_US = 60 * SECOND_US
"""Every so often a front end lets go of counters that no count needs any more."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a front end said of the records of a queue."""

    queue: str
    front_end: str
    counts: Counts


class KinesisQueuesWorld(StreamQueuesWorld):
    """As StreamQueuesWorld, with queues of the other API. `arns` are those that were made.

    `at_rest` was counted before all was received, when no lease lasted; `at_end` when all was
    acknowledged.
    """

    of_sqs = frozenset[str]()

    def __init__(self, plan: KinesisQueuesPlan, promised: Promised) -> None:
        self.arns: dict[str, str] = {}
        self.at_rest: list[Counted] = []
        self.at_end: list[Counted] = []
        self._queues: dict[str, KinesisQueues] = {}
        super().__init__(plan, promised)

    def further_operations(self, slot: Slot, registry: StreamRegistry) -> tuple[Operation, ...]:
        """Those on queues, and on the records that they deliver."""
        process = slot.process
        queues = KinesisQueues(slot.cells["meta"], slot.registry, process, process)
        self._queues[slot.name] = queues
        process.start(self._drop_counters(slot))
        return (
            *stream_queue_operations(queues, registry, slot.engine, registry.token_seal(PURPOSE)),
            *queue_record_operations(slot.engine, queues),
        )

    async def _drop_counters(self, slot: Slot) -> None:
        process = slot.process
        while True:
            await process.sleep_until(process.now_us() + COUNTERS_US)
            try:
                for name in self.arns:
                    await slot.engine.drop_past_counters(await self._queue(slot, name))
            except CellUnavailableError as error:
                self.note(f"{process.name} counters: {error}")

    async def counted(self) -> list[Counted]:
        """What every front end says of each queue."""
        return [
            Counted(name, slot.name, await slot.engine.counts(await self._queue(slot, name)))
            for slot in self.slots
            for name in self.arns
        ]

    async def _queue(self, slot: Slot, name: str) -> Queue:
        queue_id = read_queue_arn(self.arns[name])
        assert queue_id is not None
        queue = await self._queues[slot.name].find(*queue_id)
        assert queue is not None, "queues are made, and stay"
        return queue
