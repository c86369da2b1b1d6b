"""How much one queue, one table and one account take, on paper: quotas over what calls spend."""

from dataclasses import dataclass
from typing import Final

from control_plane.core import request_units
from control_plane.core.request_units import Shape

PARTITION_WRITES_PER_S: Final = 1_000
PARTITION_READS_PER_S: Final = 3_000
"""Of a partition of DynamoDB, in units; https://docs.aws.amazon.com/amazondynamodb/latest/
developerguide/bp-partition-key-design.html. Keys that grow with time are not split."""

TABLE_WRITES_PER_S: Final = 40_000
"""Of a table on demand, by its default quota (ServiceQuotas in the same guide)."""

FUNCTION_CALLS_PER_S: Final = 10_000
"""1,000 functions at a time in an account and region, and ten calls a second of each."""

GATEWAY_CALLS_PER_S: Final = 10_000
"""API Gateway, in an account and region."""

PREFIX_PUTS_PER_S: Final = 3_500
"""S3, under one prefix: bodies of a queue have one."""

APPENDS_PER_S: Final = 25
"""To a partition of a FIFO queue by front ends that take turns; docs/promises.md, an estimate."""

HIGH_THROUGHPUT_PARTITIONS: Final = 8


@dataclass(frozen=True, slots=True)
class Bound:
    """What ends the growth of a queue: messages a second, and what has no room for more."""

    messages_per_s: float
    by: str


def of_queue(shape: Shape, *, functions: bool = False) -> tuple[Bound, ...]:
    """What bounds one queue of the shape on DynamoDB, the lowest first.

    `functions` also count each send and delete before they answer, in one item for each minute.
    """
    sent, received = request_units.send(shape), request_units.receive(shape)
    deleted = request_units.delete(shape)
    bounds = [
        Bound(
            shape.batch * PARTITION_WRITES_PER_S / sent.writes,
            "writes of messages, in one partition",
        ),
        Bound(
            shape.batch * PARTITION_WRITES_PER_S / (received.writes + deleted.writes),
            "leases and deletes, in one partition",
        ),
        Bound(
            shape.batch * PARTITION_READS_PER_S / received.reads,
            "reads of messages, in one partition",
        ),
    ]
    if sent.puts:
        bounds.append(Bound(shape.batch * PREFIX_PUTS_PER_S / sent.puts, "objects put"))
    if functions:
        bounds.append(
            Bound(shape.batch * PARTITION_WRITES_PER_S / 2, "counters of sends and deletes")
        )
    if shape.fifo:
        bounds.append(Bound(shape.batch * APPENDS_PER_S, "appends of front ends in turns"))
    return tuple(sorted(bounds, key=lambda bound: bound.messages_per_s))


def of_table(shape: Shape) -> float:
    """Messages a second that all queues of a table take by its default quota of writes."""
    writes = sum(
        spent.writes
        for spent in (
            request_units.send(shape),
            request_units.receive(shape),
            request_units.delete(shape),
        )
    )
    return shape.batch * TABLE_WRITES_PER_S / writes


def of_account(shape: Shape) -> float:
    """Messages a second through functions, or through API Gateway: three calls for a batch."""
    return shape.batch * min(FUNCTION_CALLS_PER_S, GATEWAY_CALLS_PER_S) / 3
