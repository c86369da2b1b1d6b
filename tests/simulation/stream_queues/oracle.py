"""The invariants of queues over streams, beside those of the streams that they read.

What a front end answered counts as promised even if the answer was lost. Times are true ones;
where leases and retentions are judged, it may be as wrong as any clock was.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from tests.simulation.ledger import NEVER_US
from tests.simulation.oracle import Violation
from tests.simulation.replicated.plan import SECOND_US
from tests.simulation.stream_queues.case import Given, Record, StreamQueuesCase, place_of
from tests.simulation.stream_queues.plan import StreamQueuePlan, StreamQueuesPlan
from tests.simulation.stream_queues.world import StreamQueuesWorld
from tests.simulation.streams import oracle as streams

Invariant = Callable[[StreamQueuesCase], Iterator[Violation]]


def check(plan: StreamQueuesPlan, world: StreamQueuesWorld) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = StreamQueuesCase(plan, world)
    found = streams.check(plan, world)
    return [*found, *(violation for invariant in INVARIANTS for violation in invariant(case))]


def _of(case: StreamQueuesCase, queue: StreamQueuePlan) -> list[Record]:
    return [record for (name, _), record in case.records.items() if name == queue.name]


def records_are_delivered(case: StreamQueuesCase) -> Iterator[Violation]:
    """What was put after a queue began is delivered, or a dead letter, before it is empty."""
    for queue in case.queues:
        created_us = case.over.created_us.get(queue.name)
        if created_us is None or not case.over.drained_us:
            continue
        there = {place_of(one) for record in _of(case, queue) for one in record.given}
        for (stream, data), put in case.puts.items():
            if stream != queue.stream or (queue.late and put.first_us < created_us):
                continue
            if case.may_be_purged(queue.name, put):
                continue
            for told, attempt in put.acknowledged:
                if (attempt.answered_us or NEVER_US) > case.over.drain_began_us:
                    continue
                if told.place not in there and not _is_dead(case, queue, data):
                    text = f"{queue.name} never gave {data}, which is at {told.place}"
                    yield Violation("records are delivered", text, [data])


def _is_dead(case: StreamQueuesCase, queue: StreamQueuePlan, data: str) -> bool:
    return any(
        name == queue.dead and case.put_of(queue.stream, body) is case.puts[queue.stream, data]
        for name, body in case.dead
    )


def records_come_until_deleted(case: StreamQueuesCase) -> Iterator[Violation]:
    """What was received is received again until somebody deletes it, or it is a dead letter."""
    for queue in case.queues:
        for record in _of(case, queue) if case.over.drained_us else ():
            first = record.given[0]
            if first.answered_us > case.over.drain_began_us or record.asked_us < NEVER_US:
                continue
            put = case.put_of(queue.stream, first.body)
            if put is not None and case.may_be_purged(queue.name, put):
                continue
            if (queue.dead, first.body) not in case.dead:
                text = f"{queue.name} gave {first.body}, and then no more"
                yield Violation("records come until deleted", text, [first.body])


def deleted_means_deleted(case: StreamQueuesCase) -> Iterator[Violation]:
    """Who asks once a delete is answered does not get the record any more."""
    for (name, _), record in case.records.items():
        for one in record.given:
            if one.attempt.invoked_us > record.deleted_us:
                text = f"{name} gave {one.body} after its delete"
                yield Violation("deleted means deleted", text, _words(one))


def leases_are_kept(case: StreamQueuesCase) -> Iterator[Violation]:
    """Nobody gets a record while it is another's."""
    visibility_s = {queue.name: queue.visibility_s for queue in case.queues}
    for (name, _), record in case.records.items():
        if name not in visibility_s:
            continue
        for first, second in pairwise(record.given):
            its_s = first.attempt.call.params.get("VisibilityTimeout", visibility_s[name])
            began_us = first.attempt.invoked_us
            if second.answered_us >= began_us + its_s * SECOND_US - case.wrong_us:
                continue
            if not any(asked_us <= second.answered_us for asked_us, _ in record.changed_us):
                text = f"{name} gave {first.body} twice within a lease of {its_s} s"
                yield Violation("leases are kept", text, [*_words(first), *_words(second)])


def receives_are_counted(case: StreamQueuesCase) -> Iterator[Violation]:
    """Each delivery has a count of its own, above those of all that were answered before it."""
    for (name, _), record in case.records.items():
        for first, second in pairwise(record.given):
            repeats = first.receive_count == second.receive_count
            if repeats or second.answered_us < first.attempt.invoked_us:
                text = f"{name} gave {first.body} as number {first.receive_count}, out of turn"
                yield Violation("receives are counted", text, [*_words(first), *_words(second)])


def keys_stay_in_order(case: StreamQueuesCase) -> Iterator[Violation]:
    """A FIFO queue gives a record when all before it that have its key are done, or come with it.

    Also where those lie in a shard that its own came from. Done is what somebody asked to delete
    by then, what is a dead letter, and what has expired or was purged.
    """
    for queue in case.queues:
        if not queue.fifo:
            continue
        by_key: dict[str, list[Record]] = defaultdict(list)
        for record in _of(case, queue):
            by_key[record.given[0].message["Attributes"]["MessageGroupId"]].append(record)
        for records in by_key.values():
            records.sort(key=lambda record: record.given[0].number)
            for at, later in enumerate(records):
                for earlier in records[:at]:
                    yield from _out_of_order(case, queue, earlier, later)


def _out_of_order(
    case: StreamQueuesCase, queue: StreamQueuePlan, earlier: Record, later: Record
) -> Iterator[Violation]:
    before = earlier.given[0]
    put = case.put_of(queue.stream, before.body)
    if (queue.dead, before.body) in case.dead or put is None:
        return
    for one in later.given:
        if earlier.asked_us <= one.answered_us:
            continue
        if case.kept.may_be_gone(queue.stream, put.first_us, one.answered_us):
            continue
        if case.may_be_purged(queue.name, put, one.answered_us):
            continue
        if not any(
            given.attempt is one.attempt and given.position < one.position
            for given in earlier.given
        ):
            text = f"{queue.name} gave {one.body} before {before.body} was done"
            yield Violation("keys stay in order", text, [*_words(before), *_words(one)])


def records_are_intact(case: StreamQueuesCase) -> Iterator[Violation]:
    """What is given was put into the stream, with its key, and is where the put was told."""
    for queue in case.queues:
        told = case.bodies(queue.stream)
        for record in _of(case, queue):
            for one in record.given:
                put = case.put_of(queue.stream, one.body)
                if put is None or put.first_us > one.answered_us:
                    text = f"{queue.name} gave {one.body}, which nobody put"
                    yield Violation("records are intact", text, _words(one))
                    continue
                known = told.get(place_of(one))
                is_its_own = known is None or case.puts[queue.stream, known] is put
                group = one.message["Attributes"].get("MessageGroupId", put.key)
                if not is_its_own or group != put.key:
                    text = f"{queue.name} gave {one.body} as another record"
                    yield Violation("records are intact", text, _words(one))


def the_expired_stay_away(case: StreamQueuesCase) -> Iterator[Violation]:
    """Nobody gets a record whose retention is over."""
    for queue in case.queues:
        for record in _of(case, queue):
            for one in record.given:
                put = case.put_of(queue.stream, one.body)
                stored_us = put.acknowledged_at_us(place_of(one)) if put is not None else None
                if stored_us is None:
                    continue
                if case.kept.is_gone(queue.stream, stored_us, one.attempt.invoked_us):
                    text = f"{queue.name} gave {one.body}, which had expired"
                    yield Violation("the expired stay away", text, _words(one))


def the_kept_are_delivered(case: StreamQueuesCase) -> Iterator[Violation]:
    """What a changed retention keeps is delivered to who looks for all that there is."""
    queues = {queue.name: queue for queue in case.queues}
    for name, began_us, ended_us in case.over.emptied:
        queue = queues[name]
        there = {place_of(one): record for record in _of(case, queue) for one in record.given}
        for (stream, data), put in case.puts.items():
            if stream != queue.stream or case.kept.may_be_gone(stream, put.first_us, ended_us):
                continue
            for told, attempt in put.acknowledged:
                record = there.get(told.place)
                if (attempt.answered_us or NEVER_US) > began_us:
                    continue
                if record is None or record.asked_us == NEVER_US:
                    text = f"{name} did not give {data} any more, which is at {told.place}"
                    yield Violation("the kept are delivered", text, [data])


def the_purged_stay_away(case: StreamQueuesCase) -> Iterator[Violation]:
    """Nobody gets a record that was put before a purge, once the purge has reached everybody."""
    for queue in case.queues:
        for record in _of(case, queue):
            for one in record.given:
                put = case.put_of(queue.stream, one.body)
                stored_us = put.acknowledged_at_us(place_of(one)) if put is not None else None
                if stored_us is None:
                    continue
                if case.was_purged(queue.name, stored_us, one.attempt.invoked_us):
                    text = f"{queue.name} gave {one.body}, which had been purged"
                    yield Violation("the purged stay away", text, [*_words(one), "PurgeQueue"])


def dead_letters_had_their_chances(case: StreamQueuesCase) -> Iterator[Violation]:
    """None is given more often than it may be, and each lies once where it is moved to."""
    for queue in case.queues:
        if not queue.receives_max:
            continue
        of_body: dict[str, int] = defaultdict(int)
        for record in _of(case, queue):
            of_body[record.given[0].body] += 1
            last = record.given[-1]
            if last.receive_count > queue.receives_max:
                text = f"{queue.name} gave {last.body} {last.receive_count} times"
                yield Violation("dead letters had their chances", text, _words(last))
        for (name, body), ids in case.dead.items():
            put = case.put_of(queue.stream, body)
            if name != queue.dead or (put is not None and put.was_overtaken):
                continue
            if len(ids) > max(1, of_body[body]):
                text = f"{name} has {body} {len(ids)} times"
                yield Violation("dead letters had their chances", text, [body])


def _words(given: Given) -> list[str]:
    return [given.body, f"#{given.attempt.call.number}."]


INVARIANTS: Final[tuple[Invariant, ...]] = (
    records_are_delivered,
    records_come_until_deleted,
    deleted_means_deleted,
    leases_are_kept,
    receives_are_counted,
    keys_stay_in_order,
    records_are_intact,
    the_expired_stay_away,
    the_kept_are_delivered,
    the_purged_stay_away,
    dead_letters_had_their_chances,
)
