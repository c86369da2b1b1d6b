"""Metrics of queues of the Kinesis API, under the names that CloudWatch has for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeVar

from data_plane.core.message import Counts
from data_plane.frontend.served import Served
from data_plane.http.prometheus_text import COUNTER, GAUGE, Family, labels_text, number_text

QUEUES_MAX: Final = 1000
OTHER_QUEUES: Final = ("", "", "(other)")
"""Stands for all queues beyond QUEUES_MAX: the answer to a scrape stays bounded."""

QueueKey = tuple[str, str, str]
"""Account, region and id."""


@dataclass(slots=True)
class QueueRecordTotals:
    """What was done to one queue since the server started."""

    received: int = 0
    acknowledged: int = 0
    empty_receives: int = 0
    used_us: int = 0
    """When it was served last."""


_Record = TypeVar("_Record")

_COUNTERS: Final = (
    ("received_queue_records", "ReceivedQueueRecords", "received"),
    ("acknowledged_queue_records", "AcknowledgedQueueRecords", "acknowledged"),
    ("empty_receives", "EmptyReceives", "empty_receives"),
)
"""Name, that of CloudWatch, and where it is counted."""

_GAUGES: Final = (
    ("visible_queue_records", "VisibleQueueRecords", "visible"),
    ("in_flight_queue_records", "InFlightQueueRecords", "in_flight"),
    ("visible_dead_letter_queue_records", "VisibleDeadLetterQueueRecords", "dead"),
)
"""The same of what is there at the moment."""


class QueueRecordMetrics:
    """Counts what requests on these queues did; dead letters are in none of CloudWatch's."""

    def __init__(self) -> None:
        self.queues: dict[QueueKey, QueueRecordTotals] = {}

    def served(self, served: Served) -> None:
        """Count a call on a queue that succeeded; one that deletes it ends its series."""
        key = (served.account, served.region, served.queue)
        match served.operation:
            case "kinesis:ReceiveQueueRecords":
                totals = self._totals(key, served)
                totals.received += served.messages
                totals.empty_receives += served.messages == 0
            case "kinesis:AcknowledgeQueueRecords":
                self._totals(key, served).acknowledged += served.messages
            case "kinesis:DeleteQueue":
                self.forget(key)

    def _totals(self, key: QueueKey, served: Served) -> QueueRecordTotals:
        totals = self.queues.get(key)
        if totals is None:
            key = key if len(self.queues) < QUEUES_MAX else OTHER_QUEUES
            totals = self.queues.setdefault(key, QueueRecordTotals())
        totals.used_us = served.finished_us
        return totals

    def forget(self, queue: QueueKey) -> None:
        """The queue is gone: its series end."""
        self.queues.pop(queue, None)

    def families(self, counted: Mapping[QueueKey, Counts]) -> Iterator[Family]:
        """The metrics as of now, of queues with what was counted in them."""
        for short, cloudwatch, attribute in _GAUGES:
            name = f"tidegate_kinesis_{short}"
            lines = _of(name, attrgetter(attribute), counted.items())
            yield Family(name, GAUGE, f"{cloudwatch} (count)", lines)
        # Requests go on between two pieces: what they add must not change what is walked over.
        queues = list(self.queues.items())
        for short, cloudwatch, attribute in _COUNTERS:
            name = f"tidegate_kinesis_{short}_total"
            read = attrgetter(attribute)
            yield Family(name, COUNTER, f"{cloudwatch} (count)", _of(name, read, queues))


def _of(
    name: str,
    read: Callable[[_Record], int],
    queues: Iterable[tuple[QueueKey, _Record]],
) -> Iterator[str]:
    for key, record in queues:
        yield f"{name}{_labels(key)} {number_text(read(record))}\n"


def _labels(key: QueueKey) -> str:
    account, region, queue_id = key
    return labels_text({"account": account, "queue_id": queue_id, "region": region})
