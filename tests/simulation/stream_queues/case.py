"""A universe of queues over streams before the oracle: what was put, given and deleted."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from data_plane.core.sequence_number import parse
from tests.simulation.history import Attempt
from tests.simulation.ledger import NEVER_US
from tests.simulation.oracle import LAST_KNOWN_US
from tests.simulation.stream_queues.plan import StreamQueuesPlan
from tests.simulation.stream_queues.world import PURGE_KNOWN_US, StreamQueuesWorld
from tests.simulation.streams import oracle as streams
from tests.simulation.streams.keeping import Retentions
from tests.simulation.streams.reading import Place, text_of

CLIENT_FAULT: Final = 400
SERVER_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class Given:
    """A message of an answered receive, and its position there."""

    attempt: Attempt
    position: int
    message: Mapping[str, Any]

    @property
    def answered_us(self) -> int:
        """When it was handed out; its lease was written before."""
        assert self.attempt.answered_us is not None
        return self.attempt.answered_us

    @property
    def receive_count(self) -> int:
        """As the receiver was told."""
        return int(self.message["Attributes"]["ApproximateReceiveCount"])

    @property
    def number(self) -> int:
        """Its sequence number."""
        return int(self.message["Attributes"]["SequenceNumber"])

    @property
    def body(self) -> str:
        """Which record it is."""
        text: str = self.message["Body"]
        return text


@dataclass(slots=True)
class Record:
    """A record as one queue has it: its deliveries in the order of their leases, and its end.

    Deletes were asked for from `asked_us` on, and one was answered at `deleted_us`. Changes of its
    visibility were asked for at `changed_us`, each to so many seconds.
    """

    given: list[Given] = field(default_factory=list)
    asked_us: int = NEVER_US
    deleted_us: int = NEVER_US
    changed_us: list[tuple[int, int]] = field(default_factory=list)


class StreamQueuesCase(streams.Case):
    """`records` are by queue and id; `dead` by dead-letter queue and body, the ids of each."""

    def __init__(self, plan: StreamQueuesPlan, world: StreamQueuesWorld) -> None:
        super().__init__(plan, world)
        self.queues = plan.queues
        self.over = world
        self.records: dict[tuple[str, str], Record] = defaultdict(Record)
        self.dead: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._purges: dict[str, list[Attempt]] = defaultdict(list)
        self.wrong_us = world.offset_us_max - world.offset_us_min + self.slack_us
        self.kept = Retentions(world.history, self.wrong_us)
        self._handles: dict[str, Record] = {}
        self._note_deliveries()
        for attempt in world.history.attempts:
            self._note_use(attempt)
        for record in self.records.values():
            record.given.sort(key=lambda one: (one.receive_count, one.answered_us))

    def _note_deliveries(self) -> None:
        dead = {queue.dead for queue in self.queues}
        for attempt in self.world.history.attempts:
            if attempt.call.operation != "ReceiveMessage" or not attempt.ok:
                continue
            name = attempt.call.queue
            for position, message in enumerate(attempt.output.get("Messages", ())):
                if name in dead:
                    self.dead[name, message["Body"]].add(message["MessageId"])
                record = self.records[name, message["MessageId"]]
                record.given.append(Given(attempt, position, message))
                self._handles[message["ReceiptHandle"]] = record

    def _note_use(self, attempt: Attempt) -> None:
        operation, params = attempt.call.operation, attempt.call.params
        if operation == "PurgeQueue" and not SERVER_FAULT > attempt.status >= CLIENT_FAULT:
            self._purges[attempt.call.queue].append(attempt)
        deletes = operation.startswith("DeleteMessage")
        if not deletes and not operation.startswith("ChangeMessageVisibility"):
            return
        entries: Sequence[Mapping[str, Any]] = params.get("Entries", [params])
        done = {entry["Id"] for entry in attempt.output.get("Successful", ())}
        for entry in entries:
            record = self._handles[entry["ReceiptHandle"]]
            if not deletes:
                record.changed_us.append((attempt.invoked_us, entry["VisibilityTimeout"]))
                continue
            record.asked_us = min(record.asked_us, attempt.invoked_us)
            is_done = attempt.ok and ("Id" not in entry or entry["Id"] in done)
            if is_done and attempt.answered_us is not None:
                record.deleted_us = min(record.deleted_us, attempt.answered_us)

    def may_be_purged(self, queue: str, put: streams.Put, by_us: int = NEVER_US) -> bool:
        """Whether a purge that was asked for by then may have passed over the record."""
        return any(
            purge.invoked_us <= by_us
            and put.first_us - self.slack_us < (purge.answered_us or NEVER_US)
            for purge in self._purges[queue]
        )

    def was_purged(self, queue: str, stored_us: int, asked_us: int) -> bool:
        """Whether who asked then had to know of a purge that passed over what was stored before.

        While the cell of the registry does not answer, what was known of the queue last serves.
        """
        for purge in self._purges[queue]:
            if not purge.ok or purge.answered_us is None:
                continue
            healed_us = max(purge.answered_us, self.over.healed_us or NEVER_US)
            known_us = PURGE_KNOWN_US + min(purge.answered_us + LAST_KNOWN_US, healed_us)
            if stored_us < purge.invoked_us - self.slack_us and asked_us > known_us + self.slack_us:
                return True
        return False

    def put_of(self, stream: str, body: str) -> streams.Put | None:
        """The put of a record."""
        return self.puts.get((stream, text_of(body)))

    def bodies(self, stream: str) -> dict[Place, str]:
        """What answers to puts say of the stream: the data by their places."""
        return {
            told.place: told.data
            for (name, _), put in self.puts.items()
            for told, _ in put.acknowledged
            if name == stream
        }


def place_of(given: Given) -> Place:
    """Where the record lies in its stream, by its sequence number."""
    said = parse(str(given.number))
    return Place(said.shard, said.offset)
