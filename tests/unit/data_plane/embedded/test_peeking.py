"""What is found out about a directory while nobody has it open, and while somebody has."""

import asyncio
from pathlib import Path

import pytest

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.peeking import check_store, has_items, peek
from data_plane.embedded.store import CellInUseError, Store, StoreSizes
from data_plane.ports import Key
from data_plane.system import SystemClock

SMALL, BIG, NONE = (Key("M|cells", sort) for sort in (b"small", b"big", b"none"))


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def test_items_are_read_whether_they_are_in_pieces_or_not(tmp_path: Path) -> None:
    async def put() -> None:
        cell = EmbeddedCell(tmp_path, SystemClock())
        await cell.put(SMALL, {"v": 1})
        await cell.put(BIG, {"v": "x" * 10_000})
        await cell.close()

    asyncio.run(put())
    (tmp_path / "died").touch()
    before = contents(tmp_path)
    check_store(tmp_path)
    assert peek(tmp_path, SMALL) == {"v": 1}
    assert peek(tmp_path, BIG) == {"v": "x" * 10_000}
    assert peek(tmp_path, NONE) is None
    assert has_items(tmp_path)
    assert contents(tmp_path) == before


def test_a_store_without_items_has_none(tmp_path: Path) -> None:
    assert peek(tmp_path / "none", SMALL) is None
    check_store(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "data.mdb").touch()
    check_store(tmp_path)
    assert not has_items(tmp_path)
    Store(tmp_path, StoreSizes()).close()
    check_store(tmp_path)
    assert not has_items(tmp_path)
    assert peek(tmp_path, SMALL) is None


def test_one_that_is_in_use_is_not_looked_at(tmp_path: Path) -> None:
    store = Store(tmp_path, StoreSizes())
    try:
        with pytest.raises(CellInUseError):
            check_store(tmp_path)
        with pytest.raises(CellInUseError):
            peek(tmp_path, SMALL)
    finally:
        store.close()
