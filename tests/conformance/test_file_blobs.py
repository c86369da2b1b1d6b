"""Blobs in a directory against the contract of blob stores, and what only files promise."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from data_plane.blobs.files import INCOMING, FileBlobs
from data_plane.ports import Blobs, CellFullError, CellUnavailableError
from data_plane.runtime.blocking import BlockingDriver
from data_plane.system import SystemClock
from tests.conformance.blob_suite import (
    BODY,
    BlobSuite,
    BlobSuiteOnTheBlockingDriver,
    listed,
    run,
)
from tests.conformance.on_driver import a_driver

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    return await asyncio.to_thread(call)


def open_blobs(directory: Path) -> FileBlobs:
    return FileBlobs(directory, SystemClock(), in_thread)


class TestFileBlobs(BlobSuite):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return open_blobs(tmp_path / "blobs")


class TestFileBlobsByTheBlockingDriver(BlobSuiteOnTheBlockingDriver):
    @pytest.fixture
    def driver(self) -> Iterator[BlockingDriver]:
        with a_driver() as driver:
            yield driver

    @pytest.fixture
    def blobs(self, tmp_path: Path, driver: BlockingDriver) -> Blobs:
        return FileBlobs(tmp_path / "blobs", SystemClock(), driver.offload)


def files(directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*"))


def test_a_body_outlives_the_process(tmp_path: Path) -> None:
    run(open_blobs(tmp_path / "blobs").put("a/b", BODY))
    assert run(open_blobs(tmp_path / "blobs").get("a/b")) == BODY


def test_folders_go_with_their_last_blob(tmp_path: Path) -> None:
    async def story() -> None:
        blobs = open_blobs(tmp_path)
        await blobs.put("a/b/c", BODY)
        await blobs.put("a/d", BODY)
        await blobs.delete(["a/b/c"])
        assert files(tmp_path) == [INCOMING, "a", "a/d"]
        await blobs.delete(["a/d"])
        assert files(tmp_path) == [INCOMING]

    run(story())


def test_puts_and_deletes_in_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    async def story() -> None:
        blobs = open_blobs(tmp_path)

        async def again(name: str) -> None:
            for _ in range(20):
                await blobs.put(name, BODY)
                await blobs.delete([name])

        await asyncio.gather(*(again(f"a/b/{number}") for number in range(4)))
        assert files(tmp_path) == [INCOMING]

    run(story())


def test_a_folder_that_was_removed_on_the_way_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, removed = Path.replace, list[Path]()

    def remove_first(self: Path, target: Path) -> Path:
        if not removed:
            removed.append(target.parent)
            target.parent.rmdir()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", remove_first)
    blobs = open_blobs(tmp_path)
    run(blobs.put("a/b/c", BODY))
    assert removed == [tmp_path / "a" / "b"]
    assert run(blobs.get("a/b/c")) == BODY


def test_a_folder_that_was_removed_while_it_was_looked_at_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = open_blobs(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    is_dir, removed = Path.is_dir, list[Path]()

    def remove_first(self: Path) -> bool:
        if not removed:
            removed.append(self)
            self.rmdir()
        return is_dir(self)

    monkeypatch.setattr(Path, "is_dir", remove_first)
    run(blobs.put("a/b/c", BODY))
    assert removed == [tmp_path / "a" / "b"]
    assert run(blobs.get("a/b/c")) == BODY


def test_what_is_renamed_was_made_durable_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file itself first, then its name, then every folder on the way to it."""
    seen: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        inside = path.relative_to(tmp_path)
        seen.append("body" if inside.parts[:1] == (INCOMING,) else str(inside))
        fsync(descriptor)

    def note_replace(self: Path, target: Path) -> Path:
        seen.append("rename")
        return replace(self, target)

    blobs = open_blobs(tmp_path)
    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    run(blobs.put("a/b/c", BODY))
    assert seen == ["body", "rename", "a/b", "a", "."]


def test_the_names_of_all_folders_that_are_made_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("data_plane.blobs.files._sync_folder", synced.append)
    open_blobs(tmp_path / "a" / "b" / "blobs")
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= set(synced)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, CellFullError), (errno.EIO, CellUnavailableError)],
)
def test_a_failed_sync_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    blobs = open_blobs(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CellUnavailableError) as raised:
        run(blobs.put("a/b", BODY))
    assert type(raised.value) is expected
    assert run(blobs.get("a/b")) is None
    assert files(tmp_path) == [INCOMING]


def test_what_a_crash_cut_off_is_removed_when_it_is_old(tmp_path: Path) -> None:
    open_blobs(tmp_path)
    for name, age_s in (("old", 7200), ("young", 60)):
        left = tmp_path / INCOMING / name
        left.write_bytes(BODY[:100])
        then_s = SystemClock().now_us() / 1_000_000 - age_s
        os.utime(left, (then_s, then_s))
    blobs = open_blobs(tmp_path)
    assert files(tmp_path) == [INCOMING, f"{INCOMING}/young"]
    assert run(listed(blobs)) == []


def test_an_unreadable_file_is_no_absent_blob(tmp_path: Path, monkeypatch: Any) -> None:
    blobs = open_blobs(tmp_path)
    run(blobs.put("a/b", BODY))

    def fail(_path: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(CellUnavailableError, match="a/b"):
        run(blobs.get("a/b"))


def test_where_the_directory_is_gone_nothing_is_absent(tmp_path: Path) -> None:
    """Its disk may be mounted again: until then nobody knows what there is."""
    directory = tmp_path / "blobs"
    blobs = open_blobs(directory)
    run(blobs.put("a/b", BODY))
    for is_mount_point in (False, True):
        directory.rename(tmp_path / "away")
        if is_mount_point:
            directory.mkdir()
        for call in (
            lambda: blobs.get("a/b"),
            lambda: blobs.delete(["a/b"]),
            lambda: blobs.names(limit=10),
            lambda: blobs.put("a/b", BODY),
        ):
            with pytest.raises(CellUnavailableError, match="blobs: No such file or directory"):
                run(call())
        if is_mount_point:
            directory.rmdir()
        (tmp_path / "away").rename(directory)
        assert run(blobs.get("a/b")) == BODY


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", ".incoming/a", "a//b", "a/", "./a"])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no name of a blob"):
        run(open_blobs(tmp_path).put(name, BODY))
