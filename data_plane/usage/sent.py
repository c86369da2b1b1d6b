"""Records of sends to cells without a ledger, whatever server is cut off.

What one desk has sent in one minute of its stamps is a writer of its own. Its records follow from
what is stored: so whoever adds that up, the server from memory or another one by reading, makes the
same records, and they count once. See docs/storage.md, "Sends of cells without a ledger".
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from data_plane.core.queue import Generation, Queue
from data_plane.ports import (
    Attributes,
    Cell,
    CellUnavailableError,
    Entropy,
    Item,
    Key,
    Update,
    Value,
)
from data_plane.stored.keys import be64
from data_plane.stored.lease import WRITER_BYTES as DESK_BYTES
from data_plane.stored.ledger import CallSums
from data_plane.stored.segment import FORMAT_VERSION, check_version, number, octets
from data_plane.stored.sent_minutes import Minute, SentKey, SentMinutes, SentTo, sent_to
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import SCHEMA, US_PER_MINUTE, WRITER_BYTES, UsageRecord
from data_plane.usage.sent_noted import NOTED_VERSION, noted_item, read_noted
from data_plane.usage.sent_reading import NOTHING_NOTED, DeskMinute, Found, Noted, SentReader

PARTITION: Final = "M|sends"
MINUTES_SETTLED: Final = 45
"""After so many minutes no write of a minute can arrive any more that would count."""

SILENT_US: Final = (MINUTES_SETTLED + 5) * US_PER_MINUTE
UNHEARD_US_MAX: Final = SILENT_US - 10 * US_PER_MINUTE
"""A server that could not say for so long that it is there does so before it sends."""

LOOK_EVERY_US: Final = 10 * US_PER_MINUTE
ANNOUNCED_FOR_US: Final = 10 * 24 * 60 * US_PER_MINUTE
RETRY_US: Final = US_PER_MINUTE
KEPT_S: Final = 30 * 24 * 3600
SUMS_MAX: Final = 100_000
"""Sums that wait for the usage place; beyond, the oldest are left to be read later."""

FORGOTTEN_MAX: Final = 200
_PAGE: Final = 500
_BETWEEN: Final = b"|"
_STILL_OPEN: Final = 2
"""So many minutes may still get stamps: the present one, and one before it for clocks that differ.
"""


class SentStores(NamedTuple):
    """Where what is sent lies: the registry's cell, and queues' cells by name.

    `alone`: no other server has these cells, so whoever is found there has ended.
    """

    control: Cell
    cells: Mapping[str, Cell]
    fifo_cells: Mapping[str, Cell]
    alone: bool


class _Server(NamedTuple):
    """A server: its desks, when it was last heard of, where its records end, and what it noted."""

    name: bytes
    desks: frozenset[bytes]
    seen_us: int
    complete_to: int
    queues: tuple[SentTo, ...]
    noted: Mapping[str, Noted]


class SentRecords:
    """Makes records of what a server's desks have sent, and of what others have left behind.

    Between two steps of what it reads there is a `pause`.
    """

    def __init__(
        self,
        stores: SentStores,
        desks: Sequence[SentMinutes],
        place: UsagePlace,
        entropy: Entropy,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._stores = stores
        self._desks = desks
        self._place = place
        self._pause = pause
        self._reader = SentReader(stores.cells, stores.fifo_cells, pause)
        self._is_reading = False
        self._noted: dict[str, Noted] = {}
        self._told_minute = 0
        self._name = entropy.random_bytes(WRITER_BYTES).hex().encode()
        self._announced: dict[str, tuple[SentTo, int]] = {}
        self._put_us = self._retry_us = self._look_us = 0
        self._others_done = not stores.alone
        self.written = self.failures = 0
        for desk in desks:
            desk.keep()

    def pending(self) -> list[UsageRecord]:
        """Records of what was sent and is not stored, as far as that is known."""
        return [
            record
            for desk in self._desks
            for at, kept in desk.minutes.items()
            if not kept.unsure
            for record in records_of(DeskMinute(at, desk.desk), kept.sums)
        ]

    # Before a send

    async def announce(self, queue: Queue) -> None:
        """Note, before the first send to the queue, that this server sends to it.

        Where the registry is away the send goes on: what is sent then would be missed after a
        crash of this server, until a later send could be noted.
        """
        if self._cell_of(queue).chooses_stamps:
            return
        to, now_us = sent_to(queue), self._stores.control.now_us()
        known, noted_us = self._announced.get(queue.uid, (None, 0))
        is_heard = now_us - self._put_us < UNHEARD_US_MAX
        if is_heard and known == to and now_us - noted_us < ANNOUNCED_FOR_US:
            return
        if now_us < self._retry_us:
            return
        try:
            if not is_heard:
                await self._tell(now_us)
            await self._name_queue(to, now_us)
        except CellUnavailableError:
            self.failures += 1
            self._retry_us = now_us + RETRY_US

    def _cell_of(self, queue: Queue) -> Cell:
        return (self._stores.fifo_cells if queue.fifo else self._stores.cells)[queue.cell]

    async def _tell(self, now_us: int) -> None:
        complete_to = self._complete_to(now_us // US_PER_MINUTE)
        item: Attributes = {
            "v": FORMAT_VERSION,
            "w": b"".join(desk.desk for desk in self._desks),
            "t": now_us,
            "c": complete_to,
            "x": now_us // 1_000_000 + KEPT_S,
        }
        written = await self._stores.control.put(Key(PARTITION, self._name), item)
        if written.before is None:
            # Others may have taken this server for ended, and forgotten to which queues it sends.
            self._announced.clear()
        self._put_us = now_us
        self._told_minute = complete_to
        self._noted = {
            uid: noted
            for uid, noted in self._noted.items()
            if any(at.minute >= complete_to for at in noted.found)
        }
        for to in [to for desk in self._desks for to in desk.queues()]:
            if to.uid not in self._announced:
                await self._name_queue(to, now_us)

    async def _name_queue(self, to: SentTo, now_us: int) -> None:
        item = _queue_item(to, now_us)
        if to.uid in self._noted:
            item["v"] = NOTED_VERSION
        await self._stores.control.update(_queue_key(self._name, to.uid), Update(assign=item))
        self._announced[to.uid] = to, now_us

    # Before messages are dropped

    async def note(self, to: SentTo, until_us: int) -> int:
        """Note what was sent to a queue with stamps up to this one, so that it may be dropped.

        Nothing of it may be under way any more. Answers up to which stamp it may be: where others
        have these cells, too, what is recorded. Raises CellUnavailableError.
        """
        if not self._stores.alone:
            return min(desk.recorded_us() for desk in self._desks)
        async with self._reads():
            now_us = self._stores.control.now_us()
            if self._has_sent_to(to.uid):
                if not self._put_us:
                    await self._tell(now_us)
                noted = await self._note(self._own(), to, until_us, now_us)
                if noted.found:
                    self._noted[to.uid] = noted
            for server in () if self._others_done else await self._silent(now_us):
                if any(queue.uid == to.uid for queue in server.queues):
                    await self._note(server, to, until_us, now_us)
        return until_us

    def _has_sent_to(self, uid: str) -> bool:
        """Whether it may be that this server has."""
        return uid in self._announced or any(
            uid in kept.queues for desk in self._desks for kept in desk.minutes.values()
        )

    def _own(self) -> _Server:
        desks = frozenset(desk.desk for desk in self._desks)
        return _Server(self._name, desks, 0, self._told_minute, (), self._noted)

    async def _note(self, server: _Server, to: SentTo, until_us: int, now_us: int) -> Noted:
        known = server.noted.get(to.uid, NOTHING_NOTED)
        if until_us <= known.until_us:
            return known
        found = await self._reader.read(
            (to,), server.desks, server.complete_to, server.noted, until_us=until_us
        )
        if not found:
            return NOTHING_NOTED
        noted = Noted(until_us, found)
        item = {**_queue_item(to, now_us), **noted_item(noted)}
        await self._stores.control.update(_queue_key(server.name, to.uid), Update(assign=item))
        return noted

    @asynccontextmanager
    async def _reads(self) -> AsyncIterator[None]:
        """Read what was sent while nobody notes it: what is noted is dropped under who reads."""
        while self._is_reading:
            await self._pause()
        self._is_reading = True
        try:
            yield
        finally:
            self._is_reading = False

    # Each minute

    async def write(self) -> None:
        """Store what was sent in minutes that are over.

        Raises CellUnavailableError; what was not stored then waits.
        """
        now_us = self._stores.control.now_us()
        minute = now_us // US_PER_MINUTE
        failed: CellUnavailableError | None = None
        try:
            await self._write_own(minute - _STILL_OPEN + 1, settled=minute - MINUTES_SETTLED)
        except CellUnavailableError as error:
            failed = error
        finally:
            self._bound()
        # In any case: others take a server that is not heard of for one that has ended.
        if self._put_us:
            await self._tell(now_us)
        if failed is not None:
            raise failed
        await self._write_left(now_us)
        if self._others_done:
            for desk in self._desks:
                desk.recorded(self._complete_to(minute))

    async def write_last(self) -> None:
        """Store all that is left, as nothing is sent any more. Raises as `write` does."""
        now_us = self._stores.control.now_us()
        every = now_us // US_PER_MINUTE + _STILL_OPEN
        settled = every if self._stores.alone else now_us // US_PER_MINUTE - MINUTES_SETTLED
        await self._write_own(every, settled)
        await self._write_left(now_us)
        if not self._put_us:
            return
        if any(desk.minutes for desk in self._desks):
            await self._tell(now_us)  # Others go on from there.
        else:
            # What is left of many is left to its time: a stop does not wait for it.
            await self._forget(self._name, list(self._announced)[:FORGOTTEN_MAX])

    def _complete_to(self, minute: int) -> int:
        """The minute before which all of this server's is recorded."""
        waiting = [at for desk in self._desks for at in desk.minutes]
        return min([*waiting, minute - _STILL_OPEN + 1])

    async def _write_own(self, until: int, settled: int) -> None:
        over = [(desk, at, kept) for desk in self._desks for at, kept in desk.over(until).items()]
        known = {DeskMinute(at, desk.desk): kept.sums for desk, at, kept in over if not kept.unsure}
        await self._put(known)
        for desk, at, kept in over:
            if not kept.unsure:
                del desk.minutes[at]
        for desk, at, kept in over:
            if kept.unsure and at < settled:
                await self._read_own(desk, at, kept)

    async def _read_own(self, desk: SentMinutes, at: int, kept: Minute) -> None:
        """Read what nobody knows of a minute; what has not arrived by now never will."""
        async with self._reads():
            found = await self._reader.read(kept.queues.values(), {desk.desk}, at, self._noted)
        place = DeskMinute(at, desk.desk)
        await self._put({place: found.get(place, {})})
        del desk.minutes[at]

    async def _put(self, found: Found) -> None:
        records = [one for place in sorted(found) for one in records_of(place, found[place])]
        if records:
            await self._place.put(records)
            self.written += len(records)

    def _bound(self) -> None:
        waiting = sorted(
            (at, len(kept.sums), place)
            for place, desk in enumerate(self._desks)
            for at, kept in desk.minutes.items()
        )
        left = sum(count for _, count, _ in waiting)
        for at, count, place in waiting:
            if left <= SUMS_MAX:
                return
            kept = self._desks[place].minutes[at]
            kept.sums, kept.unsure = {}, True
            left -= count

    # What others have left behind

    async def _write_left(self, now_us: int) -> None:
        if now_us < self._look_us or (self._stores.alone and self._others_done):
            return
        # Where only this server can do it, what fails is tried again each minute.
        self._look_us = 0 if self._stores.alone else now_us + LOOK_EVERY_US
        failed: CellUnavailableError | None = None
        async with self._reads():
            for server in await self._silent(now_us):
                try:
                    await self._finish(server, now_us)
                except CellUnavailableError as error:
                    failed = error  # It holds up no other one.
        if failed is not None:
            raise failed
        self._others_done = True

    async def _finish(self, server: _Server, now_us: int) -> None:
        found = await self._reader.read(
            server.queues, server.desks, server.complete_to, server.noted
        )
        settled = now_us // US_PER_MINUTE - MINUTES_SETTLED
        over = {
            place: sums
            for place, sums in found.items()
            if self._stores.alone or place.minute < settled
        }
        await self._put(over)
        if len(over) == len(found):
            # Else it goes on sending, and is not heard of: it sees to the rest.
            await self._forget(server.name, [queue.uid for queue in server.queues])

    async def _forget(self, server: bytes, uids: Collection[str]) -> None:
        """Remove what was noted of a server, itself first: what is left then means nothing."""
        for key in [Key(PARTITION, server), *(_queue_key(server, uid) for uid in uids)]:
            await self._stores.control.delete(key)

    async def _silent(self, now_us: int) -> list[_Server]:
        items: list[Item] = []
        after = b""
        while page := await self._stores.control.query(PARTITION, after=after, limit=_PAGE):
            after = page[-1].key.sort
            items += page
        queues: dict[bytes, list[tuple[SentTo, Noted]]] = {}
        for item in items:
            name, between, uid = item.key.sort.partition(_BETWEEN)
            if between:
                queues.setdefault(name, []).append(_read_queue(uid.decode(), item.attributes))
        servers = [
            _read_server(item, queues.get(item.key.sort, ()))
            for item in items
            if _BETWEEN not in item.key.sort and item.key.sort != self._name
        ]
        return [one for one in servers if self._stores.alone or now_us - one.seen_us > SILENT_US]


def writer_of(place: DeskMinute) -> str:
    """The writer whose records those of a desk's minute are."""
    content = place.desk + be64(place.minute)
    return blake2b(content, digest_size=WRITER_BYTES, person=b"sent minute").hexdigest()


def records_of(place: DeskMinute, sums: Mapping[SentKey, CallSums]) -> list[UsageRecord]:
    """What a desk has sent in a minute, as records: the same whoever added it up."""
    writer = writer_of(place)
    return [
        UsageRecord(
            *(SCHEMA, writer, at, place.minute, key.account, key.region, key.queue),
            *("SendMessageBatch" if key.batch else "SendMessage", "2xx", ""),
            *(added.calls, added.units, added.messages, added.size_bytes, 0),
        )
        for at, (key, added) in enumerate(sorted(sums.items()), start=1)
    ]


def _queue_key(server: bytes, uid: str) -> Key:
    return Key(PARTITION, server + _BETWEEN + uid.encode())


def _queue_item(to: SentTo, now_us: int) -> dict[str, Value]:
    item: dict[str, Value] = {
        "v": FORMAT_VERSION,
        "a": to.account,
        "e": to.region,
        "q": to.queue,
        "c": to.cell,
        "x": now_us // 1_000_000 + KEPT_S,
    }
    if to.generations:
        item["l"] = msgspec.json.encode(to.generations).decode()
    return item


def _read_queue(uid: str, item: Attributes) -> tuple[SentTo, Noted]:
    generations: tuple[Generation, ...] = ()
    if "l" in item:
        generations = msgspec.json.decode(str(item["l"]), type=tuple[Generation, ...])
    account, region, name, cell = (str(item[attribute]) for attribute in "aeqc")
    to = SentTo(account, region, name, uid, cell, generations)
    return to, read_noted(to, item)


def _read_server(item: Item, queues: Collection[tuple[SentTo, Noted]]) -> _Server:
    check_version(item.attributes)
    desks = octets(item.attributes, "w")
    return _Server(
        item.key.sort,
        frozenset(desks[at : at + DESK_BYTES] for at in range(0, len(desks), DESK_BYTES)),
        number(item.attributes, "t"),
        number(item.attributes, "c"),
        tuple(to for to, _ in queues),
        {to.uid: noted for to, noted in queues},
    )
