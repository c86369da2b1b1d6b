"""Where a backup comes from: a server that has the cells, or their directories, which nobody has.

While a server has them no other process can read them: LMDB runs without its locks, so a reader
would find pages that are used anew. The server copies them itself, page by page, and holds no
snapshot meanwhile (data_plane/embedded/copying.py).
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

from control_plane.backup.door import BACKUPS
from control_plane.backup.stream import Record, backup_of, record_of, records_in
from control_plane.cells import LOCAL, StartError
from control_plane.core.item_field import integer
from control_plane.export.door import PATIENCE_S, socket_path
from control_plane.export.source import DATA_FILE, folders_of
from control_plane.manifest import check_not_copied, read_manifest
from control_plane.places.own import OWN, names_in
from data_plane.embedded.copying import CellCopy, CopySource
from data_plane.embedded.encoding import ERAS_KEY, PRESENT_KEY, decode_item, encode_key
from data_plane.embedded.store import CellInUseError, CellOpenError, Store, StoreSizes
from data_plane.ports import Attributes


class BackupError(Exception):
    """There is no backup; the message is one line for the person who asked."""


@contextmanager
def backed_up(data: Path, key_file: Path) -> Iterator[Iterator[Record]]:
    """The records of a backup of the service in this directory, whether a server has it or not.

    Where none has it, its master keys are in `key_file`. Raises BackupError; while it is read also
    BackupCutOffError, CellUnavailableError, OSError.
    """
    with ExitStack() as stack:
        connection = _connected(data)
        if connection is not None:
            stack.enter_context(connection)
            yield records_in(stack.enter_context(connection.makefile("rb")))
            return
        stores = _open_stores(data, stack)
        keys = f"keys in {key_file.resolve()}"
        yield _stepped(backup_of(_sources(data, stores), keys, str(key_file.resolve())))


def _connected(data: Path) -> socket.socket | None:
    """A connection to the server of this directory; None: it has none."""
    if not data.is_dir():
        raise BackupError(f"data: there is no directory {data}")
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_S)
    try:
        with socket_path(data, BACKUPS) as path:
            connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except PermissionError:
        connection.close()
        raise BackupError(f"data: no permission to use {data / BACKUPS}") from None
    return connection


def _open_stores(data: Path, stack: ExitStack) -> Mapping[Path, Store]:
    """All cells' directories, opened, until the stack ends. Raises BackupError."""
    waiting = [data] if (data / DATA_FILE).is_file() else _cells_of(data)
    if not waiting:
        raise BackupError(f"data: there is no cell in {data}, and no server that has one")
    stores: dict[Path, Store] = {}
    while waiting:
        folder = waiting.pop()
        try:
            stores[folder] = stack.enter_context(closing(Store(folder, StoreSizes())))
        except CellInUseError as error:
            raise BackupError(f"{error}, which hands out no backups") from error
        except CellOpenError as error:
            raise BackupError(str(error)) from error
        own = _own_of(stores[folder])
        name, paths = names_in(own) if own else ("", {})
        if name and folder == data:
            raise BackupError(f"data: {data} is {name} of a service: name the service's --data")
        others = [(data / path).resolve() for path in paths.values()]
        waiting += [
            path
            for path in others
            if (path / DATA_FILE).is_file()
            and path not in {one.resolve() for one in (*stores, *waiting)}
        ]
    return stores


def _cells_of(data: Path) -> list[Path]:
    """Directories of cells, in this one and where its manifest says. Raises BackupError."""
    try:
        known = read_manifest(data)
        check_not_copied(data, known)
    except StartError as error:
        raise BackupError(str(error)) from error
    told = [(data / path).resolve() for path in known.paths.values()] if known is not None else []
    inside = [folder.resolve() for folder in folders_of(data)]
    return [one for one in dict.fromkeys([*inside, *told]) if (one / DATA_FILE).is_file()]


def _sources(data: Path, stores: Mapping[Path, Store]) -> Sequence[CopySource]:
    """One for each cell of the service, also for those that are not there."""
    if data in stores:
        return [_source(LOCAL, stores[data])]
    owns = {path: own for path, store in stores.items() if (own := _own_of(store))}
    latest = max(owns.values(), key=lambda own: integer(own, "e"))
    paths = names_in(latest)[1]
    here = {names_in(own)[0]: stores[path] for path, own in owns.items()}
    return [
        _source(name, here[name])
        if name in here
        else CopySource(name, _never, f"there is no cell in {data / paths[name]}")
        for name in sorted(paths)
    ]


def _source(name: str, store: Store) -> CopySource:
    present_us = int.from_bytes(store.snapshot.get(PRESENT_KEY, b""), "big")

    @contextmanager
    def copying() -> Iterator[CellCopy]:
        eras = store.snapshot.get(ERAS_KEY) or b""
        yield CellCopy(lambda: store, lambda: present_us, lambda: eras)

    return CopySource(name, copying)


def _never() -> AbstractContextManager[CellCopy]:
    raise AssertionError("there is no such cell")


def _own_of(store: Store) -> Attributes | None:
    """What a cell of several knows of itself and the others."""
    key = encode_key(OWN)
    stored = store.snapshot.get(key)
    if stored is None:
        return None
    return decode_item(store.bodies.join(store.snapshot, key, stored))


def _stepped(pages: AsyncIterator[bytes]) -> Iterator[Record]:
    """The records of a backup that waits for nobody."""

    async def following() -> bytes | None:
        return await anext(pages, None)

    with asyncio.Runner() as runner:
        while (page := runner.run(following())) is not None:
            yield record_of(page)
