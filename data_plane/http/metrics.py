"""Metrics in Prometheus' text format: SQS's own per queue, under CloudWatch's names, and ours.

A request pays for a few additions; everything else happens when the metrics are asked for.
"""

import resource
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric

from data_plane.core.message import Counts
from data_plane.frontend.served import Served

QueueName = tuple[str, str, str]
"""Account, region and name."""

QUEUES_MAX: Final = 1000
OTHER_QUEUES: Final = ("", "", "(other)")
"""Stands for all queues beyond QUEUES_MAX: the answer to a scrape stays bounded."""

LATENCY_BUCKETS_S: Final = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 20.0),
)
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SENDS: Final = frozenset({"SendMessage", "SendMessageBatch"})
_DELETES: Final = frozenset({"DeleteMessage", "DeleteMessageBatch"})
_QUEUE_LABELS: Final = ("account", "region", "queue")
_OK: Final = 200


@dataclass(slots=True)
class QueueTotals:
    """What was done to one queue since the server started."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    deleted: int = 0
    empty_receives: int = 0


@dataclass(slots=True)
class Latencies:
    """Requests of one operation by how long they took: a count per bucket, the last is above."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS_S) + 1))
    sum_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is measured at the moment of a scrape."""

    queues: Mapping[QueueName, Counts]
    in_flight: int
    uptime_s: float
    now_ms: int
    cells: Mapping[str, Mapping[str, float]]
    """By cell and name; a name that ends in `_total` only ever grows."""
    dependencies: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The same of each guard before a dependency (runtime/guard.py)."""
    refused_unread: Mapping[str, int] = field(default_factory=dict)
    """Requests that were refused before their bodies were read, by reason (overload.py)."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Usage records (data_plane/usage/writer.py), named as gauges of cells are."""


class Metrics:
    """Counts requests as they are served."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, QueueTotals] = {}
        self._requests: dict[tuple[str, int, str], int] = {}
        self._latencies: dict[str, Latencies] = {}

    def served(self, served: Served) -> None:
        """Count a request that was answered."""
        outcome = (served.operation, served.status, served.code)
        self._requests[outcome] = self._requests.get(outcome, 0) + 1
        latencies = self._latencies.get(served.operation)
        if latencies is None:
            latencies = self._latencies[served.operation] = Latencies()
        took_s = (served.finished_us - served.started_us) / 1_000_000
        latencies.buckets[bisect_left(LATENCY_BUCKETS_S, took_s)] += 1
        latencies.sum_s += took_s
        if served.queue and served.status == _OK:
            self._count_messages(served)

    def _count_messages(self, served: Served) -> None:
        totals = self._totals((served.account, served.region, served.queue))
        if served.operation in _SENDS:
            totals.sent += served.messages
            totals.sent_bytes += served.bytes
        elif served.operation == "ReceiveMessage":
            totals.received += served.messages
            totals.empty_receives += served.messages == 0
        elif served.operation in _DELETES:
            totals.deleted += served.messages

    def _totals(self, queue: QueueName) -> QueueTotals:
        totals = self.queues.get(queue)
        if totals is None:
            if len(self.queues) >= QUEUES_MAX:
                queue = OTHER_QUEUES
            totals = self.queues.setdefault(queue, QueueTotals())
        return totals

    def forget(self, queue: QueueName) -> None:
        """The queue is gone: its series end."""
        self.queues.pop(queue, None)

    def text(self, gauges: Gauges) -> bytes:
        """All metrics, in Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families([*self._of_queues(gauges), *self._of_server(gauges)]))
        return generate_latest(registry)

    def _of_queues(self, gauges: Gauges) -> Iterator[Metric]:
        for name, cloudwatch, attribute in (
            ("number_of_messages_sent", "NumberOfMessagesSent", "sent"),
            ("number_of_messages_received", "NumberOfMessagesReceived", "received"),
            ("number_of_messages_deleted", "NumberOfMessagesDeleted", "deleted"),
            ("number_of_empty_receives", "NumberOfEmptyReceives", "empty_receives"),
        ):
            family = CounterMetricFamily(
                f"tidegate_sqs_{name}", f"{cloudwatch} (count)", labels=_QUEUE_LABELS
            )
            for queue, totals in self.queues.items():
                family.add_metric(queue, getattr(totals, attribute))
            yield family
        sizes = SummaryMetricFamily(
            "tidegate_sqs_sent_message_size_bytes", "SentMessageSize (bytes)", labels=_QUEUE_LABELS
        )
        for queue, totals in self.queues.items():
            sizes.add_metric(queue, totals.sent, totals.sent_bytes)
        yield sizes
        yield from _of_backlogs(gauges)

    def _of_server(self, gauges: Gauges) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "tidegate_requests",
            "Requests answered, by operation, HTTP status and error code",
            labels=("operation", "status", "code"),
        )
        for (operation, status, code), count in self._requests.items():
            requests.add_metric((operation, str(status), code), count)
        yield requests
        latency = HistogramMetricFamily(
            "tidegate_request_duration_seconds",
            "Time to answer a request, long polls included",
            labels=("operation",),
        )
        for operation, latencies in self._latencies.items():
            latency.add_metric((operation,), _cumulative(latencies.buckets), latencies.sum_s)
        yield latency
        refused = CounterMetricFamily(
            "tidegate_requests_refused_unread",
            "Requests refused as they arrived: server busy, or account's quota exhausted",
            labels=("reason",),
        )
        for reason, number in gauges.refused_unread.items():
            refused.add_metric((reason,), number)
        yield refused
        yield GaugeMetricFamily(
            "tidegate_requests_in_flight", "Requests being answered now", gauges.in_flight
        )
        yield GaugeMetricFamily(
            "tidegate_uptime_seconds", "Time since the server started", gauges.uptime_s
        )
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory", resident_bytes()
        )
        yield from _by_label("cell", gauges.cells)
        yield from _by_label("dependency", gauges.dependencies)
        for name, value in gauges.usage.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield kind(f"tidegate_usage_{name}", f"Usage: {name.replace('_', ' ')}", value)


class _Families:
    """What CollectorRegistry wants to be given."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _of_backlogs(gauges: Gauges) -> Iterator[Metric]:
    for name, cloudwatch, attribute in (
        ("visible", "ApproximateNumberOfMessagesVisible", "visible"),
        ("not_visible", "ApproximateNumberOfMessagesNotVisible", "in_flight"),
        ("delayed", "ApproximateNumberOfMessagesDelayed", "delayed"),
    ):
        family = GaugeMetricFamily(
            f"tidegate_sqs_approximate_number_of_messages_{name}",
            f"{cloudwatch} (count)",
            labels=_QUEUE_LABELS,
        )
        for queue, counts in gauges.queues.items():
            family.add_metric(queue, getattr(counts, attribute))
        yield family
    oldest = GaugeMetricFamily(
        "tidegate_sqs_approximate_age_of_oldest_message_seconds",
        "ApproximateAgeOfOldestMessage (seconds)",
        labels=_QUEUE_LABELS,
    )
    for queue, counts in gauges.queues.items():
        age_ms = gauges.now_ms - counts.oldest_sent_ms if counts.oldest_sent_ms else 0
        oldest.add_metric(queue, max(0, age_ms) / 1000)
    yield oldest


def _by_label(label: str, gauges: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for labelled, values in gauges.items():
        for name, value in values.items():
            family = families.get(name)
            if family is None:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = families[name] = kind(
                    f"tidegate_{label}_{name}",
                    f"The {label}'s {name.replace('_', ' ')}",
                    labels=(label,),
                )
            family.add_metric((labelled,), value)
    yield from families.values()


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    total = 0
    pairs: list[tuple[str, float]] = []
    for bound, count in zip((*LATENCY_BUCKETS_S, float("inf")), buckets, strict=True):
        total += count
        pairs.append(("+Inf" if bound == float("inf") else str(bound), total))
    return pairs


def resident_bytes() -> int:
    """Resident memory of this process; its peak, on systems that do not tell the present."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except FileNotFoundError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()
