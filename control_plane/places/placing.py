"""Which group a new queue goes to, and which queues a group has."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from control_plane.core.definition import Definition
from control_plane.core.stream_definition import StreamDefinition, decode, key_of_stream
from control_plane.places.groups import alone_in, common_group, group_of, place_of, read_place
from control_plane.places.items import (
    PlacedQueue,
    decode_placed_queue,
    encode_placed_queue,
    queues_partition,
)
from data_plane.ports import Cell, Key

_PAGE: Final = 100


async def _nothing(_group: str, _uid: str) -> None:
    return None


class GroupPlacing:
    """Places queues of a registry in groups; `cells` says how many there are to choose from.

    `forget_own` forgets the own group of a queue that is gone. It is what registry.Placing asks
    for. Methods raise CellUnavailableError.
    """

    def __init__(
        self,
        cell: Cell,
        cells: Callable[[], int],
        forget_own: Callable[[str, str], Awaitable[None]] = _nothing,
    ) -> None:
        self._cell = cell
        self._cells = cells
        self._forget_own = forget_own

    def place(self, uid: str, attributes: Mapping[str, str]) -> str:
        """The name of the group, as a definition has it.

        Raises RefusedError (InvalidAttributeValue) where there are too few cells.
        """
        return place_of(uid, attributes, self._cells())

    async def placed(self, definition: Definition | StreamDefinition) -> None:
        """List a queue, or a stream, that is about to be stored."""
        queue = PlacedQueue(
            definition.account,
            definition.region,
            definition.name,
            definition.uid,
            is_stream=isinstance(definition, StreamDefinition),
        )
        await self._cell.put(_key(definition.uid, definition.cell), encode_placed_queue(queue))

    async def shards_of(self, listed: PlacedQueue) -> tuple[int, ...]:
        """The shards that a listed stream has by now, by which its logs are found; () if none."""
        name = listed.account, listed.region, listed.name
        item = await self._cell.get(key_of_stream(*name))
        stream = None if item is None else decode(*name, item)
        if stream is None or stream.uid != listed.uid:
            return ()
        return tuple(shard.number for shard in stream.shards)

    async def gone(self, uid: str, place: str) -> None:
        """Forget a queue of which nothing is left."""
        found = read_place(place)
        if found is not None:
            await self._forget_own(found[0], uid)
        await self._cell.delete(_key(uid, place))

    async def queues_of(self, group: str, alone: Collection[str] = ()) -> list[PlacedQueue]:
        """All queues of the group, deleted ones too, and some that never came into being.

        Those that have left it for a group of their own, `alone`, are listed with it and left out.
        """
        found: list[PlacedQueue] = []
        uid = alone_in(group)
        if uid:
            item = await self._cell.get(_key(uid, common_group(group)))
            return [] if item is None else [decode_placed_queue(uid, item)]
        after = b""
        while page := await self._cell.query(queues_partition(group), after=after, limit=_PAGE):
            after = page[-1].key.sort
            found += [decode_placed_queue(item.key.sort.decode(), item.attributes) for item in page]
        return [queue for queue in found if queue.uid not in alone]

    async def is_empty(self, group: str) -> bool:
        """Whether no queue is listed, alone or not."""
        if alone_in(group):
            return not await self.queues_of(group)
        return not await self._cell.query(queues_partition(group), limit=1)


def _key(uid: str, place: str) -> Key:
    return Key(queues_partition(group_of(place)), uid.encode())
