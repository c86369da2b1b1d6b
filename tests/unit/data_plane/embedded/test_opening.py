"""Opening a directory: who may use what is made in it, and where it cannot be locked."""

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from data_plane.embedded.store import CellOpenError, Store, StoreSizes


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


def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_fd: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(CellOpenError, match=r"^data: .* cannot be locked \(No locks available\)"):
        Store(tmp_path, StoreSizes())
