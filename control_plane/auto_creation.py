"""Queues that come into being with their first message, where a server is set to do so.

A send to a missing queue is validated against the queue that it would create. Creating it is the
engine's first step, so a message that is refused creates nothing.
"""

from dataclasses import replace

from control_plane.core.definition import Definition
from control_plane.core.queue_lifecycle import FIFO_SUFFIX, check_name
from control_plane.registry import Registry
from data_plane.bag.engine import Bag
from data_plane.core.errors import QUEUE_DELETED_RECENTLY, RefusedError, queue_does_not_exist
from data_plane.core.message import SendCall, Sent, Stored
from data_plane.core.queue import NOT_STORED, Queue
from data_plane.engine import Engine
from data_plane.log.engine import Log
from data_plane.ports import Clock


class AutoCreatingEngine(Engine):
    """The engine of all queues, which stores the definition of one before its first message."""

    def __init__(self, bag: Bag, log: Log, registry: Registry, clock: Clock) -> None:
        super().__init__(bag, log)
        self._registry = registry
        self._clock = clock

    def expected_queue(self, account: str, region: str, name: str) -> Queue:
        """The queue that a first message to this name would create: with SQS's defaults.

        Raises RefusedError for a name that no queue can have.
        """
        fifo = name.endswith(FIFO_SUFFIX)
        check_name(name, fifo=fifo)
        definition = self._registry.define(
            account=account,
            region=region,
            name=name,
            attributes={"FifoQueue": "true"} if fifo else {},
            tags={},
            now_us=self._clock.now_us(),
        )
        return replace(self._registry.queue(definition), version=NOT_STORED)

    async def send(
        self, queue: Queue, call: SendCall, *, stored: Stored | None = None
    ) -> list[Sent]:
        """As `Engine.send`; creates the queue if it is an expected one.

        Raises RefusedError(QueueDoesNotExist) while the name's last queue is not gone long.
        """
        if not queue.is_stored:
            queue = await self._create(queue)
        return await super().send(queue, call, stored=stored)

    async def _create(self, expected: Queue) -> Queue:
        """Store the definition, or find the one that another first message has stored."""
        wanted = Definition(
            account=expected.account,
            region=expected.region,
            name=expected.name,
            uid=expected.uid,
            cell=expected.cell,
            created_s=expected.created_s,
            modified_s=expected.modified_s,
            attributes=expected.attributes,
            generations=expected.generations,
        )
        try:
            stored = await self._registry.create(wanted, {}, self._clock.now_us())
        except RefusedError as refusal:
            if refusal.fault is not QUEUE_DELETED_RECENTLY:
                raise
            raise queue_does_not_exist() from refusal
        return self._registry.queue(stored)
