"""Opening a directory: who may use what is made in it, and where it cannot be locked."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from data_plane.embedded import store as store_module
from data_plane.embedded.store import CellOpenError, Store, StoreSizes

OPEN = """
import sys
from pathlib import Path
from data_plane.embedded.store import Store, StoreSizes
Store(Path(sys.argv[1]), StoreSizes())
"""


def test_what_is_made_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Store(tmp_path / "data", StoreSizes()).close()
    finally:
        os.umask(before)
    made = (tmp_path / "data", *(tmp_path / "data").iterdir())
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in made} == {
        "data": "0o700",
        "data.mdb": "0o600",
        "lock": "0o600",
    }


def test_the_names_of_all_folders_that_are_made_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(store_module, "sync_directory", synced.append)
    directory = tmp_path / "a" / "b" / "data"
    Store(directory, StoreSizes()).close()
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b", directory} <= set(synced)


def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_fd: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(CellOpenError, match=r"^data: .* cannot be locked \(No locks available\)"):
        Store(tmp_path, StoreSizes())


def test_who_removes_the_lock_file_lets_no_second_process_in(tmp_path: Path) -> None:
    store = Store(tmp_path, StoreSizes())
    (tmp_path / "lock").unlink()
    ran = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", OPEN, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"CellInUseError: data: {tmp_path} is in use by another process" in ran.stderr
    store.reopen()
    store.close()
    Store(tmp_path, StoreSizes()).close()


def test_a_second_start_makes_the_names_durable_that_a_killed_one_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could take the file, with all that was acknowledged since."""
    data = tmp_path / "data"
    synced: list[Path] = []
    with monkeypatch.context() as killed_before:
        killed_before.setattr(store_module, "sync_directory", lambda _path: None)
        Store(data, StoreSizes()).close()
    monkeypatch.setattr(store_module, "sync_directory", synced.append)
    Store(data, StoreSizes()).close()
    assert synced == [data, tmp_path]
