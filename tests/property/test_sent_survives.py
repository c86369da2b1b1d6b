"""What is sent to cells without a ledger is in records, each message once, however servers end.

Servers crash, stop, stand still for an hour, lose the place where records go, and write to a cell
that fails before or after it took effect. Clients repeat each call until it is acknowledged. Where
a server is alone, queues are purged, and what was purged is dropped.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from data_plane.bag.engine import Bag
from data_plane.core.message import Outgoing, SendCall, Stored
from data_plane.core.queue import Queue
from data_plane.engine import Engine
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Cell, CellUnavailableError
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from data_plane.stored.sent_minutes import sent_to
from data_plane.usage.record import UsageRecord
from data_plane.usage.sent import PARTITION, SILENT_US, SentRecords, SentStores
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.repeatable import HandClock, SeededEntropy

STANDARD = replace(QUEUE, name="orders")
FIFO = replace(QUEUE, name="orders.fifo", uid="00112233445566bb", fifo=True)
QUEUES = (STANDARD, FIFO)
SERVERS = 3
REPEATED_WITHIN_US = 180_000_000
HOUR_MINUTES = 66
UNIT_BYTES = 65_536


class FailingCell:
    """A cell whose next write of messages fails, if asked to: before it takes effect, or after."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self.fails: bool | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cell, name)

    async def append(self, record: Any) -> Any:
        return await self._write(self._cell.append, record)

    async def put(self, key: Any, *rest: Any) -> Any:
        if not key.partition.startswith("G|"):
            return await self._cell.put(key, *rest)
        return await self._write(self._cell.put, key, *rest)

    async def _write(self, write: Any, *args: Any) -> Any:
        fails, self.fails = self.fails, None
        if fails is False:
            raise CellUnavailableError("before")
        written = await write(*args)
        if fails:
            raise CellUnavailableError("after")
        return written


class Place:
    """Keeps what is put, each identity once; one that is away takes nothing."""

    def __init__(self, records: dict[tuple[str, int], UsageRecord]) -> None:
        self.records = records
        self.away = False

    async def put(self, records: Sequence[UsageRecord]) -> None:
        if self.away:
            raise CellUnavailableError("away")
        for record in records:
            assert self.records.setdefault((record.writer, record.number), record) == record


@dataclass
class Send:
    """A call, repeated until it is acknowledged."""

    queue: Queue
    sizes: list[int]
    batch: bool
    name: bytes
    attempts: int = 0
    since_us: int = 0


@dataclass
class World:
    """A cell, its servers, and what clients were told."""

    clock: HandClock = field(default_factory=HandClock)
    plain: Cell | None = None
    alone: bool = False
    records: dict[tuple[str, int], UsageRecord] = field(default_factory=dict)
    told: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    left: list[Send] = field(default_factory=list)
    started: int = 0

    def __post_init__(self) -> None:
        self.cell = FailingCell(self.plain or MemoryCell(self.clock, stamps=False))
        self.servers = [self.start() for _ in range(1 if self.alone else SERVERS)]

    def start(self) -> "Server":
        self.started += 1
        return Server(self, self.started)

    async def send(self, which: int, send: Send, *, fails: bool | None = None) -> None:
        self.cell.fails = fails
        send.attempts += 1
        send.since_us = send.since_us or self.clock.now_us()
        try:
            await self.servers[which].send(send)
        except CellUnavailableError:
            self.left.append(send)
            return
        finally:
            self.cell.fails = None
        operation = "SendMessageBatch" if send.batch else "SendMessage"
        size = sum(send.sizes)
        amounts = (1, max(1, -(-size // UNIT_BYTES)), len(send.sizes), size)
        for name, amount in zip(("requests", "units", "messages", "bytes"), amounts, strict=True):
            self.told[send.queue.name, operation, name] += amount

    async def retry(self, which: int) -> None:
        waiting, self.left = self.left, []
        for send in waiting:
            await self.send(which, send)

    async def drop(self, queue: Queue) -> None:
        """Drop what lies there by now, as nothing is under way any more."""
        await self.retry(0)
        until_us = self.clock.now_us()
        self.clock.advance(1)
        try:
            assert await self.servers[0].sent.note(sent_to(queue), until_us) == until_us
        except CellUnavailableError:
            return
        partition = keys.slots(queue.uid, 0, 0) if queue.fifo else keys.segments(queue.uid, 0, 0)
        items = await self.cell.query(partition, limit=1000)
        # The end of a log stays to be found.
        gone = items[:-1] if queue.fifo else items
        self.cell.expire([item.key for item in gone if item.attributes["t"] <= until_us])

    async def minute(self) -> None:
        self.clock.advance(60)
        # A call that is repeated after five minutes is another one.
        if any(self.clock.now_us() - send.since_us > REPEATED_WITHIN_US for send in self.left):
            await self.retry(0)
        for server in self.servers:
            await server.write()

    async def freeze(self, which: int) -> None:
        """A server stands still for an hour, in which others take it for ended."""
        frozen, self.servers[which] = self.servers[which], self.start()
        for _ in range(HOUR_MINUTES):
            await self.minute()
        self.servers[which].place.away = False
        await self.servers[which].sent.write_last()
        self.servers[which] = frozen

    async def end(self) -> None:
        """All is repeated, and all servers are gone but a new one, which others left it to."""
        await self.retry(0)
        if not self.alone or any(server.place.away for server in self.servers):
            self.servers = [self.start()]
        self.clock.advance(SILENT_US / 1_000_000 + 61)
        await self.servers[0].sent.write()
        await self.servers[0].sent.write_last()
        noted = await self.cell.query(PARTITION, limit=100)
        assert [item for item in noted if b"|" not in item.key.sort] == []

    def counted(self) -> Counter[tuple[str, str, str]]:
        sums: Counter[tuple[str, str, str]] = Counter()
        for one in self.records.values():
            for name in ("requests", "units", "messages", "bytes"):
                sums[one.queue, one.operation, name] += getattr(one, name)
        return sums


async def no_pause() -> None:
    """Others have nothing to do."""


class Server:
    """A front end that counts."""

    place: Any

    def __init__(self, world: World, number: int) -> None:
        cells: Any = {"a": world.cell}
        entropy = SeededEntropy(number)
        ports = (cells, world.clock, entropy, EventLoopWaits(world.clock))
        self.engine = Engine(Bag(*ports), Log(*ports))
        self.place = Place(world.records)
        stores = SentStores(cells["a"], cells, cells, world.alone)
        desks = (self.engine.bag.sent, self.engine.log.sent)
        self.sent = SentRecords(stores, desks, self.place, entropy, no_pause)
        self.engine.before_sends = self.sent.announce

    async def send(self, send: Send) -> None:
        messages = [
            Outgoing(
                body="x" * size,
                size=size,
                group="g" if send.queue.fifo else "",
                deduplication_id=f"{send.name.hex()} {place}" if send.queue.fifo else "",
            )
            for place, size in enumerate(send.sizes)
        ]
        again = send.attempts > 1
        call = SendCall("1", messages, send.name, again, send.batch)
        await self.engine.send(send.queue, call, stored=Stored())

    async def write(self) -> None:
        try:
            await self.sent.write()
        except CellUnavailableError:
            assert self.place.away


async def play(world: World, steps: Sequence[tuple[Any, ...]]) -> None:
    for number, (step, which, *rest) in enumerate(steps):
        server = world.servers[which]
        if step == "send":
            fifo, sizes, fails = rest
            name = hashlib.blake2b(bytes([number]), digest_size=16).digest()
            send = Send(QUEUES[fifo], sizes, len(sizes) > 1, name)
            await world.send(which, send, fails=fails)
        elif step == "retry":
            await world.retry(which)
        elif step == "minute":
            await world.minute()
        elif step == "away":
            server.place.away = not server.place.away
        elif step == "freeze":
            await world.freeze(which)
        elif step == "drop":
            await world.drop(QUEUES[rest[0]])
        elif step == "crash":
            world.servers[which] = world.start()
        elif step == "stop":
            server.place.away = False
            await server.sent.write_last()
            world.servers[which] = world.start()
    await world.end()
    assert world.counted() == world.told


WHICH = st.integers(0, SERVERS - 1)
SIZES = st.lists(st.sampled_from([1, 300, 70_000]), min_size=1, max_size=3)
FAILS = st.sampled_from([None, None, None, False, True])
STEP = st.one_of(
    st.tuples(st.just("send"), WHICH, st.booleans(), SIZES, FAILS),
    st.tuples(st.just("send"), WHICH, st.booleans(), SIZES, FAILS),
    st.tuples(st.just("minute"), WHICH),
    st.tuples(st.sampled_from(["retry", "crash", "stop", "away", "freeze"]), WHICH),
)


@settings(deadline=None)
@given(st.lists(STEP, max_size=25))
def test_every_message_is_in_one_record(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(play(World(), steps))


ALONE = st.just(0)
STEP_ALONE = st.one_of(
    st.tuples(st.just("send"), ALONE, st.booleans(), SIZES, FAILS),
    st.tuples(st.just("send"), ALONE, st.booleans(), SIZES, FAILS),
    st.tuples(st.just("drop"), ALONE, st.booleans()),
    st.tuples(st.just("minute"), ALONE),
    st.tuples(st.sampled_from(["retry", "crash", "crash", "stop", "away"]), ALONE),
)


@settings(deadline=None)
@given(st.lists(STEP_ALONE, max_size=25))
@example([("send", 0, False, [1], None), ("minute", 0), ("drop", 0, False), ("crash", 0)])
@example([("send", 0, False, [1], True), ("drop", 0, False), ("crash", 0), ("drop", 0, False)])
def test_what_is_dropped_before_it_is_recorded_is_in_one_record(
    steps: list[tuple[Any, ...]],
) -> None:
    asyncio.run(play(World(alone=True), steps))
