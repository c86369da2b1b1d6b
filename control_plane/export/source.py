"""Where the items of an export come from: a directory that a server has, or one that nobody has."""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

import msgspec

from control_plane.core.item_field import UnknownItemFormatError
from control_plane.export.door import PATIENCE_S, SOCKET, socket_path
from control_plane.places.own import OWN, names_in
from data_plane.embedded.copying import (
    CHANGED,
    END,
    GONE,
    ITEM,
    CellCopy,
    CopyCutOffError,
    CopyEnd,
    read_frames,
)
from data_plane.embedded.encoding import PRESENT_KEY, decode_item
from data_plane.embedded.store import CellInUseError, CellOpenError, Store, StoreSizes
from data_plane.ports import DamagedItemError, Item, Key

DATA_FILE: Final = "data.mdb"
_PIECE_BYTES: Final = 1024 * 1024
_OWN: Final = OWN.partition.encode() + b"\0" + OWN.sort
"""Under this stored key a cell of several says which one it is."""


class SourceError(Exception):
    """There is no cell to be read; the message is one line for the person who asked."""


class CopiedCell(NamedTuple):
    """A cell as it was at one moment, in microseconds since the epoch.

    One of several knows its `name` ("": it is the only one), and the `paths` of all by their names.
    """

    as_of_us: int
    items: Iterator[Item]
    name: str = ""
    paths: Mapping[str, str] = MappingProxyType({})


def folders_of(data: Path) -> list[Path]:
    """Directories of cells below this one, which is that of a service of several. Raises OSError.

    Others may lie elsewhere: what is copied of any of these names them.
    """
    return sorted(path.parent for path in data.glob(f"*/{DATA_FILE}"))


@contextmanager
def copied_cell(directory: Path, room: Path, now_us: int) -> Iterator[CopiedCell]:
    """The embedded cell in this directory, whether a server has it or not.

    One that no server has is as it is `now_us`. In the folder `room` there has to be place for all
    of it. Raises SourceError, OSError.
    """
    if not (directory / DATA_FILE).is_file():
        raise SourceError(f"data: there is no cell in {directory}")
    with TemporaryFile(dir=room) as spool:
        try:
            store = Store(directory, StoreSizes())
        except CellInUseError as error:
            _from_server(directory, spool, error)
        except CellOpenError as error:
            raise SourceError(str(error)) from error
        else:
            try:
                asyncio.run(_from_store(store, spool, now_us))
            except DamagedItemError as error:
                raise SourceError(
                    f"data: {directory} has damaged items: tidegate rescue {directory} NEW"
                ) from error
            finally:
                store.close()
        spool.flush()
        try:
            yield _joined(spool)
        except CopyCutOffError as error:
            raise SourceError(f"data: {error}; try it again") from error
        except UnknownItemFormatError as error:
            raise SourceError(f"data: {directory}: {error}") from error


def _from_server(directory: Path, spool: BinaryIO, in_use: CellInUseError) -> None:
    with socket_path(directory) as path, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        try:
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            raise SourceError(f"{in_use}, which hands out no copies") from in_use
        except PermissionError:
            raise SourceError(f"data: no permission to use {directory / SOCKET}") from in_use
        try:
            while piece := connection.recv(_PIECE_BYTES):
                spool.write(piece)
        except (ConnectionResetError, TimeoutError) as error:
            raise SourceError("data: the copy of the cell was cut off; try it again") from error


async def _from_store(store: Store, spool: BinaryIO, now_us: int) -> None:
    present_us = max(now_us, int.from_bytes(store.snapshot.get(PRESENT_KEY, b""), "big"))
    async for page in CellCopy(lambda: store, lambda: present_us).pages():
        spool.write(page)


def _joined(spool: BinaryIO) -> CopiedCell:
    """Of each key what came last. Raises CopyCutOffError."""
    changed: dict[bytes, bytes | None] = {}
    end: CopyEnd | None = None
    own: bytes | None = None
    frames = 0
    spool.seek(0)
    for frame in read_frames(spool):
        if frame.kind == END:
            end = msgspec.json.decode(frame.value, type=CopyEnd)
            break
        frames += 1
        if frame.key == _OWN:
            own = frame.value
        if frame.kind == CHANGED:
            changed[frame.key] = frame.value
        elif frame.kind == GONE:
            changed[frame.key] = None
    if end is None or end.frames != frames:
        raise CopyCutOffError("the copy of the cell is not whole")
    name, paths = names_in(decode_item(own)) if own else ("", {})
    return CopiedCell(end.as_of_us, _items(spool, changed), name, paths)


def _items(spool: BinaryIO, changed: dict[bytes, bytes | None]) -> Iterator[Item]:
    spool.seek(0)
    for frame in read_frames(spool):
        if frame.kind == ITEM and frame.key not in changed:
            yield _item(frame.key, frame.value)
    for key, value in sorted(changed.items()):
        if value is not None:
            yield _item(key, value)


def _item(stored_key: bytes, value: bytes) -> Item:
    partition, _zero, sort = stored_key.partition(b"\0")
    return Item(Key(partition.decode(), sort), decode_item(value))
