"""Files and directories that settings name beside the store, looked at before anything is made."""

from pathlib import Path

from control_plane.cells import StartError
from control_plane.core import queues_file
from control_plane.core.queues_file import DeclaredQueue, QueuesFileError
from control_plane.folder_modes import why_unusable
from control_plane.master_keys import check_key_file
from control_plane.pages import check_pages
from control_plane.queues_at_start import checked
from control_plane.root_account import check_credentials
from control_plane.tls import cache_tls
from control_plane.usage import check_usage
from data_plane.ports import Clock
from data_plane.settings import ServerSettings


def read_queues(settings: ServerSettings) -> list[DeclaredQueue]:
    """The queues to be made at the start. Raises StartError."""
    path = settings.queues_file
    if path is None:
        return []
    try:
        declared = queues_file.parse(path.read_text(encoding="utf-8"))
        for queue in declared:
            checked(queue, settings.account, settings.region)
    except OSError as error:
        raise StartError(f"queues: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartError(f"queues: {path}: it is not UTF-8") from error
    except QueuesFileError as error:
        raise StartError(f"queues: {path}: {error}") from error
    return declared


def check_beside_store(settings: ServerSettings, clock: Clock) -> None:
    """Raise StartError where keys, credentials, terms or places of records cannot be used."""
    check_key_file(settings)
    check_credentials(settings)
    check_usage(settings, clock)
    check_blobs(settings)


def check_blobs(settings: ServerSettings) -> None:
    """Raise StartError where the directory of big bodies cannot be used or made."""
    place = settings.blobs
    if place and "://" not in place and (reason := why_unusable(Path(place))):
        raise StartError(f"blobs: cannot use {place}: {reason}")


def wrong_files(settings: ServerSettings, clock: Clock) -> list[str]:
    """Why a start would refuse what settings name beside certificate and master keys, in words."""
    wrong = []
    for check in (check_pages, cache_tls, read_queues, check_credentials, check_blobs):
        try:
            check(settings)
        except StartError as error:
            wrong.append(str(error))
    try:
        check_usage(settings, clock)
    except StartError as error:
        wrong.append(str(error))
    return wrong
