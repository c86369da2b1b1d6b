"""Which group a new queue goes to, and which queues a group has."""

from collections.abc import Callable, Mapping
from typing import Final

from control_plane.core.definition import Definition
from control_plane.places.groups import place_of, read_place
from control_plane.places.items import (
    PlacedQueue,
    decode_placed_queue,
    encode_placed_queue,
    queues_partition,
)
from data_plane.ports import Cell, Key

_PAGE: Final = 100


class GroupPlacing:
    """Places queues of a registry in groups; `cells` says how many there are to choose from.

    It is what registry.Placing asks for. Methods raise CellUnavailableError.
    """

    def __init__(self, cell: Cell, cells: Callable[[], int]) -> None:
        self._cell = cell
        self._cells = cells

    def place(self, uid: str, attributes: Mapping[str, str]) -> str:
        """The name of the group, as a definition has it.

        Raises RefusedError (InvalidAttributeValue) where there are too few cells.
        """
        return place_of(uid, attributes, self._cells())

    async def placed(self, definition: Definition) -> None:
        """List a queue that is about to be stored."""
        queue = PlacedQueue(definition.account, definition.region, definition.name, definition.uid)
        await self._cell.put(_key(definition.uid, definition.cell), encode_placed_queue(queue))

    async def gone(self, uid: str, place: str) -> None:
        """Forget a queue of which nothing is left."""
        await self._cell.delete(_key(uid, place))

    async def queues_of(self, group: str) -> list[PlacedQueue]:
        """All queues of the group, deleted ones too, and some that never came into being."""
        found: list[PlacedQueue] = []
        after = b""
        while page := await self._cell.query(queues_partition(group), after=after, limit=_PAGE):
            after = page[-1].key.sort
            found += [decode_placed_queue(item.key.sort.decode(), item.attributes) for item in page]
        return found


def _key(uid: str, place: str) -> Key:
    found = read_place(place)
    group = place if found is None else found[0]
    return Key(queues_partition(group), uid.encode())
