"""What is found out about a directory before a cell is opened there: nothing in it is changed."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from data_plane.embedded.bodies import checked_value, joined_value, read_head
from data_plane.embedded.damage import DamagedItems
from data_plane.embedded.encoding import FORMAT_KEY, decode_item, encode_key, wrong_format
from data_plane.embedded.file_check import (
    BODIES_TREE,
    Descents,
    FileDamageError,
    check_file,
    last_commit,
)
from data_plane.embedded.pages import Meta, Tree
from data_plane.embedded.store import (
    DATA_FILE,
    DEATH_NOTE,
    LOCK_FILE,
    CellInUseError,
    CellOpenError,
    told_of_damage,
)
from data_plane.ports import Attributes, DamagedItemError, Key

_FIRST_ITEM = b"\x02"
"""Not above any item's key, and above those of the store's own records."""


@contextmanager
def unused(directory: Path) -> Iterator[None]:
    """Keep servers from a directory meanwhile. Raises CellInUseError, OSError."""
    with ExitStack() as stack:
        for name in (LOCK_FILE, DATA_FILE):
            try:
                fd = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            stack.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CellInUseError(f"data: {directory} is in use by another process") from None
        yield


def check_store(directory: Path) -> None:
    """Raise CellOpenError, or OSError, where opening a store that is there would be refused.

    A big one takes its time, and is not kept from servers for so long.
    """
    path = directory / DATA_FILE
    with unused(directory):
        is_new = not path.exists() or not path.stat().st_size
    if is_new:
        return
    try:
        check_file(path, DamagedItems(str(directory)), whole=(directory / DEATH_NOTE).exists())
        with last_commit(path) as (ways, meta):
            found = ways.find(meta.main, FORMAT_KEY)
    except FileDamageError as error:
        with unused(directory):  # who has begun to write meanwhile has not damaged it
            raise CellOpenError(told_of_damage(directory, error)) from error
    wrong = wrong_format(found.value if found is not None else None)
    if wrong and (found is not None or meta.main.entries):
        raise CellOpenError(f"data: {directory} {wrong}")


def peek(directory: Path, key: Key) -> Attributes | None:
    """What lies there under a key; None also where there is no cell, or none that can be read.

    Raises CellInUseError.
    """
    stored_key = encode_key(key)
    try:
        with unused(directory), last_commit(directory / DATA_FILE) as (ways, meta):
            return _item(ways, meta, stored_key)
    except (FileDamageError, DamagedItemError, OSError):
        return None


def has_items(directory: Path) -> bool:
    """Whether anything is stored there. Raises FileDamageError, OSError."""
    if not (directory / DATA_FILE).stat().st_size:
        return False
    with last_commit(directory / DATA_FILE) as (ways, meta):
        leaf = ways.leaf_of(meta.main, _FIRST_ITEM)
    return leaf.high is not None or any(node.key >= _FIRST_ITEM for node in leaf.nodes)


def _item(ways: Descents, meta: Meta, key: bytes) -> Attributes | None:
    """Raises PageError, DamagedItemError."""
    node = ways.find(meta.main, key)
    if node is None:
        return None
    head = read_head(key, node.value)
    if head is None:
        return decode_item(checked_value(key, node.value))
    bodies = ways.find(meta.main, BODIES_TREE)
    value, number = b"", head.first
    while bodies is not None and len(value) < head.size_bytes:
        piece = ways.find(Tree.read(bodies.value), number.to_bytes(8, "big"))
        if piece is None:
            break
        value, number = value + piece.value, number + 1
    return decode_item(joined_value(key, head, value))
