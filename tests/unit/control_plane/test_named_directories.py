"""Directories of cells that an operator names, or copies: no start uses any other one."""

import shutil
from pathlib import Path

import pytest

from control_plane import several_opening
from control_plane.cell_folders import Folders
from control_plane.cells import StartError
from control_plane.data_folder import prepare_folders
from control_plane.places.groups import group_names
from control_plane.places.report import CellCommandError
from control_plane.several_cells import SeveralCells
from data_plane.embedded.cell import EmbeddedCell
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock

from .starting import ITEM, members, nothing, play, queue

pytestmark = pytest.mark.usefixtures("patience")


async def put(several: SeveralCells) -> None:
    await several.control.put(ITEM, {"v": 1})


async def get(several: SeveralCells) -> None:
    assert await several.control.get(ITEM) == {"v": 1}


def named(folder: Path, names: str = "abc") -> str:
    return ",".join(str(folder / name) for name in names)


def refused(data: Path, cells: int = 3, cell_data: str = "") -> str:
    with pytest.raises(StartError) as told:
        play(data, nothing, cells=cells, cell_data=cell_data)
    return str(told.value)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a service, s1 and its cells in c1, and a copy of all of it, s2 and c2."""
    (tmp_path / "s1").mkdir()
    play(tmp_path / "s1", put, cell_data=named(tmp_path / "c1"))
    shutil.copytree(tmp_path / "s1", tmp_path / "s2")
    shutil.copytree(tmp_path / "c1", tmp_path / "c2")
    return tmp_path


def test_a_start_on_copies_of_cells_opens_the_copies(copied: Path) -> None:
    async def uses_copies(several: SeveralCells) -> None:
        assert {one.path.parent.name for one in several.cells.folders.values()} == {"c2"}
        await get(several)

    before = (copied / "c1" / "a" / "data.mdb").read_bytes()
    play(copied / "s2", uses_copies, cell_data=named(copied / "c2"))
    play(copied / "s2", uses_copies)
    assert (copied / "c1" / "a" / "data.mdb").read_bytes() == before
    play(copied / "s1", get)


def test_copies_are_opened_also_with_the_manifest_of_the_originals(copied: Path) -> None:
    async def uses_copies(several: SeveralCells) -> None:
        assert {one.path.parent.name for one in several.cells.folders.values()} == {"c2"}

    play(copied / "s1", uses_copies, cell_data=named(copied / "c2"))


def test_a_copied_manifest_leads_to_no_cells_elsewhere(copied: Path) -> None:
    told = (
        f"cells: {copied}/s2/manifest.json was written for {copied}/s1, and names cells elsewhere:"
        " if this is a copy, name the copies of the cells; if it was moved, name them: --cells 3"
        f" --cell-data {named(copied / 'c1')}"
    )
    assert refused(copied / "s2") == told
    with pytest.raises(StartError) as error:
        prepare_folders(ServerSettings(data=copied / "s2", cells=3))
    assert str(error.value) == told
    play(copied / "s2", get, cell_data=named(copied / "c1"))
    play(copied / "s2", get)


def test_a_cell_that_was_copied_without_a_manifest_leads_nowhere_else(tmp_path: Path) -> None:
    cells = ",".join([str(tmp_path / "s1" / "a"), str(tmp_path / "s1" / "b"), str(tmp_path / "c")])
    play(tmp_path / "s1", put, cell_data=cells)
    shutil.copytree(tmp_path / "s1", tmp_path / "s2")
    (tmp_path / "s2" / "manifest.json").unlink()

    async def without(several: SeveralCells) -> None:
        assert several.states()["cell-3"] == "unavailable"

    play(tmp_path / "s2", without)
    play(tmp_path / "s1", get)


def test_a_data_directory_that_was_moved_with_its_cells_starts(tmp_path: Path) -> None:
    play(tmp_path / "s1", put)
    (tmp_path / "s1").rename(tmp_path / "s2")
    play(tmp_path / "s2", get)


def test_a_disk_that_was_replaced_elsewhere_is_the_named_one(tmp_path: Path) -> None:
    async def has_new(several: SeveralCells) -> None:
        where = {name: one.path.name for name, one in several.cells.folders.items()}
        assert where == {"cell-1": "a", "cell-2": "b", "cell-3": "new"}
        await get(several)

    play(tmp_path / "s1", put, cell_data=named(tmp_path))
    shutil.rmtree(tmp_path / "c")
    play(tmp_path / "s1", has_new, cell_data=f"{named(tmp_path, 'ab')},{tmp_path}/new")
    assert not (tmp_path / "c").exists()


def test_a_cell_that_is_not_named_is_told(tmp_path: Path) -> None:
    async def add(several: SeveralCells) -> None:
        await several.add(str(tmp_path / "d"))

    play(tmp_path / "s1", add, cell_data=named(tmp_path))
    assert refused(tmp_path / "s1", 3, named(tmp_path)) == (
        f"cells: cell-4 ({tmp_path}/d) is not named by --cell-data: add it, --cells 4 --cell-data"
        f" {named(tmp_path, 'abcd')}; or go on without, which loses what no other cell has:"
        " --give-up cell-4"
    )
    play(tmp_path / "s1", nothing, cells=4, cell_data=named(tmp_path, "abcd"))
    play(tmp_path / "s1", nothing, cell_data=named(tmp_path), give_up="cell-4")
    play(tmp_path / "s1", nothing, cell_data=named(tmp_path))


def test_a_copy_is_not_named_beside_its_original(tmp_path: Path) -> None:
    play(tmp_path / "s1", nothing, cell_data=named(tmp_path))
    shutil.copytree(tmp_path / "c", tmp_path / "d")
    assert refused(tmp_path / "s1", 4, named(tmp_path, "abcd")) == (
        f"cells: {tmp_path}/d is a copy of cell-3, and --cell-data names it: leave it out, or empty"
        " it"
    )


def test_cells_of_before_are_not_named_to_start_on_others(tmp_path: Path) -> None:
    (tmp_path / "s1").mkdir()
    play(tmp_path / "s1", put, cell_data=named(tmp_path / "old"))
    (tmp_path / "s1" / "manifest.json").rename(tmp_path / "manifest.old")
    play(tmp_path / "s1", nothing, cell_data=named(tmp_path / "new"))
    told = refused(tmp_path / "s1", 3, named(tmp_path / "old"))
    assert told.startswith(f"cells: {tmp_path}/old/a is foreign: cell-1 of another service, ")
    assert f"cell-1 ({tmp_path}/new/a) is not named by --cell-data" in told
    assert "move manifest.json away if the named ones are to be served as they are" in told
    (tmp_path / "s1" / "manifest.json").unlink()
    play(tmp_path / "s1", get, cell_data=named(tmp_path / "old"))


def test_old_copies_that_are_named_are_told_by_their_names(copied: Path) -> None:
    play(copied / "s1", nothing)
    shutil.copy(copied / "s1" / "manifest.json", copied / "s2")
    told = refused(copied / "s2", 3, named(copied / "c2"))
    assert told.startswith(
        f"cells: no cell of this service can be read: cell-1 ({copied}/c2/a) is stale: cell-1 as it"
    )
    assert "c1" not in told
    assert (
        "put back the manifest.json of the same time, or remove manifest.json, which is newer"
        in told
    )
    assert "--begin-anew" not in told
    (copied / "s2" / "manifest.json").unlink()
    play(copied / "s2", get, cell_data=named(copied / "c2"))


def test_a_missing_directory_is_not_called_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    play(tmp_path, nothing)
    for change, why in ((lambda _: None, "missing"), (Path.mkdir, "empty")):
        shutil.rmtree(tmp_path / "cell-3")
        change(tmp_path / "cell-3")
        play(tmp_path, nothing)
        assert f"cells: cell-3 (cell-3) is {why}: it is filled from the others" in caplog.text


def test_no_cell_is_said_to_be_filled_that_stays_out_or_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def create(several: SeveralCells) -> None:
        group = next(one for one in group_names(1) if members(several, one) == ["cell-3"])
        await several.placing.placed(queue("1" * 16, group))

    play(tmp_path, create)
    shutil.rmtree(tmp_path / "cell-3")
    play(tmp_path, nothing)
    assert "cells: cell-3 (cell-3) is missing, and g1." in caplog.text
    play(tmp_path, nothing, give_up="cell-3")
    assert "cells: cell-3 (cell-3) is missing\n" in caplog.text
    assert "is filled from the others" not in caplog.text


def test_a_service_that_another_data_directory_has_served_starts_again(tmp_path: Path) -> None:
    play(tmp_path / "s1", put)
    theirs = named(tmp_path / "s1", ("cell-1", "cell-2", "cell-3"))  # type: ignore[arg-type]
    play(tmp_path / "s2", get, cell_data=theirs)
    play(tmp_path / "s1", get)


def test_cells_of_a_version_before_lead_away_from_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def uses_copies(several: SeveralCells) -> None:
        assert {one.path.parent.name for one in several.cells.folders.values()} == {"s3"}
        await get(several)

    theirs = named(tmp_path / "s1", ("cell-1", "cell-2", "cell-3"))  # type: ignore[arg-type]
    with monkeypatch.context() as before:
        before.setattr(Folders, "data", "")  # nothing said which directory it was written for
        play(tmp_path / "s1", put)
        play(tmp_path / "s2", nothing, cell_data=theirs)
    shutil.copytree(tmp_path / "s1", tmp_path / "s3")
    play(tmp_path / "s3", uses_copies)
    play(tmp_path / "s1", get)


def test_no_cell_is_added_in_a_directory_that_is_used_otherwise(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        data = tmp_path / "s1"
        alone = EmbeddedCell(tmp_path / "alone", SystemClock())
        await alone.put(ITEM, {"v": 1})
        await alone.close()
        (tmp_path / "backup" / "more").mkdir(parents=True)
        (tmp_path / "backup" / "manifest.json").write_text('{"contents": 1}')
        for path, why in (
            (data, "it is the data directory"),
            (tmp_path, f"the data directory {data} is in it"),
            (data / "cell-1" / "more", f"{data}/cell-1 is a cell, and one of the two is in the"),
            (
                tmp_path / "backup" / "more",
                f"{tmp_path}/backup has a manifest.json: it is a backup",
            ),
            (tmp_path / "backup", f"{tmp_path}/backup has a manifest.json: it is a backup"),
            (tmp_path / "alone", "it is the one cell of a service"),
            (tmp_path / "alone" / "more", f"it is in {tmp_path}/alone, which is a cell"),
            (Path("/proc/tidegate"), "No such file or directory"),
        ):
            with pytest.raises(CellCommandError, match=f"^cannot use {path}: {why}"):
                await several.add(str(path))
        assert sorted(several.cells.folders) == ["cell-1", "cell-2", "cell-3"]

    play(tmp_path / "s1", scenario, nothing)


def test_no_start_takes_a_directory_that_could_not_be_added(tmp_path: Path) -> None:
    data = tmp_path / "s1"
    for first, why in (
        (data, "it is the data directory"),
        (tmp_path, f"the data directory {data} is in it"),
        (tmp_path / "a", f"{tmp_path}/a/more is a cell, and one of the two is in the other"),
    ):
        cells = f"{first},{tmp_path}/b,{tmp_path}/a/more"
        assert refused(data, 3, cells) == f"cell-data: cannot use {first}: {why}"
        assert not [*tmp_path.rglob("data.mdb")]
    play(data, put, cell_data=named(tmp_path))
    shutil.rmtree(tmp_path / "c")
    assert refused(data, 3, f"{named(tmp_path, 'ab')},{data}") == (
        f"cell-data: cannot use {data}: it is the data directory"
    )
    play(data, get, cell_data=named(tmp_path))


def test_a_service_of_before_starts_with_a_cell_in_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s1").mkdir()
    nested = named(tmp_path, ("a", "b", "b/more"))  # type: ignore[arg-type]
    with monkeypatch.context() as before:
        before.setattr(several_opening, "why_no_cell", lambda *_: "")
        play(tmp_path / "s1", put, cell_data=nested)
    play(tmp_path / "s1", get, cell_data=nested)
    shutil.rmtree(tmp_path / "b" / "more")
    play(tmp_path / "s1", get, cell_data=nested)


def test_all_cells_that_are_given_up_are_told(tmp_path: Path) -> None:
    play(tmp_path, nothing)
    for cell in tmp_path.glob("cell-*"):
        shutil.rmtree(cell)
    with pytest.raises(StartError) as told:
        play(tmp_path, nothing, give_up="cell-1,cell-2,cell-3")
    lost = ", ".join(f"cell-{number} (cell-{number}) is missing" for number in (1, 2, 3))
    assert str(told.value).startswith(f"cells: no cell of this service can be read: {lost}; put")
