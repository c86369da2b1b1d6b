"""A deployment of several cells: tables that have copies of each other's messages.

The registry stays in the first table. Groups are placed by whoever finds that some are not, which
is one sandbox in the life of a deployment, or of an option that names another table.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from control_plane.core.identity import Standing
from control_plane.places.cached import CachedMap
from control_plane.places.group_bodies import SegmentsOfGroups
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.items import DYNAMODB, REMOVED, CellRecord, Heartbeat, StoredPlacement
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import PlaceMap, Places
from control_plane.places.tables import Tables, TablesRefusedError
from data_plane.core.deadline import deadline_at_most
from data_plane.ports import Cell, Clock, Entropy, Waits
from data_plane.protocol.http import HttpRequest, HttpResponse

FRESH_US: Final = 20_000_000
"""A map of this age is read anew before a request: requests and tasks may go by it for as long
again (places/cached.MAP_AGE_US_MAX)."""

SHIP_US_MAX: Final = 500_000
NOTE_US_MAX: Final = 500_000
"""An answer waits so long for copies that do not answer, and for the registry to hear of it."""

ADVANCED_US: Final = 3_600_000_000
"""So often tables get a new incarnation: what is put back from before the last one is stale."""

_NOTE_BYTES: Final = 6

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]


class SeveralTables:
    """The cells of a deployment by their names, which are those of the tables.

    The `first` one has the registry.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - cells, the registry's, and three ports
        self,
        first: str,
        cells: Mapping[str, Cell],
        addresses: Mapping[str, Mapping[str, str]],
        control: Cell,
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
    ) -> None:
        self.cells = cells
        self._addresses = addresses
        self._entropy = entropy
        self._note = self._new_note()
        self._is_noted = False
        self._clock = clock
        self._tables = Tables(first, control, clock, entropy, waits)
        self._further = {name: cell for name, cell in cells.items() if name != first}
        self.known = CachedMap(self._read, clock)
        self.places = Places(control, clock, entropy, noted=self.known.note)
        self.placing = GroupPlacing(control, self._count, self.places.forget_own)
        members = Members(cells, self.known, clock, waits)
        self.standard: GroupCells = standard_cells(members)
        self.fifo: GroupCells = fifo_cells(members)

    def _new_note(self) -> str:
        return self._entropy.random_bytes(_NOTE_BYTES).hex()

    async def judge(self) -> Mapping[str, Cell]:
        """Look whether the further tables are those of this service, as they were last.

        Answers those that answer. One that is empty and serves nothing was made anew: it may be
        filled from the others. A server fills all that have lost something; nobody does here.
        Raises TablesRefusedError, CellUnavailableError, UnknownItemFormatError.
        """
        verdict = await self._tables.judge(self._further)
        made = [name for name in verdict.of(Standing.EMPTY) if not await self._misses(name)]
        for name in verdict.lost:
            if name not in made:
                raise TablesRefusedError(
                    f"{verdict.cells[name]}: start a server on all tables once, which fills it"
                    " from the others"
                )
        if made:  # before it serves: then it is not empty any more
            await self._tables.advance({name: self._further[name] for name in made})
        failed = verdict.of(Standing.FAILED)
        return {name: cell for name, cell in self._further.items() if name not in failed}

    async def advance(self) -> None:
        """Let what is put back from before now be stale from now on, each hour. Raises as judge.

        Tables that serve nothing, as they were lost, are looked at each time.
        """
        placed = self.known.placements.values()
        all_serve = not placed or all(_has_copies(placed, name) for name in self._further)
        if all_serve and self._clock.now_us() < self._tables.known.latest + ADVANCED_US:
            return
        answering = await self.judge()  # else one that was put back would pass for current
        if self._clock.now_us() >= self._tables.known.latest + ADVANCED_US:
            await self._tables.advance(answering)

    async def _misses(self, name: str) -> bool:
        """Whether a table is relied on for what it had: queues, or copies of some."""
        placements = (await self.places.read_all()).placements
        if _has_copies(placements.values(), name):
            return True
        for group, held in placements.items():
            has = any(member.cell == name for member in held.placement.members)
            if has and await self.placing.queues_of(group, held.alone):
                return True
        return False

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

    def _untold_us(self) -> dict[str, int]:
        """The groups whose copies are to be told of something, and since when."""
        fanouts = self.standard.fanouts().items()
        return {name: us for name, one in fanouts if (us := one.oldest_us()) is not None}

    async def ship(self) -> None:
        """Tell the copies what consumers did, or the cluster manager that they do not know it.

        For this sandbox may never run again. Raises CellUnavailableError where nobody hears it.
        """
        asked: set[str] = set()
        with deadline_at_most(self._clock.now_us() + SHIP_US_MAX):
            # What a queue's own group is handed by another one on the way is told, too.
            while waiting := self._untold_us().keys() - asked:
                asked |= waiting
                for name in waiting:
                    await self.standard.fanouts()[name].ship()
        untold_us = self._untold_us().values()
        forgetting = [
            one for one in self.standard.fanouts().values() if one.forgotten_since_us is not None
        ]
        if not untold_us and not self._is_noted and not forgetting:
            return
        now_us = self._clock.now_us()
        with deadline_at_most(now_us + NOTE_US_MAX):
            for fanout in forgetting:  # what this sandbox will never tell, with a note of its own
                since_us = fanout.forgotten_since_us
                await self.places.beat(Heartbeat(self._new_note(), now_us, {}, told_us=since_us))
                fanout.forgotten_since_us = None
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


def _has_copies(placed: Iterable[StoredPlacement], name: str) -> bool:
    """Whether a table serves some group of which there are other copies."""
    return any(
        member.full
        for held in placed
        for member in held.placement.members
        if held.factor > 1 and member.cell == name
    )
