"""A deployment of several cells: tables that have copies of each other's messages.

The registry stays in the first table. Groups are placed by whoever finds that some are not, which
is one sandbox in the life of a deployment, or of an option that names another table.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.groups import read_place
from control_plane.places.items import DYNAMODB, REMOVED, CellRecord
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import PlaceMap, Places
from data_plane.ports import Attributes, Cell, CellUnavailableError, Clock, Entropy, Key, Waits
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.stored.bodies import BodyStore

FRESH_US: Final = 20_000_000
"""A map of this age is read anew before a request: requests and tasks may go by it for as long
again (places/cached.MAP_AGE_US_MAX)."""

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]


class SeveralTables:
    """The cells of a deployment by their names, which are those of the tables."""

    def __init__(  # noqa: PLR0913, PLR0917 - cells, the registry's, and three ports
        self,
        cells: Mapping[str, Cell],
        addresses: Mapping[str, Mapping[str, str]],
        control: Cell,
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
    ) -> None:
        self.cells = cells
        self._addresses = addresses
        self._clock = clock
        self.known = CachedMap(self._read, clock)
        self.places = Places(control, clock, entropy, noted=self.known.note)
        self.placing = GroupPlacing(control, self._count)
        members = Members(cells, self.known, clock, waits)
        self.standard: GroupCells = standard_cells(members)
        self.fifo: GroupCells = fifo_cells(members)

    async def freshen(self) -> None:
        """Read the map, if it is not that of the last seconds.

        Where the registry does not answer an older one serves, as long as it may.
        """
        if not 0 <= self.known.age_us <= FRESH_US:
            await self.known.try_refresh()

    def before(self, answer: Answer) -> Answer:
        """What answers requests by a fresh map."""

        async def answered(request: HttpRequest) -> HttpResponse:
            await self.freshen()
            return await answer(request)

        return answered

    async def ship(self) -> None:
        """Tell the copies what consumers did. Raises CellUnavailableError."""
        for fanout in self.standard.fanouts().values():
            if fanout.lag_us(self._clock.now_us()):
                await fanout.ship()

    async def _read(self) -> PlaceMap:
        found = await self.places.read_all()
        if self.cells.keys() <= found.cells.keys() and found.placements:
            return found
        now_us = self._clock.now_us()
        for name, address in self._addresses.items():
            record = CellRecord(
                name, DYNAMODB, address, since_us=now_us, created_s=now_us // 1_000_000
            )
            await self.places.put_cell(record)
        cells = (await self.places.read_all()).cells.values()
        await self.places.make_missing(
            sorted(record.name for record in cells if record.state != REMOVED)
        )
        return await self.places.read_all()

    def _count(self) -> int:
        known = self.known.cells.values()
        return sum(record.state != REMOVED for record in known) or len(self.cells)


class BodiesOfGroups(Mapping[str, BodyStore]):
    """Bodies apart of all groups: S3 has copies of its own, so there is one place for them.

    Iterating names that place alone.
    """

    def __init__(self, name: str, bodies: BodyStore) -> None:
        self._name = name
        self._bodies = bodies

    def __getitem__(self, name: str) -> BodyStore:
        """The place. Raises KeyError for what is neither it nor a group."""
        if name != self._name and read_place(name) is None:
            raise KeyError(name)
        return self._bodies

    def __iter__(self) -> Iterator[str]:
        return iter((self._name,))

    def __len__(self) -> int:
        return 1


class SegmentsOfGroups:
    """All segments of a deployment, in whichever group or plain cell their queue lies."""

    def __init__(self, several: SeveralTables, plain: Cell) -> None:
        self._several = several
        self._plain = plain

    def now_us(self) -> int:
        """As `Cell.now_us`."""
        return self._plain.now_us()

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """As `Cell.get_many`. What lies in no group is looked for in the plain cell."""
        groups = await self._groups()
        found: dict[Key, Attributes] = {}
        asked: dict[str, list[Key]] = {}
        for key in keys:
            asked.setdefault(groups.get(_uid_of(key), ""), []).append(key)
        for group, wanted in asked.items():
            cell = self._several.fifo[group] if group else self._plain
            found.update(await cell.get_many(wanted, strong=strong))
        return found

    async def _groups(self) -> dict[str, str]:
        """By the uid of each queue its group."""
        await self._several.freshen()
        if not self._several.known.placements:
            raise CellUnavailableError("no placement is known")
        return {
            queue.uid: group
            for group in self._several.known.placements
            for queue in await self._several.placing.queues_of(group)
        }


def _uid_of(key: Key) -> str:
    """That of the queue whose segment or slot it is: the second part of the partition's name."""
    return key.partition.split("|")[1]
