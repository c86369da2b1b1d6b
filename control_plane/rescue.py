"""Writes what is whole of a damaged embedded cell into a new directory, and tells what was not.

Nobody may have the cell open, and nothing in its directory is changed. The new directory gets
everything else of the old one, too: master keys, credentials, usage records.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from control_plane.folder_modes import FOLDER_MODE, close_to_others
from control_plane.places.own import OWN, Own, decode_own
from control_plane.registry_secret import UnreadableSecretError, check_opens, master_key_of
from control_plane.rescue_counts import Counts, QueueCount
from data_plane.embedded.encoding import decode_item, encode_key
from data_plane.embedded.filling import fill
from data_plane.embedded.pages import PageError
from data_plane.embedded.peeking import unused
from data_plane.embedded.salvage import Salvage
from data_plane.embedded.standing import REPLACED_NOTE
from data_plane.embedded.store import (
    DATA_FILE,
    DEATH_NOTE,
    LOCK_FILE,
    CellInUseError,
    CellOpenError,
)
from data_plane.keys.file import KIND, KeyFile, KeyFileError
from data_plane.ports import MasterKeysError
from data_plane.settings import KEY_FILE
from data_plane.system import SystemEntropy

_OWN: Final = encode_key(OWN)
_GAPS_TOLD_MAX: Final = 20
_NOT_COPIED: Final = (DATA_FILE, LOCK_FILE, DEATH_NOTE, REPLACED_NOTE)
_MTIME_SLACK_US: Final = 3_600_000_000


class RescueError(Exception):
    """Nothing could be rescued; the message is one line for the person who asked."""


class Rescued(NamedTuple):
    """How it ended: the items written, and whether nothing was damaged and the keys open it."""

    items: int
    is_whole: bool


def rescue(source: Path, target: Path, now_us: int, tell: Callable[[str], None]) -> Rescued:
    """Write what is whole of the cell in `source` to `target`. Raises RescueError."""
    data = source / DATA_FILE
    if not data.is_file():
        inside = sorted(path.parent.name for path in source.glob(f"*/{DATA_FILE}"))
        hint = f"; it has the cells {', '.join(inside)}: rescue one at a time" if inside else ""
        raise RescueError(f"there is no {DATA_FILE} in {source}{hint}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RescueError(f"{target} is there already: name a directory that is new or empty")
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise RescueError(f"{target} is in {source}: name a directory elsewhere")
    try:
        with unused(source), data.open("rb") as file:
            salvage = Salvage(file.fileno())
            if wrong := salvage.wrong_format:
                raise RescueError(f"{source} {wrong}")
            return _rescue(source, target, salvage, Counts(now_us), tell)
    except CellInUseError as error:
        raise RescueError(f"{source} is in use by another process: stop its server") from error
    except (CellOpenError, PageError) as error:
        raise RescueError(str(error)) from error
    except OSError as error:
        raise RescueError(f"{error.filename or source}: {error.strerror}") from error


def _rescue(
    source: Path, target: Path, salvage: Salvage, counts: Counts, tell: Callable[[str], None]
) -> Rescued:
    for note in salvage.notes:
        tell(f"damaged: {note}")
    for gap in salvage.gaps[:_GAPS_TOLD_MAX]:
        tell(f"damaged: page {gap.page}: {gap.reason}")
    if len(salvage.gaps) > _GAPS_TOLD_MAX:
        tell(f"damaged: {len(salvage.gaps) - _GAPS_TOLD_MAX} more pages")
    if salvage.gaps and not salvage.free_is_whole:
        tell("warning: the list of free pages is damaged: what was deleted may be back")

    owns: list[Own] = []

    def whole() -> Iterator[tuple[bytes, bytes]]:
        for key, value in salvage.items():
            counts.add(key, None if value is None else decode_item(value))
            if value is not None:
                owns.extend([decode_own(decode_item(value))] if key == _OWN else [])
                yield key, value

    is_new = not target.exists()
    _make(target, tell)
    written = fill(target, whole(), salvage.present_us, salvage.eras())
    if not written:
        _unmake(target, is_new=is_new)
        raise RescueError(f"nothing in {source / DATA_FILE} is whole: restore a backup")
    _set_present(source, target, salvage.present_us, counts)
    copied = _copy_others(source, target)
    queues = counts.queues()
    is_whole = not (salvage.notes or salvage.gaps or counts.damaged) and counts.has_secret
    _tell_counts(queues, counts, tell)
    closed = _why_closed(source, counts)
    if closed:
        tell(closed)
    tell(f"{target}: {written} items written, and copies of {', '.join(copied) or 'nothing else'}")
    for own in owns:
        tell(_how_to_serve(target, own))
    return Rescued(written, is_whole and not closed)


def _make(target: Path, tell: Callable[[str], None]) -> None:
    target.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    for line in close_to_others(target):
        tell(line)


def _unmake(target: Path, *, is_new: bool) -> None:
    for name in (DATA_FILE, LOCK_FILE):
        (target / name).unlink()
    if is_new:
        target.rmdir()


def _how_to_serve(target: Path, own: Own) -> str:
    """What is to be done with one cell of several, which is no service."""
    others = sorted(own.known.paths.keys() - {own.cell})
    whole = target.absolute()
    return (
        f"{target} is {own.cell} of {len(own.known.paths)} cells, as far as that one has copies."
        f" Where the others ({', '.join(others)}) are lost: tidegate serve --data DIRECTORY --cells"
        f" 2 --cell-data {whole},{whole}-2 --give-up {','.join(others)}, with master.keys and"
        " credentials of the service in DIRECTORY. Else an empty directory in its place gets"
        " everything from the others"
    )


def _why_closed(source: Path, counts: Counts) -> str:
    """What keeps the keys beside the cell from opening it; "" where they do, or lie elsewhere."""
    path = source / KEY_FILE
    try:
        if counts.secret is None or not path.exists():
            return ""
        if not master_key_of(counts.secret).startswith(KIND):
            return ""
        asyncio.run(check_opens(counts.secret, KeyFile(path, SystemEntropy())))
    except (KeyFileError, MasterKeysError, UnreadableSecretError) as error:
        return (
            f"damaged: {path} does not open the registry secret: {error}; nothing sealed opens"
            f" before the master keys of this service are in its place"
        )
    return ""


def _set_present(source: Path, target: Path, present_us: int, counts: Counts) -> None:
    """Where the last stamp is missing or cannot be, go by the latest item."""
    changed_us = int((source / DATA_FILE).stat().st_mtime * 1_000_000)
    if counts.latest_us > present_us or present_us > changed_us + _MTIME_SLACK_US:
        fill(target, (), counts.latest_us)


def _copy_others(source: Path, target: Path) -> list[str]:
    copied: list[str] = []
    for path in sorted(source.iterdir()):
        if path.name in _NOT_COPIED or path.is_symlink():
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        elif path.is_file():
            shutil.copy2(path, target / path.name)
        else:
            continue
        copied.append(path.name)
    return copied


def _tell_counts(queues: list[QueueCount], counts: Counts, tell: Callable[[str], None]) -> None:
    for queue in queues:
        parts = [f"{queue.whole} messages whole"]
        if queue.missing:
            parts.append(f"{queue.missing} missing by its counters")
        if queue.damaged_segments:
            parts.append(f"{queue.damaged_segments} damaged segments")
        if queue.damaged_states:
            parts.append(f"{queue.damaged_states} damaged states: what they had deleted is back")
        tell(f"queue {queue.name}: {', '.join(parts)}")
    tell(", ".join(f"{name}: {number} whole" for name, number in sorted(counts.kinds.items())))
    for name, number in sorted(counts.damaged.items()):
        tell(f"damaged: {number} {name}")
    if not counts.has_secret:
        tell("damaged: the registry secret is missing: restore a backup, nothing sealed opens")
