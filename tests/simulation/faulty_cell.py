"""Cells that fail: the store itself, and the way of one front end to it."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from data_plane.core.dropping import Dropped, Superfluous
from data_plane.core.eras import Eras
from data_plane.dynamodb.store_time import ClockExchange, StoreTime
from data_plane.memory.cell import MemoryCell
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    Attributes,
    CellFullError,
    CellUnavailableError,
    Condition,
    Item,
    Key,
    Tallies,
    Update,
    Written,
    no_tallies,
)
from data_plane.stored.keys import be64
from data_plane.stored.segment import number, octets, open_segment
from tests.simulation.plan import Surroundings
from tests.simulation.process import MachineClock, Process
from tests.simulation.scheduler import Future, Scheduler
from tests.simulation.sealed import unseal
from tests.simulation.weather import Weather

T = TypeVar("T")

SLOW_US_MAX = 4_000_000
STALLED_US_MAX = 1_200_000_000
DUPLICATE_US_MAX = 60_000_000
PATIENCE_US_MAX = 10_000_000

DELAY_US_MAX = 120_000_000
"""The longest that a request or a reply is under way: beyond the leases of most universes."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A message as a cell took it: the truth against which deliveries are held.

    `again` is set where the cell still held a message with this body, `dead` for a dead letter.
    `key_id` is that of the data key that it is sealed with, b"" where it is not.
    """

    time_us: int
    stamp_us: int
    front_end: str
    message_id: bytes
    body: str
    again: bool
    dead: bool = False
    key_id: bytes = b""


class Witness(Protocol):
    """Sees every write that a cell has applied."""

    def put(self, front_end: str, key: Key, after: Attributes) -> None:
        """A whole item was stored."""

    def updated(self, key: Key, before: Attributes | None, after: Attributes) -> None:
        """Attributes of an item were changed."""


class Store:
    """One cell: a shipped memory cell with a clock of its own, and a journal of what it took.

    `queues` are the names and uids of queues that were defined in it, `kms_keys` the KMS keys that
    data keys in it are wrapped under.
    """

    def __init__(self, name: str, scheduler: Scheduler, offset_us: int, *, stamps: bool) -> None:
        self.name = name
        self.estimate_error_us_max = 0
        self.offset_us = offset_us
        self.clock_us: Callable[[], int] | None = None
        self.down_until_us = 0
        self.stored: list[Stored] = []
        self.queues: set[tuple[str, str]] = set()
        self.kms_keys: dict[bytes, str] = {}
        self.tell_body: Callable[[str, Callable[[bytes], None]], None] | None = None
        self.witness: Witness | None = None
        self.wrote: Callable[[], None] = lambda: None
        self._segments: dict[str, list[Key]] = {}
        self.cell = MemoryCell(self, stamps=stamps)
        self._scheduler = scheduler

    def now_us(self) -> int:
        """The store's own clock."""
        if self.clock_us is not None:
            return self.clock_us()
        return self._scheduler.now_us + self.offset_us

    async def append(self, record: Append, front_end: str) -> Appended:
        """Append, and note the messages; where it was appended before, that changes nothing."""
        known = None if self.cell.chooses_stamps else self._find_proposed(record)
        appended = await self.cell.append(record)
        self.wrote()
        if known is None and record.attributes.get("k") == "s":
            item = {**record.attributes, "t": appended.stamp_us}
            note = partial(self._note, self._scheduler.now_us, front_end, appended.key, item)
            if "o" not in item:
                note(None)
            elif self.tell_body is not None:
                self.tell_body(str(item["o"]), note)
        return appended

    async def put_item(
        self,
        front_end: str,
        key: Key,
        attributes: Attributes,
        condition: Condition,
        tallies: Tallies,
    ) -> Written:
        """Put, before a witness."""
        written = await self.cell.put(key, attributes, condition, tallies)
        self.wrote()
        if written.applied and key.partition.startswith("Q|"):
            self.queues.add((key.sort.decode(), str(attributes["u"])))
        if written.applied and key.partition.startswith("Y|") and "m" in attributes:
            self.kms_keys[key.sort] = str(attributes["m"])
        if written.applied and self.witness is not None:
            self.witness.put(front_end, key, attributes)
        return written

    async def update_item(
        self, key: Key, change: Update, condition: Condition, tallies: Tallies
    ) -> Written:
        """Update, before a witness."""
        written = await self.cell.update(key, change, condition, tallies)
        self.wrote()
        if written.applied and self.witness is not None:
            self.witness.updated(key, written.before, self.cell._find(key) or {})
        return written

    def _note(
        self, time_us: int, front_end: str, key: Key, item: Attributes, body: bytes | None
    ) -> None:
        stamp_us = number(item, "t")
        for message in open_segment(key, item, body, unseal):
            earlier = self._segments.setdefault(message.body, [])
            again = any(self._holds(known) for known in earlier)
            self.stored.append(
                Stored(
                    time_us,
                    stamp_us,
                    front_end,
                    message.id,
                    message.body,
                    again=again,
                    dead=message.dead_letter_source != "",
                    key_id=octets(item, "q") if "q" in item else b"",
                )
            )
            earlier.append(key)

    def _find_proposed(self, record: Append) -> Attributes | None:
        slice_us = record.proposed_us + record.delay_us
        return self.cell._find(Key(record.partition, be64(slice_us) + record.suffix))

    def _holds(self, key: Key) -> bool:
        return self.cell._find(key) is not None  # not a request that anybody counts

    def expire_some(self, random: Random) -> int:
        """Remove some of the items whose time to live has passed, in any order."""
        now_s = self.now_us() // 1_000_000
        past = [
            item.key
            for item in self.cell.items()
            if isinstance(x := item.attributes.get("x"), int) and x <= now_s
        ]
        removed = random.sample(past, random.randint(0, len(past)))
        self.cell.expire(removed)
        return len(removed)


class FaultyCell:
    """Implements Cell for one front end. It crashes, freezes and is cut off with its process.

    With a plan's `live_present` the front end sees the store's present itself (an embedded cell),
    without it the present of the last answer. Where cells choose no stamps, it is what the DynamoDB
    adapter makes of the seconds in answers.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a way to a store depends on
        self,
        store: Store,
        process: Process,
        scheduler: Scheduler,
        weather: Weather,
        random: Random,
        plan: Surroundings,
    ) -> None:
        self.cut_until_us = 0
        self.replies_only = False
        self._store = store
        self._process = process
        self._scheduler = scheduler
        self._weather = weather
        self._random = random
        self._live_present = plan.live_present
        self._haste = plan.haste
        self._slowness = Random(f"{plan.name}/{process.name}/{store.name}/slow")
        self._present_us = 0
        self._time = StoreTime(MachineClock(process), lambda: scheduler.now_us)
        self._observe(scheduler.now_us, self._second_us())

    @property
    def chooses_stamps(self) -> bool:
        return self._store.cell.chooses_stamps

    @property
    def eras(self) -> Eras:
        return self._store.cell.eras

    def has_room(self, size_bytes: int) -> bool:
        return self._store.cell.has_room(size_bytes)

    def settled_us(self) -> int:
        return self.now_us() if self.chooses_stamps else self._time.settled_us()

    def now_us(self) -> int:
        """The store's present, as this front end knows it."""
        if not self.chooses_stamps:
            known_us = self._time.now_us()
            error_us = abs(known_us - self._store.now_us())
            self._store.estimate_error_us_max = max(self._store.estimate_error_us_max, error_us)
            return known_us
        if self._live_present:
            return self._store.cell.now_us()
        return self._present_us

    async def append(self, record: Append) -> Appended:
        """Where the cell chooses stamps, no network lies between that could repeat it."""

        async def perform() -> Appended:
            appended = await self._store.append(record, self._process.name)
            return replace(appended, time_ms=self._time_ms(appended.time_ms))

        return await self.call(perform, repeatable=not self.chooses_stamps, grows=True)

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        name = self._process.name
        return await self._write(
            lambda: self._store.put_item(name, key, attributes, condition, tallies)
        )

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        return await self._write(lambda: self._store.update_item(key, change, condition, tallies))

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        return await self._write(lambda: self._store.cell.delete(key, condition, tallies))

    async def _write(self, write: Callable[[], Coroutine[Any, Any, Written]]) -> Written:
        async def perform() -> Written:
            written = await write()
            return replace(written, time_ms=self._time_ms(written.time_ms))

        return await self.call(perform)

    def _time_ms(self, exact_ms: int) -> int:
        """The store's time of a write, as its answer tells it: of some, the second alone."""
        return exact_ms if self.chooses_stamps else self._second_us() // 1000 + 999

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        return await self.call(lambda: self._store.cell.get(key, strong=strong))

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        return await self.call(lambda: self._store.cell.get_many(keys, strong=strong))

    async def query(  # noqa: PLR0913 - a range has that many sides
        self,
        partition: str,
        *,
        after: bytes = b"",
        until: bytes | None = None,
        limit: int,
        reverse: bool = False,
        strong: bool = True,
    ) -> list[Item]:
        return await self.call(
            lambda: self._store.cell.query(
                partition, after=after, until=until, limit=limit, reverse=reverse, strong=strong
            )
        )

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """Where the cell chooses no stamps it leaves all of that to its time to live."""
        if not self.chooses_stamps:
            return Dropped(b"")
        return await self.call(lambda: self._store.cell.drop_superfluous(part, after))

    def expire(self, keys: Sequence[Key]) -> None:
        """The cell removes all of them together, now or later, or leaves them to their time."""
        kept = tuple(keys)
        if not self.chooses_stamps:
            return
        if self._random.random() < 0.8:
            self._scheduler.after(
                self._random.randrange(5_000_000), lambda: self._store.cell.expire(kept)
            )

    # The way there and back, for blob stores too

    async def call(
        self,
        perform: Callable[[], Coroutine[Any, Any, T]],
        *,
        repeatable: bool = True,
        grows: bool = False,
    ) -> T:
        reply: Future[T] = Future(self._scheduler)
        sent_us = self._scheduler.now_us
        weather, random = self._weather, self._random.random
        there_us = self._latency_us()
        if weather.stalled and random() < weather.stalled:
            there_us += self._stall()
        if random() < weather.crash:
            self._scheduler.after(self._random.randrange(2 * there_us + 1), self._process.crash)
        if random() < weather.throttle:
            self._fail_after(reply, there_us, "throttled")
        elif grows and random() < weather.full:
            self._scheduler.after(there_us, lambda: reply.fail(CellFullError("no room")))
        elif random() < weather.lost_request:
            self._fail_after(reply, self._patience_us(), "request lost")
        else:
            ignored: Future[T] = Future(self._scheduler)
            if weather.retried and repeatable and random() < weather.retried:
                self._scheduler.after(there_us, lambda: self._arrive(perform, ignored, sent_us))
                there_us += self._patience_us() + self._latency_us()
            self._scheduler.after(there_us, lambda: self._arrive(perform, reply, sent_us))
            if repeatable and random() < weather.duplicate:
                again_us = there_us + self._random.randrange(DUPLICATE_US_MAX // self._haste)
                self._scheduler.after(again_us, lambda: self._arrive(perform, ignored, sent_us))
            if weather.delay:
                self._fail_after(reply, there_us + self._patience_us(), "no answer in time")
        return await reply

    def _arrive(
        self, perform: Callable[[], Coroutine[Any, Any, T]], reply: Future[T], sent_us: int
    ) -> None:
        now_us = self._scheduler.now_us
        cut = self.cut_until_us > now_us
        if self._store.down_until_us > now_us or (cut and not self.replies_only):
            self._fail_after(reply, self._patience_us(), "nobody there")
            return
        answer = _at_once(perform())
        present_us, second_us = self._store.cell.now_us(), self._second_us()
        if cut or self._random.random() < self._weather.lost_reply:
            self._fail_after(reply, self._patience_us(), "reply lost")
            return

        def arrive_back() -> None:
            self._present_us = max(self._present_us, present_us)
            self._observe(sent_us, second_us)
            reply.resolve(answer)

        self._scheduler.after(self._latency_us(), arrive_back)

    def _stall(self) -> int:
        """Stop the process: for how long."""
        held_us = self._random.randrange(STALLED_US_MAX // self._haste)
        until_us = self._scheduler.now_us + held_us
        self._process.frozen_until_us = max(self._process.frozen_until_us, until_us)
        self._process.sends_until_us = max(self._process.sends_until_us, until_us)
        return held_us

    def _second_us(self) -> int:
        """The second of the store's clock, which is all that an answer says of it."""
        return self._store.now_us() // 1_000_000 * 1_000_000

    def _observe(self, sent_us: int, second_us: int) -> None:
        self._time.observe(ClockExchange(sent_us, self._scheduler.now_us, second_us))

    def _latency_us(self) -> int:
        if self._weather.slow and self._slowness.random() < self._weather.slow:
            return self._slowness.randrange(SLOW_US_MAX)
        if self._random.random() < self._weather.delay:
            return int(self._random.random() ** 3 * DELAY_US_MAX) // self._haste
        return self._random.randrange(200, 8_000)

    def _patience_us(self) -> int:
        """How long the front end waits for an answer that does not come."""
        return self._random.choice((100_000, 2_000_000, PATIENCE_US_MAX))

    def _fail_after(self, reply: Future[T], wait_us: int, why: str) -> None:
        self._scheduler.after(
            wait_us, lambda: reply.fail(CellUnavailableError(f"{self._store.name}: {why}"))
        )


def _at_once(call: Coroutine[Any, Any, T]) -> T:
    """What the memory cell answers; it never suspends."""
    try:
        call.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("the memory cell suspends nobody")
