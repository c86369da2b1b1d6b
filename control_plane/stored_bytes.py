"""What accounts, queues and streams have in embedded cells, for quotas: as of a second ago."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from control_plane.definition_room import DefinitionCount
from control_plane.disk_room import OnDisk
from control_plane.registry import Registry
from control_plane.streams import StreamRegistry
from data_plane.core.owned import Owned
from data_plane.embedded.growth import DEFINED, INCARNATION_MARK, STORED
from data_plane.ports import Cell, CellUnavailableError, Item

_PAGE: Final = 500
_DEFINITIONS: Final = "Q|"


@runtime_checkable
class _Listed(Protocol):
    """A cell that names its partitions."""

    def partitions(self, after: str, limit: int) -> list[str]:
        """Those behind `after`. Raises CellUnavailableError."""
        ...

    @property
    def used_bytes(self) -> int:
        """How much it holds."""
        ...


class StoredBytes:
    """Implements `data_plane.frontend.storing.StorageUse` over the cells that there are.

    And `control_plane.definition_room.Defined`. Of what has copies in several cells, what counts
    is the cell that has the most of it.
    """

    def __init__(
        self,
        cells: Callable[[], Mapping[str, Cell]],
        registry: Callable[[], Registry],
        streams: Callable[[], StreamRegistry],
    ) -> None:
        self._cells = cells
        self._registry = registry
        self._streams = streams
        self._accounts: dict[str, str] | None = None
        self._of_each: dict[str, int] = {}
        self._of_accounts: dict[str, int] = {}
        self._definitions: dict[str, DefinitionCount] = {}
        self.capacity_bytes = 0

    def met(self, owned: Owned) -> None:
        """The queue, or stream, is sent to."""
        if self._accounts is not None:
            self._accounts.setdefault(owned.uid, owned.account)

    async def of_one(self, owned: Owned) -> int:
        """What the queue's messages, or the stream's records, take."""
        return self._of_each.get(owned.uid, 0)

    async def of_account(self, owned: Owned) -> int:
        """What all that its account has in queues and streams takes."""
        return self._of_accounts.get(owned.account, 0)

    def definitions_of(self, account: str) -> DefinitionCount:
        """The account's queues and streams; what those and names of deleted ones take."""
        return self._definitions.get(account, DefinitionCount())

    async def measure(self) -> None:
        """Look anew; due every second. Raises CellUnavailableError where no cell answers."""
        if self._accounts is None:
            self._accounts = await self._known_accounts()
        of_each: dict[str, int] = {}
        of_accounts: dict[str, int] = {}
        definitions: dict[str, DefinitionCount] = {}
        capacities: list[int] = []
        failure: CellUnavailableError | None = None
        for cell in self._cells().values():
            if not isinstance(cell, OnDisk) or not isinstance(cell, _Listed):
                continue
            try:
                stored = await _stored(cell)
                defined = await _defined(cell)
                capacities.append(cell.room().takes + cell.used_bytes)
            except CellUnavailableError as error:
                failure = error
                continue
            here: Counter[str] = Counter()
            for uid, size_bytes in stored.items():
                of_each[uid] = max(of_each.get(uid, 0), size_bytes)
                here[self._accounts.get(uid, "")] += size_bytes
            for account, size_bytes in here.items():
                of_accounts[account] = max(of_accounts.get(account, 0), size_bytes)
            for account, count in defined.items():
                definitions[account] = _most(definitions.get(account, count), count)
        if not capacities and failure is not None:
            raise failure
        self._of_each, self._of_accounts = of_each, of_accounts
        self._definitions = definitions
        self.capacity_bytes = min(capacities, default=0)

    async def _known_accounts(self) -> dict[str, str]:
        """The accounts of all queues and streams that there are, by uid. Later ones are met."""
        found: dict[str, str] = {}
        async for stream in self._streams().everywhere():
            found[stream.uid] = stream.account
        for place in {place for cell in self._cells().values() for place in _places(cell)}:
            account, _, region = place.partition("|")
            after = ""
            while names := await self._registry().names(
                account, region, prefix="", after=after, limit=_PAGE
            ):
                after = names[-1]
                for name in names:
                    definition = await self._registry().read(account, region, name)
                    if definition is not None:
                        found[definition.uid] = account
        return found


def _places(cell: Cell) -> set[str]:
    """Accounts and regions that have queues, by the registry's items in an embedded cell."""
    found: set[str] = set()
    if not isinstance(cell, _Listed):
        return found
    after = _DEFINITIONS[0]
    try:
        while names := cell.partitions(after, _PAGE):
            after = names[-1]
            ours = [name for name in names if name.startswith(_DEFINITIONS)]
            found |= {name[len(_DEFINITIONS) :].partition(INCARNATION_MARK)[0] for name in ours}
            if len(ours) < len(names):
                break
    except CellUnavailableError:
        return found  # the others have the same
    return found


async def _stored(cell: Cell) -> dict[str, int]:
    return {item.key.sort.decode(): _number(item, "n") for item in await _counts(cell, STORED)}


async def _defined(cell: Cell) -> dict[str, DefinitionCount]:
    """By account; where what is left of a copy of before counts, too, the most of either."""
    found: dict[str, DefinitionCount] = {}
    for item in await _counts(cell, DEFINED):
        account = item.key.sort.decode().partition(INCARNATION_MARK)[0]
        count = DefinitionCount(_number(item, "q"), _number(item, "n"), _number(item, "s"))
        found[account] = _most(found.get(account, count), count)
    return found


def _most(one: DefinitionCount, other: DefinitionCount) -> DefinitionCount:
    return DefinitionCount(*map(max, one, other))


async def _counts(cell: Cell, partition: str) -> list[Item]:
    found: list[Item] = []
    while page := await cell.query(
        partition, after=found[-1].key.sort if found else b"", limit=_PAGE
    ):
        await asyncio.sleep(0)  # A page takes a millisecond: requests are not to wait for all.
        found += page
    return found


def _number(item: Item, name: str) -> int:
    value = item.attributes.get(name, 0)
    return value if isinstance(value, int) else 0
