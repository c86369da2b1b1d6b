"""A universe of FIFO queues before the oracle: its history beside the journal of its cells."""

from collections import defaultdict
from collections.abc import Iterator

from data_plane.core.identifiers import uuid_text
from data_plane.log import bounds
from data_plane.log.slots import PURGE, purged_by
from data_plane.stored.keys import slot_of
from tests.simulation.fifo.journal import Journal, Lease, Log, Place, StoredFifo
from tests.simulation.fifo.ledger import (
    Outcome,
    SentEntry,
    Use,
    sent_entries,
    uses_of_handles,
)
from tests.simulation.fifo.plan import FifoPlan
from tests.simulation.ledger import NEVER_US, Delivered
from tests.simulation.oracle import LAST_KNOWN_US, PURGE_SEEN_US, REFUSED, SECOND_US, Case
from tests.simulation.world import World


class FifoCase(Case):
    """`copies` are the messages by id, those that lie in a slot's second value left out."""

    def __init__(self, plan: FifoPlan, world: World, journal: Journal) -> None:
        super().__init__(plan, plan.queues, world)
        self.fifo = plan
        self.start_us = world.history.events[0][0]
        self.journal = journal
        self.sends: list[SentEntry] = sent_entries(world.history)
        self.uses: list[Use] = uses_of_handles(world.history)
        self.copies: dict[str, StoredFifo] = {}
        self.groups: dict[tuple[str, bytes], list[StoredFifo]] = defaultdict(list)
        for stored in journal.messages:
            if not stored.written.again:
                self.copies[uuid_text(stored.id)] = stored
                self.groups[stored.written.log.uid, stored.group].append(stored)
        for group in self.groups.values():
            group.sort(key=lambda stored: stored.sequence)
        self.window_us = plan.bounds.get("WINDOW_US", bounds.WINDOW_US)
        self.tail_age_us = plan.bounds.get("TAIL_AGE_US_MAX", bounds.TAIL_AGE_US_MAX)
        self.maybe_deleted: set[Place] = {
            self.place_of(use.handle)[0]
            for use in self.uses
            if use.deletes and use.outcome is not Outcome.REFUSED
        }
        self.drained_us = [time for time, text in self.history.events if text == "drained"]
        # By how much the times of two front ends and a store may differ.
        self.skew_us = self.late_us - self.early_us + self.estimate_error_us

    def place_of(self, handle: str) -> tuple[Place, bytes]:
        """Where the message of a handle lies, and the token of its lease."""
        said = self.handles.open(handle)
        log = Log(said.uid, said.lane, said.epoch)
        return Place(log, slot_of(said.block[:8]), said.index), said.token

    def may_ignore_leases(self, delivered: Delivered) -> bool:
        """Whether a receive got again, under its attempt id, what it had taken before."""
        claim = self.claim_of(delivered)
        if claim is None:
            return False
        before = self.leases_before(delivered, claim)
        return bool(before) and before[-1].token == claim.token

    def claim_of(self, delivered: Delivered) -> Lease | None:
        """The lease with which a message was handed out, as the cell took it."""
        place, token = self.place_of(delivered.message["ReceiptHandle"])
        for lease in self.journal.consumed[place].leases:
            if lease.taken and (lease.token, lease.receive_count) == (
                token,
                delivered.receive_count,
            ):
                return lease
        return None

    def leases_before(self, delivered: Delivered, claim: Lease) -> list[Lease]:
        """What had been written of the message's lease before."""
        leases = self.journal.consumed[self.place_of(delivered.message["ReceiptHandle"])[0]].leases
        return leases[: leases.index(claim)]

    def deliveries(self) -> Iterator[tuple[Delivered, StoredFifo, Lease]]:
        """All messages that were handed out and whose storing and leasing was seen."""
        for message_id, deliveries in self.ledger.deliveries.items():
            stored = self.copies.get(message_id)
            for delivered in deliveries:
                claim = self.claim_of(delivered)
                if stored is not None and claim is not None:
                    yield delivered, stored, claim

    def queue_of(self, stored: StoredFifo) -> str:
        """The name of the queue in which a message was stored."""
        body = self.stored_by_id[uuid_text(stored.id)].body
        return self.ledger.sent[body].call.queue

    def done_us(self, stored: StoredFifo) -> int:
        """When a cell learnt that the message was done."""
        consumed = self.journal.consumed.get(stored.place)
        return NEVER_US if consumed is None or consumed.done_us is None else consumed.done_us

    def may_be_expired(self, stored: StoredFifo, time_us: int) -> bool:
        """Whether some front end may have taken the message for expired by then."""
        name = self.queue_of(stored)
        margin_us = self.late_us + self.estimate_error_us
        ends_us = stored.stamp_us + self.queues[name].retention_s * SECOND_US
        raised = [
            (attempt.answered_us or NEVER_US, int(retention))
            for attempt in self.history.attempts
            if attempt.ok
            and attempt.call.queue == name
            and attempt.call.operation == "SetQueueAttributes"
            and (retention := attempt.call.params["Attributes"].get("MessageRetentionPeriod"))
        ]
        for raised_us, retention_s in raised:
            # Until then a front end may have had the old definition.
            if ends_us > raised_us + LAST_KNOWN_US + PURGE_SEEN_US + self.skew_us:
                ends_us = max(ends_us, stored.stamp_us + retention_s * SECOND_US)
        return ends_us <= time_us + margin_us

    def longest_retention_s(self, name: str) -> int:
        """The longest that a queue may have had."""
        queue = next(queue for queue in self.fifo.queues if queue.name == name)
        return max(queue.retention_s, queue.raised_retention_s or 0)

    def may_be_purged(self, stored: StoredFifo, sent_us: int, time_us: int) -> bool:
        """Whether a purge that was not known everywhere before `sent_us` has hit the message.

        By `time_us`. What is a duplicate may be answered by what was read TAIL_AGE_US_MAX before;
        SQS grants a minute, too.
        """
        name = self.queue_of(stored)
        hit = any(
            written.slot.kind == PURGE
            and written.log.uid == stored.written.log.uid
            and purged_by(written.slot) >= stored.stamp_us
            and written.time_us <= time_us
            for written in self.journal.slots
        )
        purges = [purge for purge in self.ledger.purges.get(name, ()) if purge.status != REFUSED]
        return hit and any(
            not purge.ok
            or (purge.answered_us or 0) + self.tail_age_us + 2 * self.estimate_error_us >= sent_us
            for purge in purges
        )

    def was_purged(self, stored: StoredFifo, time_us: int) -> bool:
        """Whether a purge that was known everywhere before this time has hit the message.

        A record that brings another partition forward says nothing of what this one took meanwhile
        (docs/storage.md, "Purges").
        """
        known_us = time_us - self.tail_age_us - 2 * self.estimate_error_us
        purges = self.ledger.purges.get(self.queue_of(stored), ())
        return any(
            written.slot.kind == PURGE
            and _reaches(written.log, stored.written.log)
            and purged_by(written.slot) >= stored.stamp_us
            and any(
                purge.ok and purge.invoked_us <= written.time_us <= purge.answered_us < known_us
                for purge in purges
                if purge.answered_us is not None
            )
            for written in self.journal.slots
        )

    def may_be_dropped(self, place: Place, time_us: int) -> bool:
        """Whether the message there was purged before this time, and nothing may be left of it."""
        return self.fifo.drops_after_us > 0 and any(
            _reaches(written.log, stored.written.log)
            and purged_by(written.slot) >= stored.stamp_us
            and written.time_us <= time_us
            for stored in self.journal.messages
            if stored.place == place
            for written in self.journal.slots
            if written.slot.kind == PURGE
        )

    def has_group_scope(self, name: str) -> bool:
        """Whether messages of different groups are no duplicates of each other."""
        return next(queue.group_scope for queue in self.fifo.queues if queue.name == name)


def _reaches(purged: Log, log: Log) -> bool:
    """Whether a purge in one log tells of another one, too: all earlier generations have ended."""
    return purged == log or (purged.uid == log.uid and purged.generation > log.generation)
