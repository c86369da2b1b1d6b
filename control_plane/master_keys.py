"""The master keys that the settings name, opened, and with them the registry's secret."""

from collections.abc import Callable
from dataclasses import dataclass, field

from control_plane.cells import StartError
from control_plane.registry_secret import UnreadableSecretError, is_made, read_or_make
from data_plane.keys import file
from data_plane.keys.file import KeyFile, KeyFileError
from data_plane.ports import (
    Cell,
    CellUnavailableError,
    Clock,
    Entropy,
    MasterKeys,
    MasterKeysError,
)
from data_plane.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class OpenedKeys:
    """What a server seals with. `close` ends what the master keys wait with."""

    master_keys: MasterKeys
    registry_secret: bytes = field(repr=False)
    where: str
    close: Callable[[], None]


async def open_keys(
    settings: ServerSettings, cell: Cell, clock: Clock, entropy: Entropy
) -> OpenedKeys:
    """The master keys, and the secret of the registry in this cell.

    A registry without a secret gets one, and a key file where there is none yet. Raises StartError.
    """
    try:
        return await _open_key_file(settings, cell, clock, entropy)
    except CellUnavailableError as error:
        raise StartError(f"master-keys: cannot read the registry secret: {error}") from error
    except (KeyFileError, UnreadableSecretError) as error:
        raise StartError(f"master-keys: {error}") from error
    except MasterKeysError as error:
        raise StartError(f"master-keys: cannot open the registry secret: {error}") from error


async def _open_key_file(
    settings: ServerSettings, cell: Cell, clock: Clock, entropy: Entropy
) -> OpenedKeys:
    path = settings.key_file
    if not path.exists():
        if await is_made(cell):
            raise KeyFileError(
                f"{path}: no such file; what this cell holds was sealed with another server's or"
                " an earlier one, and nothing else opens it"
            )
        file.create(path, entropy, clock.now_us() // 1_000_000)
    keys = KeyFile(path, entropy)
    secret = await read_or_make(cell, keys, clock, entropy)
    return OpenedKeys(keys, secret, f"keys in {path.resolve()}", lambda: None)
