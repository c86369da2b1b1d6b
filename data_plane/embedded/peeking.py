"""An item of a directory that is not served: what a start finds out before it opens a cell."""

from pathlib import Path

from data_plane.embedded.reads import read_many
from data_plane.embedded.store import DATA_FILE, CellInUseError, CellOpenError, Store, StoreSizes
from data_plane.ports import Attributes, CellUnavailableError, Key


def peek(directory: Path, key: Key) -> Attributes | None:
    """What lies there under a key; None also where there is no cell, or none that can be read.

    Raises CellInUseError.
    """
    try:
        if not (directory / DATA_FILE).stat().st_size:
            return None
        store = Store(directory, StoreSizes())
    except CellInUseError:
        raise
    except (CellOpenError, OSError):
        return None
    try:
        return read_many(store, (key,)).get(key)
    except CellUnavailableError:
        return None
    finally:
        store.close()
