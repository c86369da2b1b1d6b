"""How a cell was left, from a file that nobody has open: nothing in it is changed."""

from pathlib import Path

from data_plane.core.cell_clock import LeftCell
from data_plane.core.eras import eras_from
from data_plane.core.undecodable import UNDECODABLE
from data_plane.embedded.encoding import ERAS_KEY, PRESENT_KEY
from data_plane.embedded.file_check import FileDamageError, last_commit


def left_cell(path: Path) -> LeftCell:
    """The present and the eras of a data file. Raises FileDamageError, OSError."""
    with last_commit(path) as (ways, meta):
        present, eras = (ways.find(meta.main, key) for key in (PRESENT_KEY, ERAS_KEY))
    present_us = int.from_bytes(present.value if present is not None else b"", "big")
    try:
        return LeftCell(present_us, eras_from(eras.value if eras is not None else b""), str(path))
    except UNDECODABLE as error:
        raise FileDamageError(str(error)) from error
