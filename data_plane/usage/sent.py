"""Records of sends to cells without a ledger, whatever server is cut off.

What one desk has sent in one minute of its stamps is a writer of its own. Its records follow from
what is stored: so whoever adds that up, the server from memory or another one by reading, makes the
same records, and they count once. See docs/storage.md, "Sends of cells without a ledger".
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from data_plane.core.queue import Generation, Queue
from data_plane.ports import Attributes, Cell, CellUnavailableError, Entropy, Item, Key, Value
from data_plane.stored.keys import be64
from data_plane.stored.lease import WRITER_BYTES as DESK_BYTES
from data_plane.stored.ledger import CallSums
from data_plane.stored.segment import FORMAT_VERSION, check_version, number, octets
from data_plane.stored.sent_minutes import Minute, SentKey, SentMinutes, SentTo, sent_to
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import SCHEMA, US_PER_MINUTE, WRITER_BYTES, UsageRecord
from data_plane.usage.sent_reading import DeskMinute, Found, SentReader

PARTITION: Final = "M|sends"
MINUTES_SETTLED: Final = 45
"""After so many minutes no write of a minute can arrive any more that would count."""

SILENT_US: Final = (MINUTES_SETTLED + 5) * US_PER_MINUTE
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
    """Another server: its desks, when it was last heard of, and where its records end."""

    name: bytes
    desks: frozenset[bytes]
    seen_us: int
    complete_to: int
    queues: tuple[SentTo, ...]


class SentRecords:
    """Makes records of what a server's desks have sent, and of what others have left behind."""

    def __init__(
        self,
        stores: SentStores,
        desks: Sequence[SentMinutes],
        place: UsagePlace,
        entropy: Entropy,
    ) -> None:
        self._stores = stores
        self._desks = desks
        self._place = place
        self._reader = SentReader(stores.cells, stores.fifo_cells)
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
        if known == to and now_us - noted_us < ANNOUNCED_FOR_US:
            return
        if now_us < self._retry_us:
            return
        try:
            if not self._put_us:
                await self._tell(now_us)
            key = Key(PARTITION, self._name + _BETWEEN + queue.uid.encode())
            await self._stores.control.put(key, _queue_item(to, now_us))
        except CellUnavailableError:
            self.failures += 1
            self._retry_us = now_us + RETRY_US
            return
        self._announced[queue.uid] = to, now_us

    def _cell_of(self, queue: Queue) -> Cell:
        return (self._stores.fifo_cells if queue.fifo else self._stores.cells)[queue.cell]

    async def _tell(self, now_us: int) -> None:
        item: Attributes = {
            "v": FORMAT_VERSION,
            "w": b"".join(desk.desk for desk in self._desks),
            "t": now_us,
            "c": self._complete_to(now_us // US_PER_MINUTE),
            "x": now_us // 1_000_000 + KEPT_S,
        }
        await self._stores.control.put(Key(PARTITION, self._name), item)
        self._put_us = now_us

    # Each minute

    async def write(self) -> None:
        """Store what was sent in minutes that are over.

        Raises CellUnavailableError; what was not stored then waits.
        """
        now_us = self._stores.control.now_us()
        minute = now_us // US_PER_MINUTE
        try:
            await self._write_own(minute - _STILL_OPEN + 1, settled=minute - MINUTES_SETTLED)
        finally:
            self._bound()
        if self._put_us:
            await self._tell(now_us)
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
            elif at < settled:
                await self._read_own(desk, at, kept)

    async def _read_own(self, desk: SentMinutes, at: int, kept: Minute) -> None:
        """Read what nobody knows of a minute; what has not arrived by now never will."""
        found = await self._reader.read(kept.queues.values(), {desk.desk}, at)
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
        for server in await self._silent(now_us):
            await self._finish(server, now_us)
        self._others_done = True

    async def _finish(self, server: _Server, now_us: int) -> None:
        found = await self._reader.read(server.queues, server.desks, server.complete_to)
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
        names = [server, *(server + _BETWEEN + uid.encode() for uid in uids)]
        for name in names:
            await self._stores.control.delete(Key(PARTITION, name))

    async def _silent(self, now_us: int) -> list[_Server]:
        items: list[Item] = []
        after = b""
        while page := await self._stores.control.query(PARTITION, after=after, limit=_PAGE):
            after = page[-1].key.sort
            items += page
        queues: dict[bytes, list[SentTo]] = {}
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


def _queue_item(to: SentTo, now_us: int) -> Attributes:
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


def _read_queue(uid: str, item: Attributes) -> SentTo:
    check_version(item)
    generations: tuple[Generation, ...] = ()
    if "l" in item:
        generations = msgspec.json.decode(str(item["l"]), type=tuple[Generation, ...])
    account, region, name, cell = (str(item[attribute]) for attribute in "aeqc")
    return SentTo(account, region, name, uid, cell, generations)


def _read_server(item: Item, queues: Collection[SentTo]) -> _Server:
    check_version(item.attributes)
    desks = octets(item.attributes, "w")
    return _Server(
        item.key.sort,
        frozenset(desks[at : at + DESK_BYTES] for at in range(0, len(desks), DESK_BYTES)),
        number(item.attributes, "t"),
        number(item.attributes, "c"),
        tuple(queues),
    )
