"""The registry: which queues exist, stored in a cell, answered from a bounded cache.

Every write is a compare-and-set on the nonce of the write before it, so that several servers may
change the same queue; a write whose reply was lost recognises itself by its own nonce. The items
are described in docs/storage.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeGuard

from control_plane.core import to_drop
from control_plane.core.definition import (
    FORMAT,
    Definition,
    Tombstone,
    decode,
    encode,
    encode_tombstone,
    queues_partition,
)
from control_plane.core.fifo_generations import partitions_for
from control_plane.core.item_field import UnknownItemFormatError
from control_plane.core.queue_lifecycle import (
    check_name_is_free,
    check_purge,
    check_same_queue,
)
from control_plane.core.replication import wanted_factor
from control_plane.core.stream_definition import StreamDefinition
from control_plane.core.to_drop import ToDrop
from control_plane.definition_room import DefinitionCount, text_bytes
from control_plane.last_known import Asked, LastKnown, Seen
from control_plane.recent_items import FromCell, RecentItems
from data_plane.core.errors import SERVICE_UNAVAILABLE, RefusedError, queue_does_not_exist
from data_plane.core.limits import QUEUE_NAME_CHARS_MAX
from data_plane.core.queue import KINESIS_MARK, Generation, Queue
from data_plane.core.sealing import TokenSeal
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    Cell,
    Clock,
    Condition,
    Entropy,
    Equals,
    Item,
    Key,
)

CACHED_QUEUES_MAX: Final = 10_000
ATTEMPTS_MAX: Final = 8
_READ_TOGETHER_MAX: Final = 100
_NONCE_BYTES: Final = 8
_UID_BYTES: Final = 8

_LAST_OF_KINESIS: Final = KINESIS_MARK.encode() + b"\xff"
"""Behind the names of queues of the Kinesis API, which stand before all others."""

_Name = tuple[str, str, str]
"""Account, region and name of a queue."""

_State = Definition | Tombstone | None


class Placing(Protocol):
    """Where new queues, and streams, go on a service of several cells."""

    def place(self, uid: str, attributes: Mapping[str, str]) -> str:
        """What the definition of a new queue names as its cell; a stream has no attributes.

        Raises RefusedError.
        """
        ...

    async def placed(self, definition: Definition | StreamDefinition) -> None:
        """The definition is about to be stored. Raises CellUnavailableError."""
        ...

    async def gone(self, uid: str, place: str) -> None:
        """Nothing is left of a queue that was placed there. Raises CellUnavailableError."""
        ...


class RoomForDefinitions(Protocol):
    """How much more an account may define.

    Methods raise CellUnavailableError.
    """

    async def take(self, account: str, region: str, more: DefinitionCount) -> None:
        """Count so much more, which is about to be stored.

        Raises RefusedError where they are too much.
        """
        ...

    async def give_back(self, account: str, region: str, less: DefinitionCount) -> None:
        """Count so much less: it is not stored, or not any more."""
        ...


class Registry:
    """Definitions of queues in `cell`; new queues are placed in one of `cells`, or by `placing`.

    Without `sixty_second_rules` a deleted name is free at once, and purges may follow each other.
    From `secret`, the registry's own (32 bytes), follow those of the queues. What requests need is
    read from `recent`, where the cell itself need not be asked. What is added has to have `room`.
    It implements the data plane's `Queues` port. Methods raise CellUnavailableError.
    """

    def __init__(  # noqa: PLR0913 - ports, and what its server decides
        self,
        cell: Cell,
        cells: Sequence[str],
        clock: Clock,
        entropy: Entropy,
        *,
        secret: bytes,
        sixty_second_rules: bool = True,
        recent: RecentItems | None = None,
        placing: Placing | None = None,
        room: RoomForDefinitions | None = None,
    ) -> None:
        if not cells:
            raise ValueError("a registry needs the name of a cell to place queues in")
        self._cell = cell
        self._cells = tuple(cells)
        self._placing = placing
        self._room = room
        self._clock = clock
        self._entropy = entropy
        self._sixty_second_rules = sixty_second_rules
        self._secret = secret
        self._recent = recent or FromCell(cell, clock)
        # Only queues that exist are remembered: one made by another server must be found at once.
        self._queues: LastKnown[_Name, Queue] = LastKnown(
            self._read_queue,
            clock,
            CACHED_QUEUES_MAX,
            absent_us=0,
            refresh_after_us=self._recent.refresh_after_us,
        )

    # Reading

    async def find(self, account: str, region: str, name: str) -> Queue | None:
        """The queue as of at most 5 s ago, or None where there is none.

        While the cell does not answer, or not within a second, the definition known last serves for
        10 minutes.
        """
        return await self._queues.find((account, region, name))

    def peek(self, account: str, region: str, name: str, now_us: int) -> Queue | None:
        """The queue if it is known and fresh: `find` without awaiting anything."""
        return self._queues.peek((account, region, name), now_us)

    def queue(self, definition: Definition) -> Queue:
        """What the data plane must know of a queue of this registry, its secret included."""
        return definition.to_queue(self._secret)

    def token_seal(self, purpose: str) -> TokenSeal:
        """The seal of tokens that belong to no queue, for a purpose of its own."""
        return TokenSeal(self._secret, purpose)

    async def read(self, account: str, region: str, name: str) -> Definition | None:
        """The definition as it is stored now, or None where there is no such queue."""
        state = _decoded(account, region, name, await self._cell.get(_key(account, region, name)))
        return state if isinstance(state, Definition) else None

    async def _read_queue(self, name: _Name) -> Seen[Queue]:
        key = _key(*name)
        recent = await self._recent.recent([key])
        state = _decoded(*name, recent.items.get(key))
        queue = self.queue(state) if isinstance(state, Definition) else None
        return Seen(queue, recent.asked_us)

    async def names(
        self, account: str, region: str, *, prefix: str, after: str, limit: int
    ) -> list[str]:
        """Names of SQS's queues with this prefix, in order, those past `after`, up to `limit`."""
        if len(prefix) > QUEUE_NAME_CHARS_MAX:
            return []  # nor could a cell take a key as long as a caller's text may be
        found: list[str] = []
        position = max(_utf8(after), _before(prefix), _LAST_OF_KINESIS)
        until = _utf8(prefix) + b"\xff"
        while len(found) < limit:
            items = await self._cell.query(
                queues_partition(account, region), after=position, until=until, limit=limit
            )
            if not items:
                break
            position = items[-1].key.sort
            for item in items:
                name = item.key.sort.decode()
                if isinstance(_decoded(account, region, name, item.attributes), Definition):
                    found.append(name)
        return found[:limit]

    async def dead_letter_sources(
        self, account: str, region: str, name: str, *, after: str = "", limit: int
    ) -> list[str]:
        """Names of the queues that have this one as their dead-letter queue.

        In order, those past `after`, at most `limit`. Only definitions count; the items that lead
        to them may be too many (docs/storage.md).
        """
        found: list[str] = []
        position = _utf8(after)
        while len(found) < limit:
            items = await self._cell.query(
                _sources_partition(account, region, name),
                after=position,
                limit=min(limit - len(found), _READ_TOGETHER_MAX),
            )
            if not items:
                break
            position = items[-1].key.sort
            keys = [_key(account, region, _source_name(item)) for item in items]
            definitions = await self._cell.get_many(keys)
            for key in keys:
                source = key.sort.decode()
                state = _decoded(account, region, source, definitions.get(key))
                if isinstance(state, Definition) and state.dead_letter_queue == name:
                    found.append(source)
        return found

    async def dropped(self, limit: int, after: bytes = b"") -> list[ToDrop]:
        """Queues whose deletion was begun and not swept yet, the oldest first.

        Those behind the one whose key ends in `after`.
        """
        items = await self._cell.query(to_drop.DELETED, after=after, limit=limit)
        return [to_drop.read(item) for item in items]

    async def is_there(self, queue: ToDrop) -> bool:
        """Whether the queue, or the stream, exists: its deletion was cut off at the start."""
        definition = await self._cell.get(to_drop.definition_key(queue))
        return definition is not None and (definition.get("k"), definition.get("u")) in {
            (kind, queue.uid) for kind in to_drop.LIVE
        }

    async def swept(self, queue: ToDrop) -> None:
        """Forget the deleted queue but for its name: nothing else of it is left."""
        if self._placing is not None:
            await self._placing.gone(queue.uid, queue.cell)
        if not queue.is_stream:
            await self._cell.put(*to_drop.name_of(queue, self._clock.now_us()))
        await self._cell.delete(queue.key)

    async def purges(self, limit: int, after: bytes = b"") -> list[ToDrop]:
        """Purges of which not all was dropped, and raised retentions; as `dropped`."""
        items = await self._cell.query(to_drop.PURGED, after=after, limit=limit)
        return [to_drop.read(item) for item in items]

    async def purge_dropped(self, purge: ToDrop) -> None:
        """Forget the purge, or the raised retention: nothing is left to do."""
        await self._cell.delete(purge.key)

    # Changing

    def define(  # noqa: PLR0913 - what a request says of a new queue
        self,
        *,
        account: str,
        region: str,
        name: str,
        attributes: dict[str, str],
        tags: dict[str, str],
        now_us: int,
    ) -> Definition:
        """A definition with a new uid, placed in a cell; nothing is stored.

        Raises RefusedError (InvalidAttributeValue) where there are too few cells for its copies.
        """
        uid = self._entropy.random_bytes(_UID_BYTES).hex()
        now_s = now_us // 1_000_000
        return Definition(
            account=account,
            region=region,
            name=name,
            uid=uid,
            cell=self._place(uid, attributes),
            created_s=now_s,
            modified_s=now_s,
            attributes=attributes,
            tags=tags,
            generations=(Generation(0, partitions_for(attributes), now_s),),
        )

    def _place(self, uid: str, attributes: Mapping[str, str]) -> str:
        if self._placing is not None:
            return self._placing.place(uid, attributes)
        wanted_factor(attributes, 1)  # A plain cell has the only copy.
        return self._cells[int(uid, 16) % len(self._cells)]

    async def create(self, wanted: Definition, given: dict[str, str], now_us: int) -> Definition:
        """Store the new queue, or answer the existing one if it has the `given` attributes.

        Raises RefusedError: QueueNameExists, QueueDeletedRecently.
        """

        def create(state: _State) -> Definition | None:
            if isinstance(state, Definition):
                check_same_queue(state, given)
                return None
            if state is None:
                return wanted
            if self._sixty_second_rules and not wanted.is_kinesis:
                check_name_is_free(state, now_us)
            return replace(wanted, version=state.version + 1)

        stored = await self._compare_and_set(wanted.account, wanted.region, wanted.name, create)
        assert isinstance(stored, Definition)  # noqa: S101 - `create` leaves nothing else
        return stored

    async def change(self, queue: Queue, edit: Callable[[Definition], Definition]) -> Definition:
        """Replace the queue's definition by what `edit` makes of it; a no-op is not written.

        `edit` may run several times, and its RefusedError goes to the caller. Raises RefusedError
        (QueueDoesNotExist) if the queue is not there any more.
        """

        def changed(state: _State) -> Definition | None:
            if not isinstance(state, Definition) or state.uid != queue.uid:
                raise queue_does_not_exist()
            edited = edit(state)
            return None if edited == state else replace(edited, version=state.version + 1)

        stored = await self._compare_and_set(queue.account, queue.region, queue.name, changed)
        assert isinstance(stored, Definition)  # noqa: S101 - `changed` leaves nothing else
        return stored

    async def check_purge(self, queue: Queue, now_us: int) -> None:
        """Raise RefusedError (PurgeQueueInProgress) if the queue must not be purged yet."""
        definition = await self.read(queue.account, queue.region, queue.name)
        if definition is None or definition.uid != queue.uid:
            raise queue_does_not_exist()
        if self._sixty_second_rules:
            check_purge(definition, now_us)

    async def purge(self, queue: Queue, stamp_us: int) -> None:
        """Make this the queue's purge stamp, and leave what is purged to the sweep.

        The sweep's item comes first: what is dropped goes by the definition's stamp, too, so a
        crash between the two writes neither drops a message nor leaves any behind. Raises
        RefusedError (QueueDoesNotExist).
        """
        now_us = self._clock.now_us()
        await self._cell.put(
            to_drop.key_of(to_drop.PURGED, queue.uid, now_us),
            to_drop.purged_item(queue, stamp_us, now_us),
        )
        await self.change(
            queue, lambda known: replace(known, purged_us=max(known.purged_us, stamp_us))
        )

    async def restamp_later(self, queue: Queue) -> None:
        """Leave what is sent by the definition of before a raised retention to the sweep."""
        key = to_drop.key_of(to_drop.PURGED, queue.uid, now_us := self._clock.now_us())
        await self._cell.put(key, to_drop.raised_item(queue, now_us))

    async def delete(self, queue: Queue, now_us: int) -> None:
        """Leave a tombstone in the queue's place, and its uid to the sweep of messages.

        The sweep's item comes first: it does nothing while the queue is there, so a crash between
        the two writes neither loses a queue nor leaves messages behind. Raises
        RefusedError (QueueDoesNotExist).
        """
        dropped = to_drop.key_of(to_drop.DELETED, queue.uid, now_us)
        await self._cell.put(dropped, to_drop.item_of(queue))
        last = queue

        def deleted(state: _State) -> Tombstone:
            nonlocal last
            if not isinstance(state, Definition) or state.uid != queue.uid:
                raise queue_does_not_exist()
            last = self.queue(state)
            return Tombstone(uid=state.uid, deleted_us=now_us, version=state.version + 1)

        await self._compare_and_set(queue.account, queue.region, queue.name, deleted)
        if queue.fifo and last.generations != queue.generations:  # Somebody has begun another one.
            await self._cell.put(dropped, to_drop.item_of(last))

    async def _compare_and_set(
        self, account: str, region: str, name: str, decide: Callable[[_State], _State]
    ) -> _State:
        """Store what `decide` makes of the stored state (None: leave it), and answer the result.

        Raises RefusedError (ServiceUnavailable) when others win the race every time.
        """
        key = _key(account, region, name)
        nonce, asked = self._entropy.random_bytes(_NONCE_BYTES), self._queues.asking()
        occupant = await self._cell.get(key)
        for _ in range(ATTEMPTS_MAX):
            state = _decoded(account, region, name, occupant)
            wanted = decide(state)
            if wanted is None:
                self._note(account, region, name, state, asked)
                return state
            stored = replace(wanted, nonce=nonce)
            item = encode(stored) if isinstance(stored, Definition) else encode_tombstone(stored)
            queues = isinstance(stored, Definition) - isinstance(state, Definition)
            grown_bytes = _definition_bytes(stored, item) - _definition_bytes(state, occupant)
            if grown_bytes > 0 and self._room is not None:
                await self._room.take(account, region, DefinitionCount(queues, grown_bytes))
            await self._announce_source(stored)
            await self._announce_place(state, stored)
            asked = self._queues.asking()
            written = await self._cell.put(key, item, _unchanged_since(state))
            if written.applied or (written.before or {}).get("w") == nonce:
                self._note(account, region, name, stored, asked)
                await self._forget_source(state, stored)
                if grown_bytes < 0 and self._room is not None:
                    less = DefinitionCount(-queues, -grown_bytes)
                    await self._room.give_back(account, region, less)
                return stored
            if grown_bytes > 0 and self._room is not None:
                await self._room.give_back(account, region, DefinitionCount(queues, grown_bytes))
            occupant = written.before
        raise RefusedError(SERVICE_UNAVAILABLE, f"Too many concurrent changes of queue {name}.")

    def _note(self, account: str, region: str, name: str, state: _State, asked: Asked) -> None:
        """Own changes show at once; what others stored before the answer came is read anew."""
        queue = self.queue(state) if isinstance(state, Definition) else None
        self._queues.changed((account, region, name), queue, asked)

    async def _announce_place(self, before: _State, state: _State) -> None:
        """Lead from its placement group to a new queue."""
        if self._placing is None or isinstance(before, Definition):
            return
        if isinstance(state, Definition):
            await self._placing.placed(state)

    async def _announce_source(self, state: _State) -> None:
        """Lead from the dead-letter queue to the definition that is about to be stored."""
        if _has_dead_letter_queue(state):
            await self._cell.put(_source_key(state), {"v": FORMAT, "w": state.nonce})

    async def _forget_source(self, before: _State, after: _State) -> None:
        """Remove what led to a definition that is replaced, unless it was put for another write."""
        if not _has_dead_letter_queue(before):
            return
        if isinstance(after, Definition) and after.dead_letter_queue == before.dead_letter_queue:
            return
        await self._cell.delete(_source_key(before), ((Equals("w", before.nonce),),))


def _has_dead_letter_queue(state: _State) -> TypeGuard[Definition]:
    return isinstance(state, Definition) and state.dead_letter_queue != ""


def _sources_partition(account: str, region: str, dead_letter_queue: str) -> str:
    return f"D|{account}|{region}|{dead_letter_queue}"


def _source_key(source: Definition) -> Key:
    partition = _sources_partition(source.account, source.region, source.dead_letter_queue)
    return Key(partition, source.name.encode())


def _source_name(item: Item) -> str:
    if item.attributes.get("v") != FORMAT:
        raise UnknownItemFormatError(f"source of format {item.attributes.get('v')!r}")
    return item.key.sort.decode()


def _key(account: str, region: str, name: str) -> Key:
    return Key(queues_partition(account, region), name.encode())


def _definition_bytes(state: _State, item: Attributes | None) -> int:
    """What may be long of a definition; 0 where this is none."""
    if not isinstance(state, Definition) or item is None:
        return 0
    return text_bytes(item)


def _decoded(account: str, region: str, name: str, item: Attributes | None) -> _State:
    return None if item is None else decode(account, region, name, item)


def _unchanged_since(state: _State) -> Condition:
    return ITEM_ABSENT if state is None else ((Equals("w", state.nonce),),)


def _before(prefix: str) -> bytes:
    """The greatest sort key below all names with this prefix (names have 80 bytes at most)."""
    text = _utf8(prefix)
    if not text or text[-1] == 0:
        return text[:-1]
    return text[:-1] + bytes([text[-1] - 1]) + b"\xff" * QUEUE_NAME_CHARS_MAX


def _utf8(text: str) -> bytes:
    """A caller's text may hold half a surrogate pair, which no queue's name does."""
    return text.encode("utf-8", "surrogatepass")
