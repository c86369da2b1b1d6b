"""A memory cell that counts what its requests would cost on DynamoDB."""

from collections import Counter
from collections.abc import Sequence

from data_plane.memory.cell import MemoryCell
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    Attributes,
    Clock,
    Condition,
    Item,
    Key,
    Tallies,
    Update,
    Written,
    no_tallies,
)
from tests.conformance.capacity_units import query_units, read_units, write_units

REQUEST_OF = {
    "append": "put_item",
    "put": "put_item",
    "update": "update_item",
    "delete": "delete_item",
    "get": "get_item",
    "get_many": "batch_get_item",
    "query": "query",
}
"""DynamoDB's request for each of the port's."""


class CapacityCell(MemoryCell):
    """Takes proposed stamps, as the DynamoDB cell does. `units` counts by DynamoDB's request.

    Counters of messages are not counted: the DynamoDB cell writes them now and then, in sum.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, stamps=False)
        self.units: Counter[str] = Counter()

    def expire(self, keys: Sequence[Key]) -> None:
        """Leave them to their time to live, as DynamoDB does."""

    async def append(self, record: Append) -> Appended:
        appended = await super().append(record)
        self.units["put_item"] += write_units(None, self._stored(appended.key))
        return appended

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        before = self._stored(key)
        written = await super().put(key, attributes, condition, tallies)
        self.units["put_item"] += write_units(before, self._stored(key))
        return written

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        before = self._stored(key)
        written = await super().update(key, change, condition, tallies)
        self.units["update_item"] += write_units(before, self._stored(key))
        return written

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        before = self._stored(key)
        written = await super().delete(key, condition, tallies)
        self.units["delete_item"] += write_units(before, None)
        return written

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        self.units["get_item"] += read_units(self._stored(key))
        return await super().get(key, strong=strong)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        self.units["batch_get_item"] += sum(read_units(self._stored(key)) for key in keys)
        return await super().get_many(keys, strong=strong)

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
        page = await super().query(
            partition, after=after, until=until, limit=limit, reverse=reverse, strong=strong
        )
        self.units["query"] += query_units(page)
        return page

    def _stored(self, key: Key) -> Item | None:
        found = self._find(key)
        return None if found is None else Item(key, found)
