"""A world of streams in which queues read them: clients speak both to a front end."""

from collections.abc import Mapping
from typing import Final

from control_plane.places.groups import ON_CHAIN
from control_plane.streams import StreamRegistry
from data_plane.log.sources import Sources
from data_plane.operations.stream_address import KnownStreams
from data_plane.ports import Cell
from data_plane.protocol.http import HttpRequest
from data_plane.streams.engine import Streams
from tests.simulation.history import Attempt
from tests.simulation.replicated.promised import Promised
from tests.simulation.streams.plan import StreamsPlan
from tests.simulation.streams.world import StreamsWorld
from tests.simulation.world import Slot, World

OF_SQS: Final = frozenset(
    {
        "CreateQueue",
        "ReceiveMessage",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "PurgeQueue",
    }
)
"""The operations that clients here call of SQS; all others are of Kinesis."""

PURGE_KNOWN_US: Final = 25_000_000
"""So long after its answer a purge has reached every front end that can read it: a definition is
read anew after 5 s, and a receive that waits began by an old one (docs/promises.md)."""


class StreamQueuesWorld(StreamsWorld):
    """As StreamsWorld, for clients of SQS, too.

    `created_us` says when the queues were made that are there; `healed_us` when the faults were
    over, `drained_us` when all was received. `emptied` are queues that were emptied once retentions
    had changed, and from when until when.
    """

    of_sqs = OF_SQS

    def __init__(self, plan: StreamsPlan, promised: Promised) -> None:
        self.created_us: dict[str, int] = {}
        self.emptied: list[tuple[str, int, int]] = []
        self.healed_us = self.drain_began_us = self.drained_us = 0
        self._made: dict[str, tuple[Streams, StreamRegistry]] = {}
        super().__init__(plan, promised)

    def cells_of_messages(self, slot: Slot) -> Mapping[str, Cell]:
        """The groups, and what standard queues on chains name as their cells."""
        found = super().cells_of_messages(slot)
        used = self.cells_used[slot.process.name]
        on_chain = (f"{group}/{ON_CHAIN}" for group in self.group_names)
        return {**found, **{place: used[place] for place in on_chain}}

    def streams_to_read(
        self, slot: Slot, cells: Mapping[str, Cell]
    ) -> tuple[Sources | None, KnownStreams | None]:
        """Those of the front end itself."""
        made = self._made[slot.name] = super().streams_of(slot, cells)
        engine, registry = made
        return engine.sources(registry), registry

    def streams_of(
        self,
        slot: Slot,
        cells: Mapping[str, Cell],  # noqa: ARG002
    ) -> tuple[Streams, StreamRegistry]:
        """Those that its queues read."""
        return self._made[slot.name]

    def http(self, attempt: Attempt) -> HttpRequest:
        """A request of the service that has the operation."""
        if attempt.call.operation in self.of_sqs:
            return World.http(self, attempt)
        return super().http(attempt)
