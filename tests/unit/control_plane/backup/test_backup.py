"""Backups of embedded cells: whole or not there, checked before they are restored."""

import asyncio
import errno
import json
import shutil
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from control_plane.backup import folder as folder_module
from control_plane.backup import restoring
from control_plane.backup.door import backups_served
from control_plane.backup.folder import MANIFEST, UNFINISHED, write_backup
from control_plane.backup.source import backed_up
from control_plane.backup.stream import Record
from control_plane.cells import StartError
from control_plane.cli.main import tidegate
from control_plane.data_folder import prepare_folders
from control_plane.one_cell import open_cell
from control_plane.places.own import OWN, names_in
from control_plane.registry_secret import read_or_make
from control_plane.several_cells import SeveralCells
from control_plane.several_opening import as_opened, open_folders
from data_plane.core.cell_clock import CellClock
from data_plane.embedded.cell import EmbeddedCell
from data_plane.keys import file
from data_plane.keys.file import KeyFile
from data_plane.ports import Attributes, Cell, Key
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy, running_us
from data_plane.usage.register import AT_WORK
from data_plane.usage.sends import STATE

ITEM = Key("Q|1|us-east-1", b"orders")
GONE = Key("Q|1|us-east-1", b"gone")
BIG = Key("B|0123456789abcdef|00|0", b"big")
ROW = Key("L|", b"row")
SERVER = Key(AT_WORK, b"0" * 16)
SENT = Key("M|sends", b"0" * 16)
JOINED = [Key(f"{one.partition}@7", one.sort) for one in (SERVER, SENT)]
"""As they lie in a cell that joined the registry's group."""

ITEMS: dict[Key, Attributes] = {ITEM: {"v": 1, "n": 7}, BIG: {"v": 1, "k": "s", "z": b"z" * 9000}}


def clock() -> CellClock:
    return CellClock(SystemClock().now_us, running_us, lambda _step: None)


async def _fill(cell: Cell, key_file: Path) -> None:
    if not file.is_there(key_file):
        file.create(key_file, SystemEntropy(), 1)
    await read_or_make(cell, KeyFile(key_file, SystemEntropy()), SystemClock(), SystemEntropy())
    for key, attributes in ITEMS.items():
        await cell.put(key, attributes)
    await cell.put(GONE, {"v": 1})
    await cell.delete(GONE)
    await cell.put(ROW, {"v": 1})
    await cell.put(STATE, {"v": 1, "i": "00", "b": 1, "n": 3, "p": b""})
    for key in (SERVER, SENT, *JOINED):
        await cell.put(key, {"v": 1, "t": 1})


def in_one_cell(data: Path, act: Callable[[EmbeddedCell], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        cell = EmbeddedCell(data, clock())
        try:
            await act(cell)
        finally:
            await cell.close()

    asyncio.run(main())


def in_several(
    data: Path,
    act: Callable[[SeveralCells], Coroutine[Any, Any, None]],
    *,
    cells: int = 3,
    give_up: str = "",
    cell_data: str = "",
) -> None:
    async def main() -> None:
        settings = ServerSettings(data=data, cells=cells, give_up=give_up, cell_data=cell_data)
        several = await open_folders(settings, clock(), SystemEntropy())
        try:
            await act(several)
        finally:
            await as_opened(several).close()

    asyncio.run(main())


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(tidegate, [str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A service of one cell, which is stopped."""
    in_one_cell(tmp_path / "data", lambda cell: _fill(cell, tmp_path / "data/master.keys"))
    return tmp_path / "data"


@pytest.fixture
def made(tmp_path: Path, data: Path) -> Path:
    """A backup of it, and its keys."""
    ran = run("backup", tmp_path / "b", "--data", data, "--keys", tmp_path / "k/keys")
    assert ran.exit_code == 0, ran.output
    assert "without them it cannot be read: keys in " + str(data / "master.keys") in ran.output
    return tmp_path / "b"


def restored(tmp_path: Path) -> Result:
    return run("restore", tmp_path / "b", "--data", tmp_path / "new", "--keys", tmp_path / "k/keys")


@pytest.mark.parametrize("cells", [1, 3])
def test_a_backup_is_not_served(made: Path, cells: int) -> None:
    with pytest.raises(StartError, match=f"{made} is a backup: tidegate restore {made} --data NEW"):
        prepare_folders(ServerSettings(data=made, cells=cells))


@pytest.mark.parametrize("cells", [1, 3])
def test_nothing_is_served_in_a_backup_or_from_a_damaged_one(made: Path, cells: int) -> None:
    inside = ServerSettings(data=made / "new", cells=cells)
    with pytest.raises(StartError, match=f"{made}/new is in a backup, {made}: tidegate restore"):
        prepare_folders(inside)
    (made / MANIFEST).write_text("{")
    with pytest.raises(StartError, match=f"{made} is a backup: tidegate restore {made} --data NEW"):
        prepare_folders(ServerSettings(data=made, cells=cells))
    (made / MANIFEST).unlink()
    prepare_folders(inside)


def test_a_restored_service_has_what_the_backup_has(tmp_path: Path, made: Path) -> None:
    ran = restored(tmp_path)
    assert ran.exit_code == 0, ran.output
    as_of = json.loads((made / MANIFEST).read_bytes())["contents"]["as_of"]
    assert f"Lost: what was sent after {as_of}" in ran.output
    assert f"tidegate serve --data {tmp_path / 'new'}" in ran.output

    async def look(cell: EmbeddedCell) -> None:
        assert await cell.get_many([*ITEMS, GONE]) == ITEMS
        assert await cell.get(ROW) is None  # whose usage records are others'
        assert await cell.get(STATE) is None
        assert await cell.get_many([SERVER, SENT, *JOINED]) == {}
        keys = KeyFile(tmp_path / "new/master.keys", SystemEntropy())
        assert await read_or_make(cell, keys, SystemClock(), SystemEntropy())

    in_one_cell(tmp_path / "new", look)
    assert (tmp_path / "new/master.keys").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in made.iterdir()) == ["local.cell", MANIFEST]
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_was_there_is_closed_to_others(tmp_path: Path, made: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new").chmod(0o755)
    ran = restored(tmp_path)
    assert f"others could use {tmp_path / 'new'} (mode 755): now mode 700" in ran.output, made
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_stamps_of_a_restored_cell_are_above_those_of_the_backup(
    tmp_path: Path, made: Path
) -> None:
    assert restored(tmp_path).exit_code == 0
    as_of_us = json.loads((made / MANIFEST).read_bytes())["contents"]["as_of_us"]
    stopped = CellClock(lambda: 0, running_us, lambda _step: None)

    async def look() -> int:
        cell = EmbeddedCell(tmp_path / "new", stopped)
        now_us = cell.now_us()
        await cell.close()
        return now_us

    assert asyncio.run(look()) >= as_of_us


def test_a_server_hands_out_backups_while_it_writes(tmp_path: Path) -> None:
    settings = ServerSettings(data=tmp_path / "data")

    async def main() -> None:
        opened = await open_cell(settings, clock())
        await _fill(opened.cell, settings.key_file)
        async with backups_served(settings, opened, "keys in a safe"):
            ran = await asyncio.to_thread(run, "backup", tmp_path / "b", "--data", settings.data)
        await opened.close()
        assert ran.exit_code == 0, ran.output
        assert "cannot be read: keys in a safe" in ran.output

    asyncio.run(main())
    file.copy(settings.key_file, tmp_path / "k/keys")
    assert restored(tmp_path).exit_code == 0


def _flip(path: Path, at: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[at] ^= 1
    path.write_bytes(octets)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda made: (made / MANIFEST).unlink(), "or one that was cut off"),
        (lambda made: _flip(made / MANIFEST, 60), "damaged"),
        (lambda made: _flip(made / "local.cell", 100), "damaged"),
        (lambda made: _flip(made / "local.cell", -1), "damaged"),
        (lambda made: (made / "local.cell").unlink(), "No such file"),
        (lambda made: (made / "local.cell").write_bytes(b""), "has not the"),
    ],
    ids=["no manifest", "manifest", "page", "end", "no file", "empty file"],
)
def test_what_is_not_whole_is_not_restored(
    tmp_path: Path, made: Path, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(made)
    ran = restored(tmp_path)
    assert ran.exit_code == 1
    assert said in ran.output
    assert not (tmp_path / "new").exists()


def test_a_service_and_a_backup_of_another_format_are_not_called_damaged(
    tmp_path: Path, made: Path
) -> None:
    (made / MANIFEST).write_text(json.dumps({"contents": {"format": "tidegate backup 9"}}))
    assert "holds 'tidegate backup 9'; this program reads" in restored(tmp_path).output
    three = tmp_path / "three"
    in_several(three, lambda several: _fill(several.control, three / "master.keys"))
    ran = run("restore", three, "--data", tmp_path / "new")
    assert (ran.exit_code, "three is a service, not a backup" in ran.output) == (1, True)


def test_every_byte_of_a_backup_counts(tmp_path: Path, made: Path) -> None:
    for name in (MANIFEST, "local.cell"):
        whole = (made / name).read_bytes()
        for at in range(0, len(whole), 97):
            if whole[at : at + 1].isspace():
                continue
            _flip(made / name, at)
            assert restored(tmp_path).exit_code == 1, (name, at)
            (made / name).write_bytes(whole)
    assert restored(tmp_path).exit_code == 0


def test_the_wrong_keys_are_told_before_anything_is_written(tmp_path: Path, made: Path) -> None:
    other = tmp_path / "other.keys"
    file.create(other, SystemEntropy(), 1)
    for keys, said in (((), "sealed under file:"), (("--keys", other), "does not have")):
        ran = run("restore", made, "--data", tmp_path / "new", *keys)
        assert ran.exit_code == 1
        assert said in ran.output
        assert not (tmp_path / "new").exists()


def test_a_backup_goes_to_a_new_place_and_is_restored_to_one(
    tmp_path: Path, made: Path, data: Path
) -> None:
    assert "is there already" in run("backup", made, "--data", data).output
    assert "name a directory elsewhere" in run("backup", data / "b", "--data", data).output
    inside = run("backup", tmp_path / "c", "--data", data, "--keys", tmp_path / "c/keys")
    assert "is in the backup" in inside.output
    assert not (tmp_path / "c").exists()
    full = run("restore", made, "--data", data, "--keys", tmp_path / "k/keys")
    assert f"{data} is not empty (data.mdb)" in full.output


def test_keys_of_others_are_not_written_over(tmp_path: Path, data: Path) -> None:
    other = tmp_path / "other.keys"
    file.create(other, SystemEntropy(), 1)
    before = other.read_bytes()
    ran = run("backup", tmp_path / "b", "--data", data, "--keys", other)
    assert "has other keys" in ran.output
    assert other.read_bytes() == before


def test_a_backup_that_is_cut_off_is_not_there(tmp_path: Path, data: Path) -> None:
    with backed_up(data, data / "master.keys") as records:

        def cut() -> Iterator[Record]:
            yield next(records)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_backup(tmp_path / "b", cut())
    assert list(tmp_path.iterdir()) == [data]


def test_what_a_killed_backup_left_is_replaced(tmp_path: Path, data: Path) -> None:
    left = tmp_path / ("b" + UNFINISHED)
    left.mkdir()
    (left / "local.cell").write_bytes(b"half")
    assert "cut off" in run("restore", left, "--data", tmp_path / "new").output
    assert run("backup", tmp_path / "b", "--data", data).exit_code == 0
    assert not left.exists()


def test_nobody_writes_where_another_backup_is_written(tmp_path: Path, data: Path) -> None:
    with folder_module._own(tmp_path / ("b" + UNFINISHED)):
        assert "another process writes" in run("backup", tmp_path / "b", "--data", data).output


def test_no_server_starts_on_half_of_a_backup(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(restoring, "_put_in_place", killed)
        with pytest.raises(KeyboardInterrupt):
            restoring.restore(
                restoring.Wanted(made, tmp_path / "new", tmp_path / "k/keys"), SystemClock()
            )
    settings = ServerSettings(data=tmp_path / "new")
    with pytest.raises(StartError, match="that was cut off"):
        prepare_folders(settings)
    assert restored(tmp_path).exit_code == 0
    prepare_folders(settings)


@pytest.mark.usefixtures("made")
def test_no_server_starts_on_what_was_put_in_place_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, new = Path.rename, tmp_path / "new"

    def failing(path: Path, target: Path) -> Path:
        if target == new / "master.keys":
            raise OSError(errno.EIO, "Input/output error", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    ran = restored(tmp_path)
    assert (ran.exit_code, f"empty {new}, and restore it again" in ran.output) == (1, True)
    with pytest.raises(StartError, match="that was cut off"):
        prepare_folders(ServerSettings(data=new))


def test_all_cells_of_a_service_are_restored_elsewhere(tmp_path: Path) -> None:
    data, new = tmp_path / "data", tmp_path / "new"

    async def fill(several: SeveralCells) -> None:
        await _fill(several.control, data / "master.keys")

    async def look(several: SeveralCells) -> None:
        assert await several.control.get(ITEM) == ITEMS[ITEM]
        assert not several.own.empty
        assert {name: cell.path.parent for name, cell in several.cells.folders.items()} == (
            dict.fromkeys(("cell-1", "cell-2", "cell-3"), new)
        )
        assert await several.cells.folders["cell-2"].cell.get(OWN) is not None

    in_several(data, fill)
    ran = run("backup", tmp_path / "b", "--data", data, "--keys", tmp_path / "k/keys")
    assert ran.exit_code == 0, ran.output
    ran = restored(tmp_path)
    assert f"tidegate serve --data {new} --cells 3" in ran.output
    data.rename(tmp_path / "lost")
    in_several(new, look)


def test_cells_may_be_restored_to_disks_of_their_own(tmp_path: Path) -> None:
    data = tmp_path / "data"
    in_several(data, lambda several: _fill(several.control, data / "master.keys"))
    run("backup", tmp_path / "b", "--data", data, "--keys", tmp_path / "k/keys")
    disks = [tmp_path / name for name in "xyz"]
    disks[1].mkdir()
    disks[1].chmod(0o755)
    named = ",".join(map(str, disks))
    wanted = ("restore", tmp_path / "b", "--data", tmp_path / "new", "--keys", tmp_path / "k/keys")
    assert "name 3 directories" in run(*wanted, "--cell-data", "a,b").output
    ran = run(*wanted, "--cell-data", named)
    assert f"--cells 3 --cell-data {named}" in ran.output

    async def look() -> None:
        cell = EmbeddedCell(disks[1], clock())
        item = await cell.get(OWN)
        await cell.close()
        assert item is not None
        name, paths = names_in(item)
        assert name == "cell-2"
        assert paths == dict(zip(("cell-1", "cell-2", "cell-3"), map(str, disks), strict=True))

    asyncio.run(look())

    async def is_whole(several: SeveralCells) -> None:
        assert await several.control.get(ITEM) == ITEMS[ITEM]
        assert not several.own.empty

    assert (tmp_path / "new" / "manifest.json").stat().st_mode & 0o777 == 0o600
    assert {disk.stat().st_mode & 0o777 for disk in disks} == {0o700}
    prepare_folders(ServerSettings(data=tmp_path / "new", cells=3))
    in_several(tmp_path / "new", is_whole)


def test_a_cell_is_restored_to_no_directory_that_could_not_be_added(tmp_path: Path) -> None:
    data, new = tmp_path / "data", tmp_path / "new"
    in_several(data, lambda several: _fill(several.control, data / "master.keys"))
    run("backup", tmp_path / "b", "--data", data, "--keys", tmp_path / "k/keys")
    wanted = ("restore", tmp_path / "b", "--data", new, "--keys", tmp_path / "k/keys")
    for first, why in (
        (new, "it is the data directory"),
        (tmp_path / "x", f"{tmp_path}/x/more is a cell, and one of the two is in the other"),
        (tmp_path / "b" / "x", f"{tmp_path}/b has a manifest.json: it is a backup"),
    ):
        ran = run(*wanted, "--cell-data", f"{first},{tmp_path}/y,{tmp_path}/x/more")
        assert f"cell-data: cannot use {first}: {why}" in ran.output
        assert (ran.exit_code, new.exists()) == (1, False)


def test_a_stopped_service_is_backed_up_whose_cells_lie_elsewhere(tmp_path: Path) -> None:
    data, disks = tmp_path / "data", ",".join(str(tmp_path / name) for name in "xyz")
    data.mkdir()
    in_several(data, lambda several: _fill(several.control, data / "master.keys"), cell_data=disks)
    ran = run("backup", tmp_path / "b", "--data", data, "--keys", tmp_path / "k/keys")
    assert ran.exit_code == 0, ran.output
    assert "3 cells, " in ran.output
    shutil.copytree(data, tmp_path / "copy")
    told = run("backup", tmp_path / "c", "--data", tmp_path / "copy").output
    assert (
        f"{tmp_path}/copy/manifest.json was written for {data}, and names cells elsewhere" in told
    )


@pytest.mark.parametrize("cells", [2, 3])
def test_a_cell_that_has_failed_is_named(tmp_path: Path, cells: int) -> None:
    settings, failed = ServerSettings(data=tmp_path / "data", cells=cells), f"cell-{cells}"

    async def main() -> Result:
        several = await open_folders(settings, clock(), SystemEntropy())
        await _fill(several.control, settings.key_file)
        await several.fail(failed)
        opened = as_opened(several)
        async with backups_served(settings, opened, "keys"):
            ran = await asyncio.to_thread(run, "backup", tmp_path / "b", "--data", settings.data)
        await opened.close()
        return ran

    ran = asyncio.run(main())
    assert ran.exit_code == 3
    assert f"{failed} is not in it: an operator has failed it" in ran.output
    file.copy(settings.key_file, tmp_path / "k/keys")
    told = restored(tmp_path).output
    assert f"{failed} was not in the backup" in told
    given_up = failed if cells == 2 else ""
    assert (f" --give-up {failed} --cells 2" in told) == bool(given_up)

    async def look(several: SeveralCells) -> None:
        assert await several.control.get(ITEM) == ITEMS[ITEM]
        assert (failed in several.cells.folders) == (not given_up)

    in_several(tmp_path / "new", look, cells=cells, give_up=given_up)


def test_tables_hand_out_no_backups(tmp_path: Path) -> None:
    settings = ServerSettings(data=tmp_path)

    async def main() -> None:
        opened = await open_cell(settings, clock())
        async with backups_served(settings, replace(opened, sources=None), ""):
            ran = await asyncio.to_thread(run, "backup", tmp_path.parent / "b", "--data", tmp_path)
        await opened.close()
        assert "which hands out no backups" in ran.output

    asyncio.run(main())
