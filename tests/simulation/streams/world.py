"""A world of groups in which front ends serve streams, too."""

import json
from collections.abc import Mapping, Sequence

from control_plane.consumer_groups.groups import consumer_groups
from control_plane.stream_operations.catalog import stream_operations
from control_plane.stream_upkeep import StreamUpkeep
from control_plane.streams import StreamRegistry
from data_plane.operations.catalog import record_operations
from data_plane.operations.shard_iterator import PURPOSE
from data_plane.ports import Cell
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.kinesis import kinesis
from data_plane.protocol.operation import Operation
from data_plane.protocol.service import Service
from data_plane.streams.engine import Streams
from tests.simulation.history import Attempt
from tests.simulation.replicated.promised import Promised
from tests.simulation.replicated.world import ReplicatedWorld
from tests.simulation.sealed import ACCOUNT, REGION, REGISTRY_SECRET
from tests.simulation.streams.numbering import jobs_of
from tests.simulation.streams.plan import StreamsPlan
from tests.simulation.streams.reading import Reading
from tests.simulation.world import Slot


class StreamsWorld(ReplicatedWorld):
    """As ReplicatedWorld, for clients of Kinesis.

    `readings` are what readers have read; `jobs` those of producers that number their records;
    `kept` the streams whose retention was surely changed.
    """

    def __init__(self, plan: StreamsPlan, promised: Promised) -> None:
        self.readings: list[Reading] = []
        self.kept: list[str] = []
        self.jobs = jobs_of(plan) if plan.numbered else []
        super().__init__(plan, promised)

    def further_services(self, slot: Slot, cells: Mapping[str, Cell]) -> Sequence[Service]:
        """Streams, and what looks after them."""
        process = slot.process
        engine, registry = self.streams_of(slot, cells)
        groups = consumer_groups(slot.cells["meta"], registry, engine, process, process, process)
        upkeep = StreamUpkeep(registry, engine, groups.forgetting, process)
        process.start(slot.repeat(process, upkeep.step))
        seal = registry.token_seal(PURPOSE)
        records = record_operations(engine, registry, seal, process)
        operations = (
            *stream_operations(registry),
            *records,
            *self.further_operations(slot, registry),
        )
        return (kinesis(operations, registry.policy_of),)

    def further_operations(
        self,
        slot: Slot,  # noqa: ARG002
        registry: StreamRegistry,  # noqa: ARG002
    ) -> tuple[Operation, ...]:
        """What a front end does beside, of the same service."""
        return ()

    def streams_of(self, slot: Slot, cells: Mapping[str, Cell]) -> tuple[Streams, StreamRegistry]:
        """The engine and the registry of a front end's streams."""
        process = slot.process
        engine = Streams(cells, process, process, process)
        registry = StreamRegistry(
            slot.cells["meta"],
            tuple(cells),
            process,
            process,
            engine,
            secret=REGISTRY_SECRET,
            placing=self.placing_of(slot),
        )
        return engine, registry

    def http(self, attempt: Attempt) -> HttpRequest:
        """A request as an SDK sends it."""
        call = attempt.call
        scope = f"{ACCOUNT}/20270115/{REGION}/kinesis/x"
        return HttpRequest(
            method="POST",
            path="/",
            query="",
            headers={
                "content-type": "application/x-amz-json-1.1",
                "x-amz-target": f"Kinesis_20131202.{call.operation}",
                "authorization": f"AWS4-HMAC-SHA256 Credential={scope}",
                "amz-sdk-invocation-id": call.invocation_id,
                "amz-sdk-request": f"attempt={attempt.number}; max=4",
            },
            body=json.dumps(call.params).encode(),
        )
