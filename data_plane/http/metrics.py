"""Metrics in Prometheus' text format: SQS's and Kinesis's, by CloudWatch's names, and ours.

A request pays for a few additions; everything else happens when the metrics are asked for, some
lines at a time, so that whoever writes them can let others go first in between.
"""

import resource
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar

from data_plane.core.message import Counts
from data_plane.frontend.served import Served
from data_plane.http.prometheus_text import (
    COUNTER,
    GAUGE,
    SUMMARY,
    Family,
    escaped,
    labelled,
    labels_text,
    number_text,
)
from data_plane.http.queue_record_metrics import QueueKey, QueueRecordMetrics
from data_plane.http.stream_metrics import PREFIX, GroupStream, StreamMetrics, of_groups
from data_plane.streams.lag import Lag

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
_OK: Final = 200

_LINES_MAX: Final = 50
"""Written in one go: it takes a quarter of a millisecond."""
_SIZES: Final = "tidegate_sqs_sent_message_size_bytes"
_OLDEST: Final = "tidegate_sqs_approximate_age_of_oldest_message_seconds"
_DURATION: Final = "tidegate_request_duration_seconds"


_Record = TypeVar("_Record")


@dataclass(slots=True)
class QueueTotals:
    """What was done to one queue since the server started."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    deleted: int = 0
    empty_receives: int = 0
    used_us: int = 0
    """When it was served last."""


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
    log_lines_dropped: Mapping[str, int] = field(default_factory=dict)
    """Lines of the log that could not be written, by reason (line_buffer.py)."""
    observer_failures: Mapping[str, int] = field(default_factory=dict)
    """Answers and acts that somebody did not hear of, by who that is (observers.py)."""
    group_lags: Mapping[GroupStream, Lag] = field(default_factory=dict)
    queue_records: Mapping[QueueKey, Counts] = field(default_factory=dict)
    """Of queues of the Kinesis API, by their ids."""


class Metrics:
    """Counts requests as they are served."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, QueueTotals] = {}
        self.streams = StreamMetrics()
        self.queue_records = QueueRecordMetrics()
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
            if served.operation.startswith(PREFIX):
                self.streams.served(served)
                self.queue_records.served(served)
            else:
                self._count_messages(served)

    def _count_messages(self, served: Served) -> None:
        totals = self._totals((served.account, served.region, served.queue))
        totals.used_us = served.finished_us
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

    def pieces(self, gauges: Gauges) -> Iterator[bytes]:
        """All metrics, in Prometheus' text format: pieces of up to _LINES_MAX lines."""
        for family in chain(
            self._of_queues(gauges),
            self.streams.families(gauges.now_ms),
            self.queue_records.families(gauges.queue_records),
            of_groups(gauges.group_lags),
            self._of_server(gauges),
        ):
            name, kind, says, _ = family
            yield f"# HELP {name} {says}\n# TYPE {name} {kind}\n".encode()
            lines = iter(family.lines)
            while piece := "".join(islice(lines, _LINES_MAX)):
                yield piece.encode()

    def _of_queues(self, gauges: Gauges) -> Iterator[Family]:
        # Requests go on between two pieces: what they add must not change what is walked over.
        totals = list(self.queues.items())
        for name, cloudwatch, attribute in (
            ("number_of_messages_sent", "NumberOfMessagesSent", "sent"),
            ("number_of_messages_received", "NumberOfMessagesReceived", "received"),
            ("number_of_messages_deleted", "NumberOfMessagesDeleted", "deleted"),
            ("number_of_empty_receives", "NumberOfEmptyReceives", "empty_receives"),
        ):
            full_name = f"tidegate_sqs_{name}_total"
            lines = _queue_lines(full_name, totals, attrgetter(attribute))
            yield Family(full_name, COUNTER, f"{cloudwatch} (count)", lines)
        yield Family(
            _SIZES,
            SUMMARY,
            "SentMessageSize (bytes)",
            (
                f"{_SIZES}_count{labels} {number_text(t.sent)}\n"
                f"{_SIZES}_sum{labels} {number_text(t.sent_bytes)}\n"
                for q, t in totals
                for labels in (_queue_labels(q),)
            ),
        )
        yield from _of_backlogs(gauges)

    def _of_server(self, gauges: Gauges) -> Iterator[Family]:
        yield labelled(
            "tidegate_requests_total",
            "Requests answered, by operation, HTTP status and error code",
            (
                ({"operation": operation, "status": str(status), "code": code}, count)
                for (operation, status, code), count in list(self._requests.items())
            ),
        )
        yield Family(
            _DURATION,
            "histogram",
            "Time to answer a request, long polls included",
            (
                line
                for operation, latencies in list(self._latencies.items())
                for line in _histogram_lines(operation, latencies)
            ),
        )
        yield labelled(
            "tidegate_requests_refused_unread_total",
            "Requests refused as they arrived, by reason (docs/operations.md)",
            (({"reason": reason}, number) for reason, number in gauges.refused_unread.items()),
        )
        yield from _of_observers(gauges)
        yield labelled(
            "tidegate_requests_in_flight",
            "Requests being answered now",
            [({}, gauges.in_flight)],
        )
        yield labelled(
            "tidegate_uptime_seconds", "Time since the server started", [({}, gauges.uptime_s)]
        )
        yield labelled("process_resident_memory_bytes", "Resident memory", [({}, resident_bytes())])
        yield from _by_label("cell", gauges.cells)
        yield from _by_label("dependency", gauges.dependencies)
        for name, value in gauges.usage.items():
            yield labelled(
                f"tidegate_usage_{name}", f"Usage: {name.replace('_', ' ')}", [({}, value)]
            )


def _of_observers(gauges: Gauges) -> Iterator[Family]:
    for name, told, label, numbers in (
        (
            *("tidegate_log_lines_dropped_total", "Lines of the log that could not be written"),
            *("reason", gauges.log_lines_dropped),
        ),
        (
            *("tidegate_observer_failures_total", "Answers and acts that an observer failed at"),
            *("observer", gauges.observer_failures),
        ),
    ):
        yield labelled(name, told, [({label: one}, number) for one, number in numbers.items()])


def _of_backlogs(gauges: Gauges) -> Iterator[Family]:
    for name, cloudwatch, attribute in (
        ("visible", "ApproximateNumberOfMessagesVisible", "visible"),
        ("not_visible", "ApproximateNumberOfMessagesNotVisible", "in_flight"),
        ("delayed", "ApproximateNumberOfMessagesDelayed", "delayed"),
    ):
        full_name = f"tidegate_sqs_approximate_number_of_messages_{name}"
        lines = _queue_lines(full_name, gauges.queues.items(), attrgetter(attribute))
        yield Family(full_name, GAUGE, f"{cloudwatch} (count)", lines)

    def age_s(counts: Counts) -> float:
        age_ms = gauges.now_ms - counts.oldest_sent_ms if counts.oldest_sent_ms else 0
        return max(0, age_ms) / 1000

    says = "ApproximateAgeOfOldestMessage (seconds)"
    lines = _queue_lines(_OLDEST, gauges.queues.items(), age_s)
    yield Family(_OLDEST, GAUGE, says, lines)


def _by_label(label: str, gauges: Mapping[str, Mapping[str, float]]) -> Iterator[Family]:
    families: dict[str, list[tuple[dict[str, str], float]]] = {}
    for one, values in gauges.items():
        for name, value in values.items():
            families.setdefault(name, []).append(({label: one}, value))
    for name, samples in families.items():
        says = f"The {label}'s {name.replace('_', ' ')}"
        yield labelled(f"tidegate_{label}_{name}", says, samples)


def _queue_lines(
    name: str, queues: Iterable[tuple[QueueName, _Record]], read: Callable[[_Record], float]
) -> Iterator[str]:
    return (f"{name}{_queue_labels(q)} {number_text(read(record))}\n" for q, record in queues)


@lru_cache(maxsize=2 * QUEUES_MAX)
def _queue_labels(queue: QueueName) -> str:
    account, region, name = queue
    return labels_text({"account": account, "queue": name, "region": region})


def _histogram_lines(operation: str, latencies: Latencies) -> Iterator[str]:
    total = 0
    operation = escaped(operation)
    for bound, count in zip((*LATENCY_BUCKETS_S, inf), latencies.buckets, strict=True):
        total += count
        yield f'{_DURATION}_bucket{{le="{number_text(bound)}",operation="{operation}"}} {total}.0\n'
    yield f'{_DURATION}_count{{operation="{operation}"}} {total}.0\n'
    yield f'{_DURATION}_sum{{operation="{operation}"}} {number_text(latencies.sum_s)}\n'


def resident_bytes() -> int:
    """Resident memory of this process; its peak, on systems that do not tell the present."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except FileNotFoundError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()
