"""A deployment of several cells: tables that have copies of each other's messages.

The registry stays in the first table. Groups are placed by whoever finds that some are not, which
is one sandbox in the life of a deployment, or of an option that names another table.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from control_plane.places.cached import CachedMap
from control_plane.places.group_bodies import SegmentsOfGroups
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.items import DYNAMODB, REMOVED, CellRecord, Heartbeat
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import PlaceMap, Places
from data_plane.core.deadline import deadline_at_most
from data_plane.ports import Cell, Clock, Entropy, Waits
from data_plane.protocol.http import HttpRequest, HttpResponse

FRESH_US: Final = 20_000_000
"""A map of this age is read anew before a request: requests and tasks may go by it for as long
again (places/cached.MAP_AGE_US_MAX)."""

SHIP_US_MAX: Final = 500_000
NOTE_US_MAX: Final = 500_000
"""An answer waits so long for copies that do not answer, and for the registry to hear of it."""

_NOTE_BYTES: Final = 6

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
        self._note = entropy.random_bytes(_NOTE_BYTES).hex()
        self._is_noted = False
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
        """Tell the copies what consumers did, or the cluster manager that they do not know it.

        For this sandbox may never run again. Raises CellUnavailableError where nobody hears it.
        """
        fanouts = self.standard.fanouts().values()
        with deadline_at_most(self._clock.now_us() + SHIP_US_MAX):
            for fanout in fanouts:
                if fanout.oldest_us() is not None:
                    await fanout.ship()
        untold_us = [us for one in fanouts if (us := one.oldest_us()) is not None]
        if not untold_us and not self._is_noted:
            return
        now_us = self._clock.now_us()
        with deadline_at_most(now_us + NOTE_US_MAX):
            if untold_us:
                self._is_noted = True
                await self.places.beat(Heartbeat(self._note, now_us, {}, told_us=min(untold_us)))
            else:
                await self.places.leave(self._note)
                self._is_noted = False

    def segments(self, plain: Cell) -> SegmentsOfGroups:
        """All segments whose bodies lie in the one place that there is for them."""
        return SegmentsOfGroups(self.known, self.freshen, self.placing, self.fifo, plain)

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
