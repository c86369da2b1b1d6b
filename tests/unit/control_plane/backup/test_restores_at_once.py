"""Restores to one directory at the same time, or where one fails: what they leave there."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from control_plane.backup import restoring
from control_plane.backup.folder import verified
from control_plane.data_folder import prepare_folders
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.filling import fill
from data_plane.settings import ServerSettings
from tests.unit.control_plane.backup.test_backup import (
    ITEM,
    ITEMS,
    _fill,
    in_one_cell,
    in_several,
    restored,
    run,
)


@pytest.fixture(autouse=True)
def backup(tmp_path: Path) -> None:
    """One of a service of one cell, and its keys."""
    data = tmp_path / "data"
    in_one_cell(data, lambda cell: _fill(cell, data / "master.keys"))
    run("backup", tmp_path / "b", "--data", data, "--keys", tmp_path / "k/keys")


def test_a_restore_is_not_repeated_while_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first one puts in place what the second one has written by then."""
    under_way, again = list[bool](), list[Result]()

    def fill_slowly(*arguments: Any) -> int:
        if not under_way:
            under_way.append(True)
            again.append(restored(tmp_path))
        return fill(*arguments)

    monkeypatch.setattr(restoring, "fill", fill_slowly)
    first = restored(tmp_path)
    new = tmp_path / "new"
    assert f"another process restores a backup to {new}" in again[0].output
    assert (first.exit_code, again[0].exit_code) == (0, 1)

    async def look(cell: EmbeddedCell) -> None:
        assert await cell.get(ITEM) == ITEMS[ITEM]

    in_one_cell(new, look)


def test_one_that_comes_too_late_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one ends while the second one still reads the backup."""
    first = list[Result]()

    def read_slowly(*arguments: Any) -> Any:
        if not first:
            monkeypatch.undo()
            first.append(restored(tmp_path))
        return verified(*arguments)

    monkeypatch.setattr(restoring, "verified", read_slowly)
    second = restored(tmp_path)
    new = tmp_path / "new"
    assert f"{new} is not empty" in second.output
    assert (first[0].exit_code, second.exit_code) == (0, 1)
    prepare_folders(ServerSettings(data=new))


def test_one_that_cannot_begin_leaves_no_mark(tmp_path: Path) -> None:
    data, new = tmp_path / "several", tmp_path / "new"
    in_several(data, lambda several: _fill(several.control, data / "master.keys"))
    run("backup", tmp_path / "c", "--data", data, "--keys", tmp_path / "keys")
    (tmp_path / "file").touch()
    wanted = ("restore", tmp_path / "c", "--data", new, "--keys", tmp_path / "keys")
    ran = run(*wanted, "--cell-data", ",".join(f"{tmp_path}/{at}" for at in ("x", "y", "file/z")))
    assert (ran.exit_code, "file/z" in ran.output) == (1, True)
    assert not [folder for folder in (new, tmp_path / "x", tmp_path / "y") if any(folder.iterdir())]
