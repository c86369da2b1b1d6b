"""The invariants of streams. Each looks once at every record of a history, on every seed.

What a front end answered counts as promised even if the answer was lost. Times are true ones.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from data_plane.frontend.settings import FrontEndSettings
from data_plane.ports import Item
from data_plane.streams.slots import RecordSlot, read_slot
from tests.simulation.history import Attempt, Call
from tests.simulation.ledger import NEVER_US
from tests.simulation.oracle import Violation
from tests.simulation.replicated.fifo_oracle import held_by_full, members_agree
from tests.simulation.replicated.plan import SECOND_US
from tests.simulation.streams.keeping import Retentions
from tests.simulation.streams.plan import StreamsPlan
from tests.simulation.streams.reading import Place, Reading, Seen, seen
from tests.simulation.streams.world import StreamsWorld

SLOTS: Final = "N|"
SURE_US: Final = 24 * 3_600 * SECOND_US
SKIPPED: Final = 1 << 32
"""Where nobody looked after a shard for a day its offsets go on so much later
(docs/storage.md, "Anchor")."""

_CLOCK_SLACK_US: Final = 3 * SECOND_US
_DEADLINE_US: Final = round(FrontEndSettings().request_deadline_s * SECOND_US)


@dataclass(slots=True)
class Put:
    """A record that a producer put, and where answers said that it is."""

    call: Call
    stream: str
    key: str
    position: int
    acknowledged: list[tuple[Seen, Attempt]] = field(default_factory=list)

    @property
    def first_us(self) -> int:
        """Before that it was not stored."""
        return self.call.attempts[0].invoked_us

    @property
    def acknowledged_us(self) -> int | None:
        """By then it was stored, and somebody said so."""
        times = [one.answered_us for _, one in self.acknowledged if one.answered_us is not None]
        return min(times, default=None)

    def acknowledged_at_us(self, place: Place) -> int | None:
        """By then it was stored there, and somebody said so: an overtaken call stores it twice."""
        times = [one.answered_us for told, one in self.acknowledged if told.place == place]
        return min((time_us for time_us in times if time_us is not None), default=None)

    @property
    def was_overtaken(self) -> bool:
        """Whether an attempt was still at work when a later one was answered.

        It may have stood still before it asked anything of a cell (docs/promises.md, "Streams").
        """
        return any(
            later.answered_us is not None and _ended_us(earlier) > later.answered_us
            for earlier, later in pairwise(self.call.attempts)
        )


def _ended_us(attempt: Attempt) -> int:
    """When the attempt was surely no more at work: whose deadline passed still may be."""
    if attempt.answered_us is None:
        return NEVER_US
    took_us = attempt.answered_us - attempt.invoked_us
    return NEVER_US if not attempt.ok and took_us >= _DEADLINE_US else attempt.answered_us


class Case:
    """A universe before the oracle: `puts` by stream and data."""

    def __init__(self, plan: StreamsPlan, world: StreamsWorld) -> None:
        self.plan = plan
        self.world = world
        self.readings = world.readings
        self.slack_us = 2 * world.apart_us() + _CLOCK_SLACK_US
        self.retentions = Retentions(world.history, self.slack_us)
        self.puts: dict[tuple[str, str], Put] = {}
        for attempt in world.history.attempts:
            if attempt.call.operation in {"PutRecord", "PutRecords"}:
                self._note(attempt)

    def _note(self, attempt: Attempt) -> None:
        call, params = attempt.call, attempt.call.params
        records = params.get("Records", [params])
        answers: list[Mapping[str, Any]] = [{}] * len(records)
        if attempt.ok:
            answers = attempt.output.get("Records", [attempt.output])
        for position, (record, answer) in enumerate(zip(records, answers, strict=True)):
            data = record["Data"]
            new = Put(call, call.queue, record["PartitionKey"], position)
            put = self.puts.setdefault((call.queue, data), new)
            if "SequenceNumber" in answer:
                put.acknowledged.append((seen(answer, data), attempt))

    def places(self) -> Iterator[tuple[str, Seen]]:
        """Everything that was told of where records are, by stream."""
        for (stream, _), put in self.puts.items():
            for told, _ in put.acknowledged:
                yield stream, told
        for reading in self.readings:
            for told in reading.seen:
                yield reading.stream, told


def check(plan: StreamsPlan, world: StreamsWorld) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = Case(plan, world)
    found = [violation for invariant in INVARIANTS for violation in invariant(case)]
    found += [Violation(invariant, text, []) for invariant, text in world.records.broken]
    return [*found, *members_agree(world, SLOTS)]


def nothing_breaks(case: Case) -> Iterator[Violation]:
    """No internal error, and no task that spins or waits for ever."""
    for text in case.world.history.broken:
        yield Violation("nothing breaks", text, [])


def acknowledged_is_read(case: Case) -> Iterator[Violation]:
    """Who reads to the end has all that was acknowledged before, unless its time was over."""
    for reading in case.readings:
        if reading.ended_us is None:
            continue
        had = {(one.place, one.data) for one in reading.seen}
        for (stream, data), put in case.puts.items():
            acknowledged_us = put.acknowledged_us
            if stream != reading.stream or acknowledged_us is None:
                continue
            if acknowledged_us >= reading.began_us:
                continue
            if case.retentions.may_be_gone(stream, put.first_us, reading.ended_us):
                continue
            for told, _ in put.acknowledged:
                if (told.place, data) not in had:
                    text = f"{reading.reader} lacks {data}, which was put at {told.place}"
                    yield Violation("acknowledged is read", text, [data])


def the_expired_stay_away(case: Case) -> Iterator[Violation]:
    """Nobody gets a record whose retention is over."""
    for reading in case.readings:
        for one in reading.seen:
            put = case.puts.get((reading.stream, one.data))
            stored_us = put.acknowledged_at_us(one.place) if put is not None else None
            if stored_us is None:
                continue
            if case.retentions.is_gone(reading.stream, stored_us, reading.began_us):
                text = f"{reading.reader} got {one.data}, which had expired"
                yield Violation("the expired stay away", text, [one.data])


def records_are_intact(case: Case) -> Iterator[Violation]:
    """What is read was put into this stream."""
    for reading in case.readings:
        for one in reading.seen:
            if (reading.stream, one.data) not in case.puts:
                text = f"{reading.reader} got {one.data}, which nobody put into {reading.stream}"
                yield Violation("records are intact", text, [one.data])


def numbers_are_given_once(case: Case) -> Iterator[Violation]:
    """An offset of a shard is one record's, whoever tells it, with one sequence number."""
    given: dict[tuple[str, Place], Seen] = {}
    for stream, told in case.places():
        known = given.setdefault((stream, told.place), told)
        if known != told:
            text = f"{told.place} of {stream} is {known.data} and {told.data}"
            yield Violation("numbers are given once", text, [known.data, told.data])


def repeats_are_stored_once(case: Case) -> Iterator[Violation]:
    """A record is in one place, however often its call was repeated."""
    where: dict[tuple[str, str], set[Place]] = defaultdict(set)
    for stream, told in case.places():
        where[stream, told.data].add(told.place)
    for (stream, data), places in where.items():
        put = case.puts.get((stream, data))
        if len(places) < 2 or put is None:
            continue
        if put.was_overtaken:
            case.world.redelivered += 1
        else:
            text = f"{data} is in {stream} at {sorted(places)}"
            yield Violation("repeats are stored once", text, [data])


def numbered_is_stored_once(case: Case) -> Iterator[Violation]:
    """What producers number is in one place, whoever puts it however often; and what is stored is.

    Who reads to the end before anything expires has all of what an answer called stored.
    """
    where: dict[tuple[str, str], set[Place]] = defaultdict(set)
    for stream, told in case.places() if case.plan.numbered else ():
        where[stream, told.data].add(told.place)
    for (stream, data), places in where.items():
        if len(places) > 1:
            text = f"{data} is in {stream} at {sorted(places)}"
            yield Violation("numbered is stored once", text, [data])
    for job in case.world.jobs:
        for reading in case.readings:
            if reading.stream != job.stream or reading.ended_us is None:
                continue
            if _may_have_lost_the_first(case, reading):
                continue
            had = {one.data for one in reading.seen}
            for data, told_us in job.told:
                if data not in had and told_us < reading.began_us:
                    text = f"{reading.reader} lacks {data}, which was called stored"
                    yield Violation("numbered is stored once", text, [data])


def offsets_are_dense(case: Case) -> Iterator[Violation]:
    """A reader meets the records of a shard in order, without gaps and from the first one on.

    They go on where they were when all has expired, where somebody looked within a day.
    """
    may_skip = any(leap_us >= SURE_US for leap_us in case.plan.leaps_us)
    for stream, told in case.places():
        if told.place.offset > SKIPPED and not may_skip:
            text = f"{told.place} of {stream} is far above what was there a day before"
            yield Violation("offsets are dense", text, [told.data])
    for reading in case.readings:
        offsets: dict[int, list[int]] = defaultdict(list)
        for one in reading.seen:
            offsets[one.place.shard].append(one.place.offset)
        for shard, met in offsets.items():
            if met[0] != 1 and not _may_have_lost_the_first(case, reading):
                text = f"{reading.reader} began shard {shard} at {met[0]}"
                yield Violation("offsets are dense", text, [reading.reader])
            for before, after in pairwise(met):
                step = after - before
                if step == 1 or (may_skip and step > SKIPPED):
                    continue
                if not _was_expiring(case, reading, Place(shard, before)):
                    text = f"{reading.reader} met {after} behind {before} in shard {shard}"
                    yield Violation("offsets are dense", text, [reading.reader])


def _was_expiring(case: Case, reading: Reading, place: Place) -> bool:
    """Whether what comes after this record may have expired before it was read, too."""
    data = next(one.data for one in reading.seen if one.place == place)
    put = case.puts.get((reading.stream, data))
    ended_us = reading.ended_us or case.world.scheduler.now_us
    if put is None:
        return False
    return case.retentions.may_be_gone(reading.stream, put.first_us, ended_us)


def _may_have_lost_the_first(case: Case, reading: Reading) -> bool:
    """Whether anything may have expired when it ended."""
    began_us = case.world.history.attempts[0].invoked_us
    ended_us = reading.ended_us or case.world.scheduler.now_us
    return case.retentions.may_be_gone(reading.stream, began_us, ended_us)


def keys_stay_in_order(case: Case) -> Iterator[Violation]:
    """Of two puts with a key, one answered before the other began, every reader has it first.

    Through splits and merges: a reader reads parents before children.
    """
    by_key: dict[tuple[str, str, str], list[Put]] = defaultdict(list)
    for put in case.puts.values():
        if put.acknowledged:
            by_key[put.stream, put.call.client, put.key].append(put)
    for reading in case.readings:
        at = {(one.place, one.data): position for position, one in enumerate(reading.seen)}
        data_of = {id(put): data for (_, data), put in case.puts.items()}
        for (stream, _, _), puts in by_key.items():
            if stream != reading.stream:
                continue
            # One that was overtaken may be in two places.
            for earlier, later in pairwise(put for put in puts if not put.was_overtaken):
                positions = [
                    at.get((put.acknowledged[0][0].place, data_of[id(put)]))
                    for put in (earlier, later)
                ]
                if None in positions or not _comes_before(earlier, later):
                    continue
                first, second = positions
                if first is not None and second is not None and first > second:
                    words = [data_of[id(earlier)], data_of[id(later)]]
                    text = f"{reading.reader} read {words[1]} before {words[0]}"
                    yield Violation("keys stay in order", text, words)


def _comes_before(earlier: Put, later: Put) -> bool:
    if earlier.call is later.call:
        return earlier.position < later.position
    acknowledged_us = earlier.acknowledged_us
    return acknowledged_us is not None and acknowledged_us < later.first_us


def children_come_after_parents(case: Case) -> Iterator[Violation]:
    """All sequence numbers of a child are above those of its parents."""
    for reading in case.readings:
        numbers: dict[int, list[int]] = defaultdict(list)
        for one in reading.seen:
            numbers[one.place.shard].append(int(one.number))
        for child, parents in reading.parents.items():
            for parent in parents:
                if child not in numbers or parent not in numbers:
                    continue
                if min(numbers[child]) <= max(numbers[parent]):
                    text = f"{reading.reader}: shard {child} begins before {parent} ends"
                    yield Violation("children come after parents", text, [reading.reader])


def totals_add_up(case: Case) -> Iterator[Violation]:
    """Each slot says how much its shard has had so far: what the one below says, and its own."""
    slots: dict[str, list[RecordSlot]] = defaultdict(list)
    for key in sorted(case.world.records.writes):
        if key.partition.startswith(SLOTS):
            _, item = held_by_full(case.world, key)[-1]
            if item is not None:
                slots[key.partition].append(read_slot(Item(key, item)))
    for partition, those in slots.items():
        for below, slot in pairwise(those):
            if slot.number == below.following and slot.bytes_below != below.total_bytes:
                text = f"{partition} {slot.number}: {slot.bytes_below} and not {below.total_bytes}"
                yield Violation("totals add up", text, [])


INVARIANTS: Final[tuple[Callable[[Case], Iterator[Violation]], ...]] = (
    nothing_breaks,
    acknowledged_is_read,
    the_expired_stay_away,
    records_are_intact,
    numbers_are_given_once,
    repeats_are_stored_once,
    numbered_is_stored_once,
    offsets_are_dense,
    keys_stay_in_order,
    children_come_after_parents,
    totals_add_up,
)
