"""Notes of files that took the place of the one that was served."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from data_plane.embedded.standing import REPLACED_NOTE, is_replaced, note_replacement
from data_plane.embedded.store import Store, StoreSizes

SERVED, COPY = b"the last commit".ljust(20_000), b"the one before".ljust(20_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.mdb"
    path.write_bytes(SERVED)
    return path


@pytest.fixture
def served(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def swap(path: Path, octets: bytes) -> Path:
    """Put another file there; where the right one is now."""
    away = path.with_name("away")
    path.rename(away)
    path.write_bytes(octets)
    return away


def test_another_file_is_noted_and_only_that_one(path: Path, served: int) -> None:
    note_replacement(served, path)
    assert not is_replaced(path)
    away = swap(path, COPY)
    note_replacement(served, path)
    assert is_replaced(path)
    assert (path.parent / REPLACED_NOTE).stat().st_mode & 0o777 == 0o600
    path.unlink()
    away.rename(path)
    assert not is_replaced(path), "the note names another one"
    note_replacement(served, path)
    assert not (path.parent / REPLACED_NOTE).exists()


def test_what_is_written_over_it_is_another_one_again(path: Path, served: int) -> None:
    swap(path, COPY)
    note_replacement(served, path)
    path.write_bytes(SERVED)
    os.utime(path, ns=(1, 1))
    assert not is_replaced(path)


def test_a_note_that_is_none_is_written_anew(path: Path, served: int) -> None:
    """As after a power cut."""
    note = path.parent / REPLACED_NOTE
    note.write_bytes(b"\xff\0")
    assert not is_replaced(path)
    swap(path, COPY)
    note_replacement(served, path)
    assert is_replaced(path)


def test_a_copy_of_the_last_commit_is_as_good(path: Path, served: int) -> None:
    swap(path, SERVED)
    note_replacement(served, path)
    assert not is_replaced(path)


def test_of_nothing_there_is_nothing_to_say(path: Path, served: int) -> None:
    path.unlink()
    note_replacement(served, path)
    assert not is_replaced(path)
    assert list(path.parent.iterdir()) == []


def test_a_note_that_cannot_be_written_is_told(
    path: Path, served: int, caplog: pytest.LogCaptureFixture
) -> None:
    swap(path, COPY)
    (path.parent / REPLACED_NOTE).mkdir()  # root may write over any file
    with caplog.at_level(logging.WARNING):
        note_replacement(served, path)
    assert "cannot note" in caplog.text


def swap_folders(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.fixture
def stores(tmp_path: Path) -> list[Store]:
    """Two cells' directories that are open; the first has had a commit more."""
    opened = [Store(tmp_path / name, StoreSizes()) for name in ("cell-1", "cell-2")]
    transaction, _ = opened[0].begin()
    transaction.put(b"key", b"value")
    transaction.commit()
    return opened


@pytest.mark.parametrize("first", [0, 1])
def test_folders_that_were_swapped_till_the_end_are_no_copies(
    tmp_path: Path, stores: list[Store], first: int
) -> None:
    swap_folders(tmp_path / "cell-1", tmp_path / "cell-2")
    assert all("is another file" in store.missing() for store in stores)
    stores[first].close()
    stores[1 - first].close()
    for name in ("cell-1", "cell-2"):
        assert not is_replaced(tmp_path / name / "data.mdb")


def test_what_another_cell_had_before_it_was_opened_anew_is_noted(
    tmp_path: Path, stores: list[Store]
) -> None:
    one, other = stores
    other.close()
    (tmp_path / "cell-2").rename(tmp_path / "before")
    again = Store(tmp_path / "cell-2", StoreSizes())
    swap_folders(tmp_path / "cell-1", tmp_path / "before")
    one.close()
    again.close()
    assert is_replaced(tmp_path / "cell-1/data.mdb")


def test_what_was_changed_since_another_cell_left_it_is_noted(
    tmp_path: Path, stores: list[Store]
) -> None:
    one, other = stores
    other.close()
    os.utime(tmp_path / "cell-2/data.mdb", ns=(1, 1))
    swap_folders(tmp_path / "cell-1", tmp_path / "cell-2")
    one.close()
    assert is_replaced(tmp_path / "cell-1/data.mdb")
