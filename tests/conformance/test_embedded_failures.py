"""The embedded cell when a commit fails."""

import asyncio
import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import lmdb
import pytest

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.store import CellOpenError, Store
from data_plane.ports import CellUnavailableError
from tests.conformance.cell_suite import KEY, NOON_US, ManualClock, entry
from tests.conformance.embedded_cell import SMALL, embedded


class FailingTransaction:
    """An LMDB transaction whose commit fails, as when fsync reports an error."""

    def __init__(self, txn: lmdb.Transaction) -> None:
        self._txn = txn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self) -> None:
        self._txn.abort()
        raise lmdb.DiskError("Input/output error")


def fail_next_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Store.begin

    def failing(store: Store, *, adds: bool = True) -> tuple[Any, int]:
        monkeypatch.setattr(Store, "begin", begin)
        txn, room_bytes = begin(store, adds=adds)
        return FailingTransaction(txn), room_bytes

    monkeypatch.setattr(Store, "begin", failing)


def test_after_a_failed_commit_the_store_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            await cell.put(KEY, {"v": 1})
            fail_next_commit(monkeypatch)
            outcomes = await asyncio.gather(
                cell.put(KEY, {"v": 2}), cell.append(entry("Q")), return_exceptions=True
            )
            assert [type(outcome) for outcome in outcomes] == [CellUnavailableError] * 2
            assert await cell.get(KEY) == {"v": 1}
            assert (await cell.put(KEY, {"v": 3})).before == {"v": 1}
            assert (await cell.append(entry("Q"))).stamp_us > NOON_US
            assert cell.counters.failed_commits == 1

    asyncio.run(play())


def test_after_a_failed_commit_nothing_is_written_before_the_file_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def sync(data_fd: int) -> None:
        synced.append(data_fd)
        if len(synced) == 1:
            raise OSError(errno.EIO, "Input/output error")

    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            await cell.put(KEY, {"v": 1})
            monkeypatch.setattr(os, "fdatasync", sync)
            fail_next_commit(monkeypatch)
            for _ in range(2):
                with pytest.raises(CellUnavailableError):
                    await cell.put(KEY, {"v": 2})
                assert await cell.get(KEY) == {"v": 1}
            for _ in range(2):
                await cell.put(KEY, {"v": 3})
            assert len(synced) == 2

    asyncio.run(play())


def test_a_store_that_failed_for_good_lets_go_of_its_directory_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it can be opened again without a new process, once the disk is well."""

    def reopen(store: Store) -> None:
        store._close_handles()
        raise CellOpenError("gone")

    async def play() -> None:
        cell = EmbeddedCell(tmp_path, ManualClock(), SMALL)
        await cell.put(KEY, {"v": 1})
        with monkeypatch.context() as failing:
            failing.setattr(Store, "reopen", reopen)
            fail_next_commit(monkeypatch)
            with pytest.raises(CellUnavailableError):
                await cell.put(KEY, {"v": 2})
        await cell.close()
        assert open_files(tmp_path) == []
        async with embedded(tmp_path, ManualClock()) as again:
            assert await again.get(KEY) == {"v": 1}

    asyncio.run(play())


def test_programs_that_are_started_get_none_of_its_files(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            await cell.put(KEY, {"v": 1})
            assert [fd for fd in open_files(tmp_path) if os.get_inheritable(fd)] == []

    asyncio.run(play())


def open_files(folder: Path) -> list[int]:
    """Descriptors of this process that are of files in this folder."""
    files = {path.stat().st_ino for path in folder.iterdir()}
    found: list[int] = []
    for fd in range(1000):
        with contextlib.suppress(OSError):  # there is none of this number
            if os.fstat(fd).st_ino in files:
                found.append(fd)
    return found


def test_a_store_that_cannot_be_opened_again_refuses_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reopen(store: Store) -> None:
        store._close_handles()
        raise CellOpenError("gone")

    async def play() -> None:
        cell = EmbeddedCell(tmp_path, ManualClock(), SMALL)
        monkeypatch.setattr(Store, "reopen", reopen)
        fail_next_commit(monkeypatch)
        first = asyncio.ensure_future(cell.put(KEY, {"v": 2}))
        with pytest.raises(CellUnavailableError, match="the commit failed"):
            await first
        for call in (cell.put(KEY, {"v": 1}), cell.get(KEY), cell.query("Q", limit=1)):
            with pytest.raises(CellUnavailableError, match="cannot be opened again"):
                await call
        await cell.close()

    asyncio.run(play())
