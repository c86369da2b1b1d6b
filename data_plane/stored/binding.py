"""Which blob store is a cell's: each cell has one of its own, and no other is taken for it.

A sweep takes a body whose segment it does not find for an orphan. So the place of a cell's bodies
is named by an id that no other cell has, and a place that has lost them is noticed at the start.
"""

from typing import Final, NamedTuple

from data_plane.ports import ITEM_ABSENT, Attributes, Blobs, Cell, Entropy, Equals, Key, Update
from data_plane.stored.segment import FORMAT_VERSION, check_version

ITEM: Final = Key("M|blobs", b"\0")
MARK: Final = "cell"
_ID_BYTES: Final = 8


class MissingBlobsError(Exception):
    """This place does not hold the bodies of the cell."""


class Binding(NamedTuple):
    """What names the place of a cell's bodies, and whether the place is known to bear the mark."""

    id: str
    marked: bool


async def read_binding(cell: Cell, entropy: Entropy) -> Binding:
    """The cell's binding, with an id of 16 hexadecimal digits that is chosen the first time.

    Raises CellUnavailableError, UnknownFormatError.
    """
    item = await cell.get(ITEM)
    if item is None:
        new: Attributes = {"v": FORMAT_VERSION, "i": entropy.random_bytes(_ID_BYTES).hex(), "r": 0}
        written = await cell.put(ITEM, new, ITEM_ABSENT)
        item = new if written.before is None else written.before
    check_version(item)
    return Binding(str(item["i"]), bool(item["r"]))


async def confirm(cell: Cell, blobs: Blobs, binding: Binding) -> None:
    """See that the place bears the cell's mark; a new one gets it.

    Raises MissingBlobsError, CellUnavailableError.
    """
    mark = binding.id.encode()
    found = await blobs.get(MARK)
    if found is None and not binding.marked:
        await blobs.put(MARK, mark)
    elif found != mark:
        raise MissingBlobsError(f"no bodies of the cell are in the place {binding.id}")
    if not binding.marked:
        await cell.update(ITEM, Update(assign={"r": 1}), ((Equals("i", binding.id),),))
