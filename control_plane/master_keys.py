"""The master keys that the settings name, opened, and with them the registry's secret."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from control_plane.cells import BlockedStartError, StartError, log_circuit
from control_plane.folder_modes import is_pipe, why_unusable
from control_plane.registry_secret import UnreadableSecretError, read_or_make, sealed_under
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
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from data_plane.settings import ServerSettings
from data_plane.system import SystemEntropy

_KMS_CONNECTIONS: Final = 4
_KMS_PATIENCE_S: Final = 5.0
"""For how long a call waits for one of them."""

_FILE_WAY: Final = "; put back the file that this service had, or name it: --master-keys FILE"
_KMS_WAY: Final = (
    "; name the key that this service had: --kms-key ID, and --master-keys FILE, if it had a file"
)
_WAYS: Final = ("--master-keys", "chmod")
"""What says itself how a file is made to serve."""


@dataclass(frozen=True, slots=True)
class OpenedKeys:
    """What a server seals with. `close` ends what the master keys wait with.

    `guards` stand before what may hang.
    """

    master_keys: MasterKeys
    registry_secret: bytes = field(repr=False)
    where: str
    close: Callable[[], None]
    guards: tuple[Guard, ...] = ()


def check_key_file(settings: ServerSettings) -> None:
    """Raise StartError where the file of master keys cannot be used, or made."""
    path = settings.key_file
    if settings.kms_key and settings.master_keys is None:
        return
    try:
        if settings.kms_key or file.is_there(path):
            if not is_pipe(path):
                KeyFile(path, SystemEntropy())
        elif reason := why_unusable(path.parent):
            raise KeyFileError(f"{path}: {reason}")
    except KeyFileError as error:
        raise _wrong_file(error) from error


def _wrong_file(error: KeyFileError) -> StartError:
    has_way = any(way in str(error) for way in _WAYS)
    return StartError(f"master-keys: {error}{'' if has_way else _FILE_WAY}")


async def open_keys(
    settings: ServerSettings, cell: Cell, clock: Clock, entropy: Entropy
) -> OpenedKeys:
    """The master keys, and the secret of the registry in this cell.

    A registry without a secret gets one, and a key file where there is none yet. Raises StartError.
    """
    setting = "kms-key" if settings.kms_key else "master-keys"
    open_them = _open_kms if settings.kms_key else _open_key_file
    try:
        return await open_them(settings, cell, clock, entropy)
    except CellUnavailableError as error:
        raise BlockedStartError(f"{setting}: cannot read the registry secret: {error}") from error
    except KeyFileError as error:
        raise _wrong_file(error) from error
    except UnreadableSecretError as error:
        raise BlockedStartError(f"{setting}: {error}") from error
    except MasterKeysError as error:
        told = f"{setting}: cannot open the registry secret: {error}"
        if not settings.kms_key:
            raise StartError(f"{told}{_FILE_WAY}") from error
        raise BlockedStartError(
            f"{told}{_KMS_WAY if error.reason == 'NotFound' else ''}"
        ) from error


async def _open_kms(
    settings: ServerSettings, cell: Cell, clock: Clock, entropy: Entropy
) -> OpenedKeys:
    # A key file is opened without AWS's SDK, which is slow to load.
    from data_plane.keys import kms  # noqa: PLC0415 - as above
    from data_plane.keys.succession import KmsAfterFile  # noqa: PLC0415 - as above

    region = settings.region
    client = kms.connect(settings.kms_endpoint, region, connections_max=_KMS_CONNECTIONS)
    guard = Guard("kms", clock, log_circuit)
    offload = EventLoopOffload(_KMS_CONNECTIONS, clock, guard, patience_s=_KMS_PATIENCE_S)
    try:
        own = await kms.open_kms(client, settings.kms_key, offload)
        keys: MasterKeys = own
        if settings.master_keys is not None:
            keys = KmsAfterFile(own, KeyFile(settings.master_keys, entropy))
        secret = await read_or_make(cell, keys, clock, entropy)
    except BaseException:
        offload.close()
        raise

    def close() -> None:
        offload.close()
        client.close()

    where = f"keys in KMS ({settings.kms_key})"
    return OpenedKeys(keys, secret, where, close, (guard,))


async def _open_key_file(
    settings: ServerSettings, cell: Cell, clock: Clock, entropy: Entropy
) -> OpenedKeys:
    path = settings.key_file
    if not file.is_there(path):
        master_key = await sealed_under(cell)
        if master_key:
            raise KeyFileError(
                f"{path}: no such file; what this cell holds is sealed under {master_key}, and"
                " nothing else opens it: put it back, or name it with --master-keys; without it"
                " what is in there is lost, and another --data begins anew"
            )
        file.create(path, entropy, clock.now_us() // 1_000_000)
    keys = KeyFile(path, entropy)
    secret = await read_or_make(cell, keys, clock, entropy)
    return OpenedKeys(keys, secret, f"keys in {path.resolve()}", lambda: None)
