"""Bodies apart of groups on DynamoDB: one place for all of them, because S3 has its own copies."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from control_plane.places.cached import CachedMap
from control_plane.places.groups import read_place
from control_plane.places.placing import GroupPlacing
from data_plane.ports import Attributes, Cell, CellUnavailableError, Key
from data_plane.stored.bodies import BodyStore


class BodiesOfGroups(Mapping[str, BodyStore]):
    """The place by the names of all groups. Iterating names it once, as the cell `name` does."""

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
    """All segments with bodies in that place, in whichever group or `plain` cell they lie.

    `cells` have groups as chains, or as fan-outs: what is looked for is in all members.
    """

    def __init__(
        self,
        known: CachedMap,
        freshen: Callable[[], Awaitable[object]],
        placing: GroupPlacing,
        cells: Mapping[str, Cell],
        plain: Cell,
    ) -> None:
        self._known = known
        self._freshen = freshen
        self._placing = placing
        self._cells = cells
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
            cell = self._cells[group] if group else self._plain
            found.update(await cell.get_many(wanted, strong=strong))
        return found

    async def _groups(self) -> dict[str, str]:
        """By the uid of each queue its group."""
        await self._freshen()
        if not self._known.placements:
            raise CellUnavailableError("no placement is known")
        return {
            queue.uid: group
            for group, held in self._known.placements.items()
            for queue in await self._placing.queues_of(group, held.alone)
        }


def _uid_of(key: Key) -> str:
    """That of the queue whose segment or slot it is: the second part of the partition's name."""
    return key.partition.split("|")[1]
