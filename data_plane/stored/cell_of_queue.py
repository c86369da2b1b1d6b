"""Which cell a queue's messages lie in, by the name that its definition has.

Behind one name there may be several: a group of copies, and the groups of queues that have left it
for one of their own (docs/replication.md). What is read or written finds its group by its
partition; whoever asks for the time, or for who decides, asks the queue's own.
"""

from collections.abc import Mapping
from functools import cache
from typing import Protocol, runtime_checkable

from data_plane.ports import Cell


@runtime_checkable
class SeveralGroups(Protocol):
    """A cell behind which queues may have groups of their own."""

    def of_queue(self, uid: str) -> Cell:
        """The cell that has the queue by now."""
        ...


class Placed(Protocol):
    """What lies in a cell: a queue, or a stream."""

    @property
    def uid(self) -> str: ...  # noqa: D102 - see Queue

    @property
    def cell(self) -> str: ...  # noqa: D102


def cell_of(cells: Mapping[str, Cell], queue: Placed) -> Cell:
    """Its cell. Raises KeyError where there is none of this name."""
    cell = cells[queue.cell]
    if _has_several(type(cell)):
        several: SeveralGroups = cell  # type: ignore[assignment]
        return several.of_queue(queue.uid)
    return cell


@cache
def _has_several(kind: type) -> bool:
    return issubclass(kind, SeveralGroups)
