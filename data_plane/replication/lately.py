"""What a group's cells tell without being asked: their time, and whether they have room."""

from collections.abc import Callable, Mapping

from data_plane.core.eras import Eras
from data_plane.ports import SETTLE_US, Cell, CellUnavailableError
from data_plane.replication.placement import Member, Placement


class Lately:
    """By the last map, however old it is: whatever is then asked goes by one that is not.

    All raise CellUnavailableError for a cell that is not known here.
    """

    def __init__(self, latest: Callable[[], Placement], cells: Mapping[str, Cell]) -> None:
        self._latest = latest
        self._known_cells = cells

    @property
    def eras(self) -> Eras:
        """Those of the first member's, which it goes by."""
        return self._cell_of(self._latest().members[0]).eras

    def has_room(self, size_bytes: int) -> bool:
        """Whether all members have."""
        return all(self._cell_of(one).has_room(size_bytes) for one in self._latest().members)

    def now_us(self) -> int:
        """The present of the member that decides."""
        return self._cell_of(self._latest().members[0]).now_us()

    def _settled_us(self, member: Member) -> int:
        cell = self._cell_of(member)
        return cell.now_us() - SETTLE_US if cell.chooses_stamps else cell.settled_us()

    def _cell_of(self, member: Member) -> Cell:
        cell = self._known_cells.get(member.cell)
        if cell is None:
            raise CellUnavailableError(f"{self._latest().group} lies in {member.cell}, not known")
        return cell
