"""A universe of queues of the Kinesis API before the oracle: what was put, given and settled."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.history import Attempt
from tests.simulation.kinesis_queues.consumers import (
    RECEIVE,
    RECEIVE_DEAD,
    RESTORE,
    acknowledge_of,
)
from tests.simulation.kinesis_queues.plan import KinesisQueuePlan, KinesisQueuesPlan
from tests.simulation.kinesis_queues.world import KinesisQueuesWorld
from tests.simulation.ledger import NEVER_US
from tests.simulation.replicated.plan import SECOND_US
from tests.simulation.streams import oracle as streams

ACKNOWLEDGES: Final = frozenset(acknowledge_of(dead=dead) for dead in (False, True))

STALE_US: Final = 10 * SECOND_US
"""A front end goes by a definition that is so old at most, where the registry answers."""


@dataclass(frozen=True, slots=True)
class Given:
    """A record of an answered receive, as a dead letter or not."""

    attempt: Attempt
    record: Mapping[str, Any]
    dead: bool

    @property
    def asked_us(self) -> int:
        """Its lease is no older."""
        return self.attempt.invoked_us

    @property
    def answered_us(self) -> int:
        """When it was handed out; its lease was written before."""
        assert self.attempt.answered_us is not None
        return self.attempt.answered_us

    @property
    def count(self) -> int:
        """As the receiver was told."""
        return int(self.record["ReceiveCount"])

    @property
    def data(self) -> str:
        """Which record it is."""
        text: str = self.record["Data"]
        return text

    def is_before(self, other: "Given") -> bool:
        """Whether it was leased before the other, for sure."""
        return self.answered_us < other.asked_us


@dataclass(frozen=True, slots=True)
class Act:
    """What an attempt asked for by the handle of a delivery: `code` is "" where it was done.

    None: nobody knows. What cannot have been done is not `is_possible`.
    """

    attempt: Attempt
    given: Given
    code: str | None
    is_possible: bool

    @property
    def operation(self) -> str:
        """What it was."""
        return self.attempt.call.operation

    @property
    def asked_us(self) -> int:
        """It was not done before."""
        return self.attempt.invoked_us

    @property
    def done_us(self) -> int:
        """By then it was done, if ever."""
        answered_us = self.attempt.answered_us
        return answered_us if self.code == "" and answered_us is not None else NEVER_US


@dataclass(slots=True)
class Record:
    """A record as one queue has it: its deliveries in the order of their answers, and its acts.

    Acknowledgements were asked for from `asked_us` on, and one was answered at `done_us`.
    """

    given: list[Given] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)

    def done(self, operations: frozenset[str]) -> Iterator[Act]:
        """What of these may have been done."""
        return (act for act in self.acts if act.operation in operations and act.is_possible)

    @property
    def asked_us(self) -> int:
        """When somebody asked for it to be acknowledged."""
        return min((act.asked_us for act in self.done(ACKNOWLEDGES)), default=NEVER_US)

    @property
    def done_us(self) -> int:
        """When somebody was told that it is."""
        return min((act.done_us for act in self.done(ACKNOWLEDGES)), default=NEVER_US)

    def may_be_restored(self, from_us: int, until_us: int) -> bool:
        """Whether a restore may have taken effect between."""
        return any(
            asked_us < until_us and done_us > from_us for asked_us, done_us in self._restores()
        )

    def lives_from_us(self, until_us: int) -> int:
        """Since when at the latest its receives count, as of then."""
        surely = (asked_us for asked_us, done_us in self._restores() if done_us < until_us)
        return max(surely, default=0)

    def _restores(self) -> list[tuple[int, int]]:
        """By handle: not before the first, by the second for sure. A repeated one changes nothing.

        What was refused may have been done by an earlier attempt.
        """
        times: dict[str, tuple[int, int]] = {}
        for act in self.acts:
            if act.operation == RESTORE and act.is_possible:
                handle = act.given.record["ReceiptHandle"]
                asked_us, done_us = times.get(handle, (NEVER_US, NEVER_US))
                times[handle] = min(asked_us, act.asked_us), min(done_us, act.done_us)
        return list(times.values())


class KinesisQueuesCase(streams.Case):
    """`records` are by queue and id."""

    def __init__(self, plan: KinesisQueuesPlan, world: KinesisQueuesWorld) -> None:
        super().__init__(plan, world)
        self.its = plan
        self.over = world
        self.records: dict[tuple[str, str], Record] = defaultdict(Record)
        self.wrong_us = world.offset_us_max - world.offset_us_min + self.slack_us
        self.receives: dict[str, list[Attempt]] = defaultdict(list)
        self._changes: dict[str, list[Attempt]] = defaultdict(list)
        self._handles: dict[str, tuple[Record, Given]] = {}
        attempts = world.history.attempts
        for attempt in attempts:
            if attempt.call.operation in {RECEIVE, RECEIVE_DEAD}:
                self._note_receive(attempt)
            elif attempt.call.operation == "UpdateQueue":
                self._changes[attempt.call.queue].append(attempt)
        for attempt in attempts:
            if "Entries" in attempt.call.params:
                self._note_acts(attempt)
        for record in self.records.values():
            record.given.sort(key=lambda one: one.answered_us)

    def _note_receive(self, attempt: Attempt) -> None:
        name, dead = attempt.call.queue, attempt.call.operation == RECEIVE_DEAD
        self.receives[name].append(attempt)
        for told in attempt.output["QueueRecords"] if attempt.ok else ():
            record = self.records[name, told["RecordId"]]
            given = Given(attempt, told, dead)
            record.given.append(given)
            self._handles[told["ReceiptHandle"]] = record, given

    def _note_acts(self, attempt: Attempt) -> None:
        done = {entry["ReceiptHandle"] for entry in attempt.output.get("Successful", ())}
        failed = {
            entry["ReceiptHandle"]: entry["ErrorCode"] for entry in attempt.output.get("Failed", ())
        }
        for entry in attempt.call.params["Entries"]:
            handle = entry["ReceiptHandle"]
            record, given = self._handles[handle]
            code = "" if handle in done else failed.get(handle)
            if code == "InternalFailureException":
                code = None
            # Its write was done, the reply lost, and the record received again before the next try.
            may_be = not self.its.is_exact and attempt.call.operation not in ACKNOWLEDGES
            record.acts.append(Act(attempt, given, code, is_possible=not code or may_be))

    def of(self, queue: KinesisQueuePlan) -> list[Record]:
        """The records that a queue has given."""
        return [record for (name, _), record in self.records.items() if name == queue.name]

    def deaths(self, queue: KinesisQueuePlan, from_us: int, until_us: int) -> set[int]:
        """The MaxReceiveCounts (0: none) that a receive within this time may have gone by.

        Where no attempt is done late, the last that was known by then for sure, and those after it.
        """
        changes = [one for one in self._changes[queue.name] if one.invoked_us < until_us]
        known_us = max(
            (
                change.invoked_us
                for change in changes
                if self.its.calm and (change.answered_us or NEVER_US) < from_us - STALE_US
            ),
            default=0,
        )
        found = {_count_of(change) for change in changes if change.invoked_us >= known_us}
        return found if known_us else {queue.dies_after, *found}

    def lost(self, queue: KinesisQueuePlan, from_us: int, until_us: int) -> int:
        """How many receives may have leased a record between, and did not say so.

        Where not all is exact one that says nothing of it may have, too.
        """
        return sum(
            attempt.invoked_us < until_us
            and (
                attempt.answered_us is None
                or (not (self.its.is_exact and attempt.ok) and attempt.answered_us > from_us)
            )
            for attempt in self.receives[queue.name]
        )

    def lease_us(self, queue: KinesisQueuePlan, given: Given) -> int:
        """For how long a delivery was leased."""
        params = given.attempt.call.params
        its_s: int = params.get("VisibilityTimeoutSeconds", queue.visibility_s)
        return its_s * SECOND_US


def _count_of(change: Attempt) -> int:
    letters = change.call.params["QueueAttributes"]["DeadLetterConfiguration"]
    return int(letters.get("MaxReceiveCount", 0))
