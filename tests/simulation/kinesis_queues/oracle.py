"""The invariants of queues of the Kinesis API, beside those of the streams that they read.

What a front end answered counts as promised even if the answer was lost. Times are true ones;
where leases and retentions are judged, it may be as wrong as any clock was.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from data_plane.core.message import Counts
from tests.simulation.kinesis_queues.case import (
    ACKNOWLEDGES,
    Act,
    Given,
    KinesisQueuesCase,
    Record,
)
from tests.simulation.kinesis_queues.consumers import HIDES, RESTORE
from tests.simulation.kinesis_queues.plan import KinesisQueuePlan, KinesisQueuesPlan
from tests.simulation.kinesis_queues.world import KinesisQueuesWorld
from tests.simulation.ledger import NEVER_US
from tests.simulation.oracle import Violation
from tests.simulation.streams import oracle as streams
from tests.simulation.streams.plan import RETENTION_US

Invariant = Callable[[KinesisQueuesCase], Iterator[Violation]]


def check(plan: KinesisQueuesPlan, world: KinesisQueuesWorld) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = KinesisQueuesCase(plan, world)
    found = streams.check(plan, world)
    return [*found, *(violation for invariant in INVARIANTS for violation in invariant(case))]


def _records(case: KinesisQueuesCase) -> Iterator[tuple[KinesisQueuePlan, Record]]:
    for queue in case.its.queues:
        for record in case.of(queue):
            yield queue, record


def records_are_delivered(case: KinesisQueuesCase) -> Iterator[Violation]:
    """What was put after a queue began is delivered before it is empty, wherever it lies."""
    for queue in case.its.queues:
        created_us = case.over.created_us.get(queue.name)
        if created_us is None or not case.over.drained_us:
            continue
        there: dict[str, int] = defaultdict(int)
        for record in case.of(queue):
            there[record.given[0].data] += 1
        for (stream, data), put in case.puts.items():
            if stream != queue.stream or (queue.late and put.first_us < created_us):
                continue
            places = {
                told.place
                for told, attempt in put.acknowledged
                if (attempt.answered_us or NEVER_US) < case.over.drain_began_us
            }
            if there[data] < len(places):
                text = f"{queue.name} never gave {data}, which is at {sorted(places)}"
                yield Violation("records are delivered", text, [data])


def records_come_until_acknowledged(case: KinesisQueuesCase) -> Iterator[Violation]:
    """What was received is received again, alive or dead, until somebody acknowledges it."""
    for queue, record in _records(case):
        first = record.given[0]
        if not case.over.drained_us or first.answered_us > case.over.drain_began_us:
            continue
        if record.asked_us == NEVER_US:
            text = f"{queue.name} gave {first.data}, and then no more"
            yield Violation("records come until acknowledged", text, [first.data])


def acknowledged_means_acknowledged(case: KinesisQueuesCase) -> Iterator[Violation]:
    """Who asks once that is answered does not get the record any more, alive or dead."""
    for queue, record in _records(case):
        for one in record.given:
            if one.asked_us > record.done_us:
                text = f"{queue.name} gave {one.data} after it was acknowledged"
                yield Violation("acknowledged means acknowledged", text, _words(one))


def leases_are_kept(case: KinesisQueuesCase) -> Iterator[Violation]:
    """Nobody gets a record while it is another's, nor a dead letter before it is one."""
    for queue, record in _records(case):
        for first, second in pairwise(record.given):
            leased_us = min(
                one.asked_us + case.lease_us(queue, one)
                for one in (first, second)
                if one is first or not first.is_before(second)
            )
            if second.answered_us >= leased_us - case.wrong_us:
                continue
            if not any(act.asked_us <= second.answered_us for act in record.done(GIVES_BACK)):
                text = f"{queue.name} gave {first.data} twice within a lease"
                yield Violation("leases are kept", text, [*_words(first), *_words(second)])


def receives_are_counted(case: KinesisQueuesCase) -> Iterator[Violation]:
    """Each delivery counts one more than those before it, since the record was put or restored."""
    for queue, record in _records(case):
        for first, second in pairwise(record.given):
            if _is_same_life(record, first, second) and second.count <= first.count:
                text = f"{queue.name} gave {first.data} as number {second.count}, out of turn"
                yield Violation("receives are counted", text, [*_words(first), *_words(second)])
        for one in record.given:
            since_us = record.lives_from_us(one.asked_us)
            before = sum(
                other.answered_us > since_us and other.asked_us < one.answered_us
                for other in record.given
            )
            if one.count > before + case.lost(queue, since_us, one.answered_us):
                text = f"{queue.name} gave {one.data} as number {one.count}, but only {before} did"
                yield Violation("receives are counted", text, [one.data])


def none_dies_before_its_time(case: KinesisQueuesCase) -> Iterator[Violation]:
    """A dead letter was received as often as a MaxReceiveCount allowed, when it was last."""
    for queue, record in _records(case):
        for one, before in _with_the_last_before(record):
            if not one.dead or (before is not None and before.dead):
                continue
            possible = _deaths(case, queue, one, before) - {0}
            if not possible or one.count - 1 < min(possible):
                text = f"{queue.name} gave {one.data} as dead, which had {one.count - 1} receives"
                yield Violation("none dies before its time", text, _words(one))


def none_lives_beyond_its_time(case: KinesisQueuesCase) -> Iterator[Violation]:
    """What was received as often as it may be is no record that lives, unless it is restored."""
    for queue, record in _records(case):
        for one, before in _with_the_last_before(record):
            if one.dead or one.count < 2:
                continue
            possible = _deaths(case, queue, one, before)
            if 0 not in possible and one.count - 1 >= max(possible):
                text = f"{queue.name} gave {one.data} for time {one.count}"
                yield Violation("none lives beyond its time", text, _words(one))


def dead_letters_stay_dead(case: KinesisQueuesCase) -> Iterator[Violation]:
    """A dead letter is received as one until somebody restores it."""
    for queue, record in _records(case):
        for first, second in pairwise(record.given):
            if first.dead and not second.dead and _is_same_life(record, first, second):
                text = f"{queue.name} gave {first.data}, which was dead"
                yield Violation("dead letters stay dead", text, [*_words(first), *_words(second)])


def old_handles_are_refused(case: KinesisQueuesCase) -> Iterator[Violation]:
    """Nothing is done by a handle of before the record was received again.

    What is acknowledged already is, by whatever handle.
    """
    for queue, record in _records(case):
        for act in record.acts:
            later = any(
                act.given.is_before(one) and one.answered_us < act.asked_us for one in record.given
            )
            repeats = act.operation in ACKNOWLEDGES and any(
                other is not act and other.asked_us < act.done_us
                for other in record.done(ACKNOWLEDGES)
            )
            if later and act.code == "" and not repeats:
                text = f"{queue.name} did {act.operation} to {act.given.data} by an old handle"
                yield Violation("old handles are refused", text, _words_of(act))


def good_handles_are_accepted(case: KinesisQueuesCase) -> Iterator[Violation]:
    """A handle is good until its record is received again, acknowledged, restored, or dies."""
    for queue, record in _records(case):
        for act in record.acts:
            if act.code == "InvalidArgumentException" and not _may_be_bad(case, queue, record, act):
                text = f"{queue.name} refused {act.operation} of {act.given.data}"
                yield Violation("good handles are accepted", text, _words_of(act))


def _may_be_bad(case: KinesisQueuesCase, queue: KinesisQueuePlan, record: Record, act: Act) -> bool:
    its, until_us = act.given, act.attempt.answered_us or NEVER_US
    if case.lost(queue, its.asked_us, until_us) or any(
        one is not its and one.answered_us > its.asked_us and one.asked_us < until_us
        for one in record.given
    ):
        return True
    if any(other.asked_us < until_us for other in record.done(ACKNOWLEDGES)):
        return True
    if any(
        other.asked_us < until_us and other.attempt.call is not act.attempt.call
        for other in record.done(frozenset({RESTORE}))
    ):
        return True
    if its.dead:
        return False
    ends_us = its.asked_us + case.lease_us(queue, its) - case.wrong_us
    possible = case.deaths(queue, its.asked_us, its.answered_us) - {0}
    is_last = bool(possible) and its.count >= min(possible)
    is_hidden = any(other.asked_us < until_us for other in record.done(HIDES))
    return is_last and (is_hidden or ends_us <= until_us)


def records_are_intact(case: KinesisQueuesCase) -> Iterator[Violation]:
    """What is given was put into the stream, with its key."""
    for queue, record in _records(case):
        for one in record.given:
            put = case.puts.get((queue.stream, one.data))
            if put is None or put.first_us > one.answered_us:
                text = f"{queue.name} gave {one.data}, which nobody put"
                yield Violation("records are intact", text, _words(one))
            elif one.record.get("PartitionKey") != put.key:
                text = f"{queue.name} gave {one.data} with another key"
                yield Violation("records are intact", text, _words(one))


def records_have_one_id(case: KinesisQueuesCase) -> Iterator[Violation]:
    """In all queues and deliveries, if they were put once; and no other record has it."""
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    data: dict[tuple[str, str], set[str]] = defaultdict(set)
    for queue in case.its.queues:
        for (name, record_id), record in case.records.items():
            for one in record.given if name == queue.name else ():
                ids[queue.stream, one.data].add(record_id)
                data[queue.stream, record_id].add(one.data)
    for (stream, text), found in ids.items():
        put = case.puts.get((stream, text))
        if len(found) > 1 and put is not None and not put.was_overtaken:
            yield Violation("records have one id", f"{text} has {sorted(found)}", [text])
    for (_, record_id), texts in data.items():
        if len(texts) > 1:
            text = f"{record_id} is that of {sorted(texts)}"
            yield Violation("records have one id", text, sorted(texts))


def the_expired_stay_away(case: KinesisQueuesCase) -> Iterator[Violation]:
    """Nobody gets a record whose retention is over, alive or dead."""
    for queue, record in _records(case):
        for one in record.given:
            put = case.puts.get((queue.stream, one.data))
            if put is None or put.was_overtaken:  # what such a call stores again expires later
                continue
            stored_us = put.acknowledged_us
            if stored_us is None:
                continue
            if one.asked_us - stored_us > RETENTION_US + case.wrong_us:
                text = f"{queue.name} gave {one.data}, which had expired"
                yield Violation("the expired stay away", text, _words(one))


def counts_are_right(case: KinesisQueuesCase) -> Iterator[Violation]:
    """Nothing is in flight once all leases are over; and what is there is counted.

    The latter is approximate by contract, but where no request fails, and nothing has copies.
    """
    nothing = Counts(visible=0, in_flight=0, delayed=0, oldest_sent_ms=0)
    for told in case.over.at_rest:
        if told.counts.in_flight:
            text = f"{told.front_end} has {told.counts} in {told.queue}, where all leases are over"
            yield Violation("counts are right", text, [])
    if not case.its.is_exact:
        return
    there = {queue.name: _found(case, queue) for queue in case.its.queues}
    rest = [(told, there[told.queue]) for told in case.over.at_rest]
    for told, wanted in [*rest, *((told, nothing) for told in case.over.at_end)]:
        if replace(told.counts, oldest_sent_ms=0) != wanted:
            text = f"{told.front_end} has {told.counts} in {told.queue}, where {wanted} is"
            yield Violation("counts are right", text, [])


def _found(case: KinesisQueuesCase, queue: KinesisQueuePlan) -> Counts:
    """What was there when all was received, alive and dead."""
    found = {False: 0, True: 0}
    for record in case.of(queue):
        for one in record.given:
            if case.over.drain_began_us <= one.asked_us <= case.over.drained_us:
                found[one.dead] += 1
                break
    return Counts(found[False], in_flight=0, delayed=0, oldest_sent_ms=0, dead=found[True])


def _is_same_life(record: Record, first: Given, second: Given) -> bool:
    """Whether they came in this order, and nobody may have restored the record between."""
    return first.is_before(second) and not record.may_be_restored(
        first.asked_us, second.answered_us
    )


def _with_the_last_before(record: Record) -> Iterator[tuple[Given, Given | None]]:
    """Each delivery, and the one before it if nothing can have come between."""
    known: Given | None = None
    for one in record.given:
        is_next = known is not None and _is_same_life(record, known, one)
        before = known if is_next and known is not None and known.count == one.count - 1 else None
        yield one, before
        known = one


def _deaths(
    case: KinesisQueuesCase, queue: KinesisQueuePlan, one: Given, before: Given | None
) -> set[int]:
    """The counts by which the receive before this one may have gone."""
    if before is None:
        return case.deaths(queue, 0, one.answered_us)
    return case.deaths(queue, before.asked_us, before.answered_us)


def _words(given: Given) -> list[str]:
    return [given.data, f"#{given.attempt.call.number}."]


def _words_of(act: Act) -> list[str]:
    return [act.given.data, f"#{act.attempt.call.number}."]


GIVES_BACK: Final = HIDES | {RESTORE}
INVARIANTS: Final[tuple[Invariant, ...]] = (
    records_are_delivered,
    records_come_until_acknowledged,
    acknowledged_means_acknowledged,
    leases_are_kept,
    receives_are_counted,
    none_dies_before_its_time,
    none_lives_beyond_its_time,
    dead_letters_stay_dead,
    old_handles_are_refused,
    good_handles_are_accepted,
    records_are_intact,
    records_have_one_id,
    the_expired_stay_away,
    counts_are_right,
)
