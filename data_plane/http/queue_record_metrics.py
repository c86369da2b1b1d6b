"""Metrics of queues of the Kinesis API, under the names that CloudWatch has for them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from data_plane.frontend.served import Served
from data_plane.http.prometheus_text import COUNTER, Family, labels_text, number_text

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


_COUNTERS: Final = (
    ("received_queue_records", "ReceivedQueueRecords", "received"),
    ("acknowledged_queue_records", "AcknowledgedQueueRecords", "acknowledged"),
    ("empty_receives", "EmptyReceives", "empty_receives"),
)
"""Name, that of CloudWatch, and where it is counted."""


class QueueRecordMetrics:
    """Counts what requests on these queues did; dead letters are in none of CloudWatch's."""

    def __init__(self) -> None:
        self._queues: dict[QueueKey, QueueRecordTotals] = {}

    def served(self, served: Served) -> None:
        """Count a call on a queue that succeeded; one that deletes it ends its series."""
        key = (served.account, served.region, served.queue)
        match served.operation:
            case "kinesis:ReceiveQueueRecords":
                totals = self._totals(key)
                totals.received += served.messages
                totals.empty_receives += served.messages == 0
            case "kinesis:AcknowledgeQueueRecords":
                self._totals(key).acknowledged += served.messages
            case "kinesis:DeleteQueue":
                self._queues.pop(key, None)

    def _totals(self, key: QueueKey) -> QueueRecordTotals:
        totals = self._queues.get(key)
        if totals is None:
            key = key if len(self._queues) < QUEUES_MAX else OTHER_QUEUES
            totals = self._queues.setdefault(key, QueueRecordTotals())
        return totals

    def families(self) -> Iterator[Family]:
        """The metrics as of now."""
        # Requests go on between two pieces: what they add must not change what is walked over.
        queues = list(self._queues.items())
        for short, cloudwatch, attribute in _COUNTERS:
            name = f"tidegate_kinesis_{short}_total"
            read = attrgetter(attribute)
            yield Family(name, COUNTER, f"{cloudwatch} (count)", _of(name, read, queues))


def _of(
    name: str,
    read: Callable[[QueueRecordTotals], int],
    queues: list[tuple[QueueKey, QueueRecordTotals]],
) -> Iterator[str]:
    for key, totals in queues:
        yield f"{name}{_labels(key)} {number_text(read(totals))}\n"


def _labels(key: QueueKey) -> str:
    account, region, queue_id = key
    return labels_text({"account": account, "queue_id": queue_id, "region": region})
