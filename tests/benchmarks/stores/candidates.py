"""The stores that could lie under the embedded cell, behind the few calls that are measured."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import lmdb

from data_plane.embedded.bodies import Bodies
from data_plane.embedded.encoding import time_to_live_s

Row = tuple[bytes, bytes]
Failures = (lmdb.Error, sqlite3.Error)


class Candidate(Protocol):
    """An open store; every call that writes is durable when it returns."""

    def put(self, rows: Sequence[Row]) -> None:
        """Put all of these in one commit."""

    def begin(self, rows: Sequence[Row]) -> Callable[[], object]:
        """Put all of these, and answer what commits them."""

    def change(self, keys: Sequence[bytes], change: Callable[[bytes], bytes]) -> None:
        """Read each of these, change it, write it back: all in one commit."""

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete all of these in one commit."""

    def get(self, key: bytes) -> bytes | None:
        """Read one."""

    def read_range(self, after: bytes, count: int) -> list[Row]:
        """Read the next ones."""

    def close(self) -> None:
        """Close it."""


class Lmdb:
    """LMDB in its default, durable mode; without its own locks, as one process uses it."""

    def __init__(self, directory: Path, map_bytes: int = 1 << 36) -> None:
        self._env = lmdb.open(str(directory), map_size=map_bytes, lock=False, readahead=False)

    def put(self, rows: Sequence[Row]) -> None:
        with self._env.begin(write=True) as txn:
            for key, value in rows:
                txn.put(key, value)

    def begin(self, rows: Sequence[Row]) -> Callable[[], object]:
        txn = self._env.begin(write=True)
        for key, value in rows:
            txn.put(key, value)
        return txn.commit

    def change(self, keys: Sequence[bytes], change: Callable[[bytes], bytes]) -> None:
        with self._env.begin(write=True) as txn:
            for key in keys:
                txn.put(key, change(bytes(txn.get(key, b""))))

    def delete(self, keys: Sequence[bytes]) -> None:
        with self._env.begin(write=True) as txn:
            for key in keys:
                txn.delete(key)

    def get(self, key: bytes) -> bytes | None:
        with self._env.begin() as txn:
            value = txn.get(key)
        return None if value is None else bytes(value)

    def read_range(self, after: bytes, count: int) -> list[Row]:
        rows: list[Row] = []
        with self._env.begin() as txn, txn.cursor() as cursor:
            found = cursor.set_range(after)
            while found and len(rows) < count:
                rows.append((bytes(cursor.key()), bytes(cursor.value())))
                found = cursor.next()
        return rows

    def close(self) -> None:
        self._env.close()


class LmdbPieces(Lmdb):
    """LMDB with big values in pieces, as the embedded cell keeps them."""

    def __init__(self, directory: Path, map_bytes: int = 1 << 36) -> None:
        self._env = lmdb.open(
            str(directory), map_size=map_bytes, lock=False, readahead=False, max_dbs=1
        )
        tree = self._env.open_db(b"\x01bodies")
        self._bodies = Bodies(tree, self._env.stat()["psize"])

    def put(self, rows: Sequence[Row]) -> None:
        self.begin(rows)()

    def begin(self, rows: Sequence[Row]) -> Callable[[], object]:
        txn = self._env.begin(write=True)
        for key, value in rows:
            self._bodies.drop(
                txn, key, txn.replace(key, self._bodies.split(txn, key, value, time_to_live_s))
            )
        return txn.commit

    def change(self, keys: Sequence[bytes], change: Callable[[bytes], bytes]) -> None:
        with self._env.begin(write=True) as txn:
            for key in keys:
                value = change(bytes(self._bodies.join(txn, key, txn.get(key, b"?"))))
                self._bodies.drop(
                    txn, key, txn.replace(key, self._bodies.split(txn, key, value, time_to_live_s))
                )

    def delete(self, keys: Sequence[bytes]) -> None:
        with self._env.begin(write=True) as txn:
            for key in keys:
                self._bodies.drop(txn, key, txn.pop(key))

    def get(self, key: bytes) -> bytes | None:
        with self._env.begin() as txn:
            stored = txn.get(key)
            return None if stored is None else bytes(self._bodies.join(txn, key, stored))

    def read_range(self, after: bytes, count: int) -> list[Row]:
        rows: list[Row] = []
        with self._env.begin() as txn, txn.cursor() as cursor:
            found = cursor.set_range(after)
            while found and len(rows) < count:
                value = self._bodies.join(txn, bytes(cursor.key()), cursor.value())
                rows.append((bytes(cursor.key()), bytes(value)))
                found = cursor.next()
        return rows


class Sqlite:
    """SQLite with a write-ahead log and synchronous=FULL, its durable mode."""

    _table = "CREATE TABLE IF NOT EXISTS item (k BLOB PRIMARY KEY, v BLOB NOT NULL)"

    def __init__(self, directory: Path) -> None:
        self._db = sqlite3.connect(
            directory / "items.db", isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(self._table)

    def put(self, rows: Sequence[Row]) -> None:
        self.begin(rows)()

    def begin(self, rows: Sequence[Row]) -> Callable[[], object]:
        self._transact("INSERT OR REPLACE INTO item VALUES (?, ?)", rows)
        return self._commit

    def change(self, keys: Sequence[bytes], change: Callable[[bytes], bytes]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for key in keys:
            (value,) = self._db.execute("SELECT v FROM item WHERE k = ?", (key,)).fetchone()
            self._db.execute("UPDATE item SET v = ? WHERE k = ?", (change(value), key))
        self._commit()

    def delete(self, keys: Sequence[bytes]) -> None:
        self._transact("DELETE FROM item WHERE k = ?", [(key,) for key in keys])
        self._commit()

    def get(self, key: bytes) -> bytes | None:
        row = self._db.execute("SELECT v FROM item WHERE k = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def read_range(self, after: bytes, count: int) -> list[Row]:
        query = "SELECT k, v FROM item WHERE k >= ? ORDER BY k LIMIT ?"
        return self._db.execute(query, (after, count)).fetchall()

    def close(self) -> None:
        self._db.close()

    def _transact(self, statement: str, rows: Sequence[tuple[bytes, ...]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(statement, rows)
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


class SqliteWithoutRowid(Sqlite):
    """The same with the items in the primary key's tree itself."""

    _table = Sqlite._table + " WITHOUT ROWID"


CANDIDATES: dict[str, Callable[[Path], Candidate]] = {
    "lmdb": Lmdb,
    "lmdb in pieces": LmdbPieces,
    "sqlite": Sqlite,
    "sqlite without rowid": SqliteWithoutRowid,
}
