"""What a load costs in a month, on each way of running Tidegate and on Amazon SQS.

Requests come from `request_units`, dollars from `price_list`; what is left are the assumptions
of this module, which docs/cost.md names with what they rest on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil
from typing import Final, Literal

from control_plane.core import request_units
from control_plane.core.price_list import HOURS_A_MONTH, MILLION, PRICES, SECONDS_A_MONTH
from control_plane.core.request_units import RANDOM_TEXT_SHARE, Shape, Spent
from data_plane.core.limits import (
    BATCH_ENTRIES_MAX,
    BATCH_SIZE_BYTES_MAX,
    MESSAGE_SIZE_BYTES_MAX,
    RECEIVE_WAIT_S_MAX,
    RETENTION_S_DEFAULT,
    RETENTION_S_MAX,
    RETENTION_S_MIN,
)
from data_plane.stored.bounds import SEGMENT_MESSAGES_MAX

Door = Literal["rest", "url", "server", "embedded"]
DOORS: Final[tuple[Door, ...]] = ("rest", "url", "server", "embedded")
"""API Gateway REST and function URLs before Lambda; servers on DynamoDB; one on its own disk."""

SQS_CHUNK_BYTES: Final = 65_536
BYTES_A_GB: Final = 10**9
MEMORY_MB: Final = (128, 10_240)
MEMORY_MB_DEFAULT: Final = 1_769
"""One processor; infra/options.py has the same."""

MB_A_GB: Final = 1_024
HTTP_BYTES: Final = 1_200
"""Headers of a call and its answer."""
LOG_BYTES: Final = {"url": 800, "rest": 1_150}
"""What a call leaves in CloudWatch Logs: the platform's lines, the answer's, and API Gateway's."""

FLUSHES_PER_S: Final = 10
"""Counters of messages in flight are for a tenth of a second each, at every front end."""

DELIVERIES_PER_S: Final = 0.2
"""How often the log of a busy sandbox reaches the usage function, which stores objects then."""
OBJECTS_PER_DELIVERY: Final = 2
"""Of usage records, and of access records."""
MARKS_PER_S: Final = 1 / 60
"""How often a busy sandbox puts its mark, before an answer."""
FOLLOWER_GB_S: Final = 0.05
"""What one run of the usage function, or of a task of the cluster manager, takes."""

LOOKS: Final = HOURS_A_MONTH * 60
"""Each minute an Express workflow looks whether the cluster manager has anything to do."""
STREAM_LOOKS: Final = HOURS_A_MONTH * 2
"""Each half hour it looks whether there are streams, by one read."""
LOOK_GB_S: Final = 0.5 * 64 / MB_A_GB
"""Half a second, assumed, of the least memory that is billed."""
LOOK_READS: Final = 3
"""Units: move tasks, deleted queues, purges."""
SWEEPS: Final = HOURS_A_MONTH / 6
SWEEP_TRANSITIONS: Final = 7
"""Of the cluster manager itself, which looks for bodies that nothing names, with one round."""
MEASURES: Final = HOURS_A_MONTH * 12
"""Every five minutes depth and age of the queues that a stage names are told."""
MEASURE_REQUESTS: Final = 4
QUEUE_METRICS: Final = 8
MEASURE_GROUP_READS: Final = 2
MEASURE_SHARD_READS: Final = 3
"""Of a consumer group on one stream: of itself, and of each shard, where it is behind."""
GROUP_METRICS: Final = 2
MEASURE_LINE_BYTES: Final = 200
TTL_SLACK_S: Final = 3_600
SERVER_VCPU: Final = 1
SERVER_MEMORY_GB: Final = 2
SERVER_BUSY_MAX: Final = 0.6
"""The share of a server's processor that is planned for."""
VOLUME_GB: Final = 100
_TIME_MS_MAX: Final = 900_000
BALANCER_GB_AN_HOUR: Final = 1
"""What a load balancer's capacity unit processes."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, in milliseconds; most of it is assumed, as docs/cost.md says.

    `own_ms` is the function's time for a call beside what it waits for; `server_cpu_ms` and
    `embedded_cpu_ms` are processor time of a server for a call.
    """

    dynamodb_ms: float = 8.0
    s3_ms: float = 30.0
    own_ms: float = 6.0
    server_cpu_ms: float = 6.0
    embedded_cpu_ms: float = 0.3

    def __post_init__(self) -> None:
        for name in Timing.__slots__:
            if not 0 <= (number := getattr(self, name)) <= _TIME_MS_MAX:
                raise ValueError(f"{name}: {number:,g} is not within 0 and {_TIME_MS_MAX:,}")


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a queue. Raises ValueError for what no queue takes.

    Each message is sent, received once and deleted, `batch` at a time. `empty_receives_per_s` find
    nothing; each waits `wait_s` first. `front_ends` is how many take turns (0: as many as the load
    keeps busy), `servers` how many run at least (0: two on DynamoDB).
    """

    messages_per_s: float
    size_bytes: int = 1_024
    batch: int = 1
    fifo: bool = False
    empty_receives_per_s: float = 0.0
    wait_s: float = 0.0
    door: Door = "rest"
    architecture: Literal["arm64", "x86_64"] = "arm64"
    memory_mb: int = MEMORY_MB_DEFAULT
    front_ends: int = 0
    servers: int = 0
    text_share: float = RANDOM_TEXT_SHARE
    retention_s: int = RETENTION_S_DEFAULT
    timing: Timing = Timing()

    def __post_init__(self) -> None:
        for name, number, low, high in (
            ("messages a second", self.messages_per_s, 0.000_001, 1e9),
            ("size", self.size_bytes, 1, MESSAGE_SIZE_BYTES_MAX),
            ("batch", self.batch, 1, BATCH_ENTRIES_MAX),
            ("empty receives a second", self.empty_receives_per_s, 0, 1e9),
            ("wait", self.wait_s, 0, RECEIVE_WAIT_S_MAX),
            ("memory", self.memory_mb, *MEMORY_MB),
            ("front ends", self.front_ends, 0, 1e6),
            ("servers", self.servers, 0, 1e6),
            ("text share", self.text_share, 0.001, 1),
            ("retention in seconds", self.retention_s, RETENTION_S_MIN, RETENTION_S_MAX),
        ):
            if not low <= number <= high:  # not so for a number that is none, too
                raise ValueError(f"{name}: {number:,g} is not within {low:,g} and {high:,g}")
        if self.size_bytes * self.batch > BATCH_SIZE_BYTES_MAX:
            raise ValueError(
                f"size: {self.batch} messages of {self.size_bytes:,} bytes are more than the"
                f" {BATCH_SIZE_BYTES_MAX:,} of a call"
            )

    @property
    def shape(self) -> Shape:
        """Messages as they go in a call."""
        return Shape(self.size_bytes, self.batch, self.fifo, self.text_share)

    @property
    def calls_per_s(self) -> float:
        """Sends, receives that find something, and deletes."""
        return 3 * self.messages_per_s / self.batch


@dataclass(frozen=True, slots=True)
class Line:
    """One item of a bill: `amount` units of the price in a month. `fixed` does not grow with it."""

    name: str
    amount: Decimal
    price: str
    fixed: bool = False

    @property
    def usd(self) -> Decimal:
        """Dollars a month."""
        return PRICES[self.price].of(self.amount)


@dataclass(frozen=True, slots=True)
class Bill:
    """What a load costs in a month; `front_ends` take turns on the queue, or run."""

    load: Load
    lines: tuple[Line, ...]
    front_ends: int

    @property
    def usd(self) -> Decimal:
        """Dollars a month."""
        return sum((line.usd for line in self.lines), Decimal(0))

    @property
    def usd_fixed(self) -> Decimal:
        """The part of it that is there without any load."""
        return sum((line.usd for line in self.lines if line.fixed), Decimal(0))

    @property
    def usd_per_million(self) -> Decimal:
        """Dollars for a million messages, without what is fixed."""
        return (self.usd - self.usd_fixed) / _millions(self.load.messages_per_s)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls of one kind: how many a second, and what each spends."""

    per_s: float
    spent: Spent
    wait_s: float = 0.0


def bill(load: Load) -> Bill:
    """What the load costs on Tidegate. Raises ValueError for more than an embedded server takes."""
    if load.door == "embedded":
        return _embedded_bill(load)
    if load.door == "server":
        return _server_bill(load)
    return _function_bill(load)


def sqs_bill(load: Load) -> Bill:
    """What the load costs on Amazon SQS: requests, each 64 KB of a call being one."""
    chunks = max(1, ceil(load.size_bytes * load.batch / SQS_CHUNK_BYTES))
    calls_per_s = load.messages_per_s / load.batch
    name = "sqs fifo" if load.fifo else "sqs standard"
    lines = [
        Line("sends", _millions(calls_per_s * chunks), name),
        Line("receives", _millions(calls_per_s * chunks), name),
        Line("deletes", _millions(calls_per_s), name),
        Line("empty receives", _millions(load.empty_receives_per_s), name),
    ]
    return Bill(load, _merged(lines), 0)


def call_ms(spent: Spent, timing: Timing) -> float:
    """How long a function works on a call, in milliseconds."""
    waits_ms = spent.steps * timing.dynamodb_ms + (spent.puts + spent.gets) * timing.s3_ms
    return timing.own_ms + waits_ms


def _function_bill(load: Load) -> Bill:
    front_ends = load.front_ends or _sandboxes(load)
    calls = _function_calls(load, front_ends)
    per_s = sum(each.per_s for each in calls)
    deliveries_per_s = min(per_s, front_ends * DELIVERIES_PER_S)
    marks_per_s = min(per_s, front_ends * MARKS_PER_S)
    busy = sum(
        each.per_s * (call_ms(each.spent, load.timing) / 1000 + each.wait_s) for each in calls
    )
    gb_s = (busy + marks_per_s * load.timing.s3_ms / 1000) * (load.memory_mb / MB_A_GB)
    logged_gb = per_s * LOG_BYTES[load.door] / BYTES_A_GB
    lines = [
        Line("Lambda requests", _millions(per_s + deliveries_per_s), "lambda request"),
        Line(
            f"Lambda {load.architecture}",
            _month(gb_s + deliveries_per_s * FOLLOWER_GB_S),
            f"lambda {load.architecture}",
        ),
        Line("logs", _month(logged_gb), "log ingestion"),
        *_stored(load, load.shape, calls),
        Line("counters", _millions(_in_flight_writes(load, front_ends)), "write unit"),
        Line(
            "usage objects",
            _millions(deliveries_per_s * OBJECTS_PER_DELIVERY + marks_per_s),
            "object put",
        ),
        Line("KMS key", Decimal(1), "kms key", fixed=True),
        *_manager(load),
    ]
    if load.door == "rest":
        lines.insert(0, Line("API Gateway requests", _millions(per_s), "rest request"))
    return Bill(load, tuple(lines), front_ends)


def _manager(load: Load) -> Iterable[Line]:
    """The cluster manager of a deployment that wants nothing of it."""
    looks = LOOKS + STREAM_LOOKS
    tasks = _decimal(looks + SWEEPS)
    reads = LOOKS * LOOK_READS + STREAM_LOOKS

    def line(name: str, amount: Decimal, price: str) -> Line:
        return Line(name, amount, price, fixed=True)

    yield line("cluster manager's looks", Decimal(looks) / MILLION, "express request")
    yield line("their time", _decimal(looks * LOOK_GB_S), "express time")
    yield line("their reads", Decimal(reads) / MILLION, "read unit")
    yield line("its sweeps", _decimal(SWEEPS * SWEEP_TRANSITIONS) / MILLION, "state transition")
    yield line("its invocations", tasks / MILLION, "lambda request")
    yield line("its tasks", tasks * _decimal(FOLLOWER_GB_S), f"lambda {load.architecture}")


def watched(*, metrics: int, alarms: int, reads: int) -> tuple[Line, ...]:
    """What metrics and alarms of a queue or a group cost; a look at it takes so many `reads`."""
    return (
        Line("metrics", Decimal(metrics), "metric"),
        Line("alarms", Decimal(alarms), "alarm"),
        Line("reads", Decimal(MEASURES * reads) / MILLION, "read unit"),
        Line("log", Decimal(MEASURES * MEASURE_LINE_BYTES) / BYTES_A_GB, "log ingestion"),
    )


def _function_calls(load: Load, front_ends: float) -> Sequence[_Calls]:
    """Calls of functions, which write what they counted before they answer: nothing runs later."""
    sends, receives, deletes, empty = _calls(load, load.shape, front_ends)
    return (_counting(sends), receives, _counting(deletes), empty)


def _counting(calls: _Calls) -> _Calls:
    spent = calls.spent
    return replace(calls, spent=replace(spent, writes=spent.writes + 1, steps=spent.steps + 1))


def _in_flight_writes(load: Load, front_ends: float) -> float:
    """Counters a second of what is in flight, where one took a message and another deleted it."""
    receives_per_s = load.messages_per_s / load.batch / front_ends
    return 2 * front_ends * min(receives_per_s, FLUSHES_PER_S) * (1 - 1 / front_ends)


def _server_bill(load: Load) -> Bill:
    calls_per_s = load.calls_per_s + load.empty_receives_per_s
    busy = calls_per_s * load.timing.server_cpu_ms / 1000
    servers = max(load.servers or 2, ceil(busy / SERVER_BUSY_MAX))
    shape = _shared_shape(load, servers)
    calls = _calls(load, shape, load.front_ends or servers)
    bytes_an_hour = 3_600 * (calls_per_s * HTTP_BYTES + 2 * load.messages_per_s * load.size_bytes)
    capacity = bytes_an_hour / BYTES_A_GB / BALANCER_GB_AN_HOUR
    hours = Decimal(HOURS_A_MONTH * servers)
    return Bill(
        load,
        (
            *_stored(load, shape, calls),
            Line("counters", _millions(_in_flight_writes(load, servers)), "write unit"),
            Line("Fargate processors", hours * SERVER_VCPU, "fargate vcpu", fixed=True),
            Line("Fargate memory", hours * SERVER_MEMORY_GB, "fargate memory", fixed=True),
            Line("load balancer", Decimal(HOURS_A_MONTH), "balancer", fixed=True),
            Line("balancer capacity", _decimal(capacity * HOURS_A_MONTH), "balancer capacity"),
            Line("KMS key", Decimal(1), "kms key", fixed=True),
        ),
        servers,
    )


def _embedded_bill(load: Load) -> Bill:
    calls_per_s = load.calls_per_s + load.empty_receives_per_s
    most_per_s = 1000 * SERVER_BUSY_MAX / load.timing.embedded_cpu_ms
    if calls_per_s > most_per_s:
        raise ValueError(
            f"messages a second: {calls_per_s:,.0f} calls a second are more than the"
            f" {most_per_s:,.0f} of one embedded server"
        )
    lines = (
        Line("instance", Decimal(HOURS_A_MONTH), "instance", fixed=True),
        Line("volume", Decimal(VOLUME_GB), "volume", fixed=True),
    )
    return Bill(load, lines, 1)


def _calls(load: Load, shape: Shape, front_ends: float) -> Sequence[_Calls]:
    """Calls that spend something; a send's part where several share an item."""
    per_s = load.messages_per_s / load.batch
    share = load.batch / shape.batch
    sent = request_units.send(shape, front_ends)
    return (
        _Calls(per_s, _part(sent, share)),
        _Calls(per_s, request_units.receive(load.shape, front_ends)),
        _Calls(per_s, request_units.delete(load.shape, front_ends)),
        _Calls(load.empty_receives_per_s, request_units.empty_receive(load.wait_s), load.wait_s),
    )


def _part(spent: Spent, share: float) -> Spent:
    return Spent(
        spent.writes * share, spent.reads * share, spent.puts * share, spent.gets, spent.steps
    )


def _shared_shape(load: Load, servers: int) -> Shape:
    """The items of servers: what arrives while a write is under way shares the next one."""
    meanwhile = load.messages_per_s / servers * load.timing.dynamodb_ms / 1000
    together = min(SEGMENT_MESSAGES_MAX, max(load.batch, int(meanwhile)))
    return Shape(load.size_bytes, together, load.fifo, load.text_share)


def _sandboxes(load: Load) -> int:
    """How many functions are busy at a time on average: calls a second times their duration."""
    calls = _function_calls(load, 1)
    return max(1, ceil(sum(each.per_s * call_ms(each.spent, load.timing) / 1000 for each in calls)))


def _stored(load: Load, shape: Shape, calls: Sequence[_Calls]) -> Iterable[Line]:
    """What the table and the bucket cost; items stay until their time to live is over."""
    yield Line(
        "DynamoDB writes", _millions(sum(c.per_s * c.spent.writes for c in calls)), "write unit"
    )
    yield Line(
        "DynamoDB reads", _millions(sum(c.per_s * c.spent.reads for c in calls)), "read unit"
    )
    puts = sum(c.per_s * c.spent.puts for c in calls)
    if puts:
        yield Line("S3 puts", _millions(puts), "object put")
        yield Line("S3 gets", _millions(sum(c.per_s * c.spent.gets for c in calls)), "object get")
    held = load.messages_per_s / shape.batch * (load.retention_s + TTL_SLACK_S)
    held_gb = _decimal(held * request_units.item_bytes(shape) / BYTES_A_GB)
    yield Line("table storage", held_gb, "table storage")
    yield Line("point-in-time recovery", held_gb, "point-in-time recovery")


def _merged(lines: Sequence[Line]) -> tuple[Line, ...]:
    """As one line, because tiers count what all of them use."""
    total = sum((line.amount for line in lines), Decimal(0))
    return (Line("requests", total, lines[0].price),)


def _month(per_s: float) -> Decimal:
    return _decimal(per_s) * SECONDS_A_MONTH


def _millions(per_s: float) -> Decimal:
    return _month(per_s) / MILLION


def _decimal(number: float) -> Decimal:
    return Decimal(repr(float(number)))
