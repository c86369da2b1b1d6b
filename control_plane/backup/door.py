"""How `tidegate backup` gets copies of all cells while a server has them."""

from contextlib import AbstractAsyncContextManager
from typing import Final

from control_plane.backup.stream import backup_of
from control_plane.cells import OpenedCell
from control_plane.export.door import copies_for_exports
from data_plane.settings import ServerSettings

BACKUPS: Final = "backups"
"""Name of the socket in the data directory."""


def backups_served(
    settings: ServerSettings, opened: OpenedCell, keys: str
) -> AbstractAsyncContextManager[None]:
    """Hand out backups in the data directory; of tables there are none. Raises OSError.

    `keys` says where the master keys are.
    """
    sources = opened.sources
    key_file = "" if settings.kms_key else str(settings.key_file.resolve())
    copy = None if sources is None else lambda: backup_of(sources(), keys, key_file)
    return copies_for_exports(settings.data, copy, BACKUPS)
