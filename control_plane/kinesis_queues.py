"""Queues of the Kinesis API: their definitions lie among those of queues, apart by their names.

An item leads from a queue's id to its name, and one from its stream to both (docs/storage.md,
"Queues of the Kinesis API"). Methods raise CellUnavailableError.
"""

import base64
from collections.abc import Sequence
from typing import Final, Protocol

from control_plane.core.definition import (
    FORMAT,
    Definition,
    decode,
    queues_partition,
)
from control_plane.core.kinesis_queue import shown_name
from control_plane.core.stream_definition import StreamDefinition
from control_plane.last_known import LastKnown, Seen
from control_plane.registry import Registry
from data_plane.core.errors import RESOURCE_IN_USE, RefusedError
from data_plane.core.queue import KINESIS_ID, KINESIS_MARK, Queue
from data_plane.core.stream import Stream
from data_plane.ports import Attributes, Cell, Clock, Entropy, Key
from data_plane.protocol.operation import Permission
from data_plane.stored.cell_of_queue import Placed

ID_CHARS: Final = 26
CACHED_IDS_MAX: Final = 10_000

_ID_BYTES: Final = 16
_PAGE: Final = 100
_Id = tuple[str, str, str]
"""Account, region and id of a queue."""


class RecordReaders(Protocol):
    """What the operations need of the engine that reads records for queues."""

    def starting_us(self, stream: Placed, position: str, time_us: int) -> int:
        """The first purge stamp of a queue that is to read this stream from a position on."""
        ...

    def dropped(self, queue: Queue) -> None:
        """The queue was deleted: end its long polls, forget what is cached."""
        ...


class KinesisQueues:
    """Those of a registry, in its cell."""

    def __init__(self, cell: Cell, registry: Registry, clock: Clock, entropy: Entropy) -> None:
        self.registry = registry
        self._cell = cell
        self._clock = clock
        self._entropy = entropy
        # An id leads to one name for ever.
        self._names: LastKnown[_Id, str] = LastKnown(
            self._read_name, clock, CACHED_IDS_MAX, absent_us=0
        )

    def new_id(self) -> str:
        """An id that no queue has: 26 letters and digits, which a host's name may have."""
        random = self._entropy.random_bytes(_ID_BYTES)
        return base64.b32encode(random).decode().rstrip("=").lower()

    async def find(self, account: str, region: str, queue_id: str) -> Queue | None:
        """The queue as of at most 5 s ago, or None where there is none."""
        name = await self._names.find((account, region, queue_id))
        queue = await self.registry.find(account, region, name) if name is not None else None
        if queue is None or queue.attributes.get(KINESIS_ID) != queue_id:
            return None
        return queue

    async def read(self, queue: Queue) -> Definition | None:
        """Its definition as it is stored now, or None where it is no more."""
        found = await self.registry.read(queue.account, queue.region, queue.name)
        return found if found is not None and found.uid == queue.uid else None

    async def policy_of(self, permission: Permission) -> str:
        """The resource policy of the queue that a permission is about; "" for none."""
        queue_id = permission.name.rpartition("/")[2]
        if not is_id(queue_id):
            return ""
        queue = await self.find(permission.account, permission.region, queue_id)
        return queue.attributes.get("Policy", "") if queue is not None else ""

    async def _read_name(self, queue: _Id) -> Seen[str]:
        account, region, queue_id = queue
        asked_us = self._clock.now_us()
        item = await self._cell.get(Key(_leads(account, region), queue_id.encode()))
        return Seen(None if item is None else str(item["n"]), asked_us)

    async def page(self, account: str, region: str, *, after: str, limit: int) -> list[Definition]:
        """Queues in order of their names, those past `after`, at most `limit`."""
        found: list[Definition] = []
        position = (after or KINESIS_MARK).encode()
        until = KINESIS_MARK.encode() + b"\xff"
        while len(found) < limit:
            items = await self._cell.query(
                queues_partition(account, region),
                after=position,
                until=until,
                limit=min(limit - len(found), _PAGE),
            )
            if not items:
                break
            position = items[-1].key.sort
            for item in items:
                state = decode(account, region, item.key.sort.decode(), item.attributes)
                if isinstance(state, Definition):
                    found.append(state)
        return found

    async def of_stream(self, account: str, region: str, uid: str) -> Sequence[Definition]:
        """The queues that read the stream with this uid."""
        found: list[Definition] = []
        after = b""
        while items := await self._cell.query(
            _leads(account, region, uid), after=after, limit=_PAGE
        ):
            after = items[-1].key.sort
            for item in items:
                state = await self.registry.read(account, region, str(item.attributes["n"]))
                is_it = state is not None and _id_of(state) == item.key.sort.decode()
                if state is not None and is_it:
                    found.append(state)
        return found

    async def create(self, wanted: Definition, now_us: int) -> Definition:
        """Store a new queue. Raises RefusedError (ResourceInUse) where its name is taken.

        What leads to it comes first: one too many leads to nothing.
        """
        lead: Attributes = {"v": FORMAT, "n": wanted.name}
        for key in _leads_to(wanted):
            await self._cell.put(key, lead)
        stored = await self.registry.create(wanted, {}, now_us)
        if stored.uid != wanted.uid:
            await self._forget(wanted)
            raise RefusedError(
                RESOURCE_IN_USE,
                f"Queue {shown_name(wanted)} under account {wanted.account} already exists.",
            )
        return stored

    async def delete(self, queue: Queue, now_us: int) -> None:
        """Remove it; its states are left to the sweep.

        Raises RefusedError (QueueDoesNotExist).
        """
        definition = await self.read(queue)
        await self.registry.delete(queue, now_us)
        if definition is not None:
            await self._forget(definition)

    async def _forget(self, queue: Definition) -> None:
        for key in _leads_to(queue):
            await self._cell.delete(key)


async def readers_of(
    queues: KinesisQueues | None, stream: Stream | StreamDefinition
) -> Sequence[Definition]:
    """The queues that read a stream; where there are no queues, none."""
    if queues is None:
        return ()
    return await queues.of_stream(stream.account, stream.region, stream.uid)


def is_id(text: str) -> bool:
    """Whether a queue may have this id."""
    return len(text) == ID_CHARS and text.isascii() and text.isalnum() and text == text.lower()


def _id_of(queue: Definition) -> str:
    return queue.attributes.get(KINESIS_ID, "")


def _leads(account: str, region: str, stream_uid: str = "") -> str:
    """Where lies what leads to queues from their ids, or from their stream."""
    return f"D|{account}|{region}|{KINESIS_MARK}{stream_uid}"


def _leads_to(queue: Definition) -> tuple[Key, Key]:
    sort = _id_of(queue).encode()
    return (
        Key(_leads(queue.account, queue.region), sort),
        Key(_leads(queue.account, queue.region, queue.stream_uid), sort),
    )
