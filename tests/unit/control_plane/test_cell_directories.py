"""Directories of cells that are copied, put back, lost, given up, and named by other settings."""

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from control_plane.cells import StartError
from control_plane.places.groups import REGISTRY
from control_plane.places.items import REMOVED
from control_plane.places.own import OWN
from control_plane.places.report import CellCommandError
from control_plane.several_cells import SeveralCells
from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import CellUnavailableError
from data_plane.system import SystemClock

from .starting import ITEM, groups_of, members, nothing, play, queue

pytestmark = pytest.mark.usefixtures("patience")


def back_up(data: Path, *cells: str) -> None:
    for name in cells:
        shutil.copytree(data / name, data / "copies" / name, dirs_exist_ok=True)


def put_back(data: Path, *cells: str) -> None:
    for name in cells:
        shutil.rmtree(data / name)
        shutil.copytree(data / "copies" / name, data / name)


def copy_while_open(data: Path, name: str) -> None:
    (data / "copies" / name).mkdir(parents=True)
    shutil.copy(data / name / "data.mdb", data / "copies" / name)


async def put(several: SeveralCells) -> None:
    await several.control.put(ITEM, {"v": 1})


async def get(several: SeveralCells) -> None:
    assert await several.control.get(ITEM) == {"v": 1}


def test_an_old_copy_is_set_aside_and_its_cell_joins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def refilled(several: SeveralCells) -> None:
        assert groups_of(several, "cell-2") == []
        assert several.states()["cell-2"] == "available"
        assert (tmp_path / "cell-2" / "data.mdb.set-aside-1").exists()
        await get(several)

    play(tmp_path, nothing)
    back_up(tmp_path, "cell-2")
    play(tmp_path, put)
    put_back(tmp_path, "cell-2")
    play(tmp_path, refilled)
    assert "cells: cell-2 (cell-2) is stale: cell-2 as it was opened 20" in caplog.text
    caplog.clear()
    play(tmp_path, refilled)
    assert "cells: " not in caplog.text


def test_an_old_copy_is_not_restored_while_the_service_runs(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.fail("cell-3")
        back_up(tmp_path, "cell-3")
        await several.restore("cell-3")
        assert not (tmp_path / "cell-3" / "data.mdb.set-aside-1").exists()
        await put(several)
        await several.fail("cell-3")
        put_back(tmp_path, "cell-3")
        for group in groups_of(several, "cell-3"):
            assert group != REGISTRY
        await several.restore("cell-3")
        assert (tmp_path / "cell-3" / "data.mdb.set-aside-1").exists()
        assert groups_of(several, "cell-3") == []
        assert await several.cells.plain["cell-3"].get(ITEM) is None
        await several.own.mend()

    play(tmp_path, scenario, get)


def test_another_cells_directory_is_not_restored_in_a_cells_place(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.fail("cell-3")
        (tmp_path / "cell-3").rename(tmp_path / "away")
        await several.cells.folders["cell-2"].cell.fail("so that it may be copied")
        (tmp_path / "cell-3").mkdir()
        shutil.copy(tmp_path / "cell-2" / "data.mdb", tmp_path / "cell-3")
        several.cells.folders["cell-2"].cell.restore()
        with pytest.raises(CellCommandError, match="has another cell of this service"):
            await several.restore("cell-3")
        assert several.states()["cell-3"] == "unavailable"

    play(tmp_path, scenario)


def test_copies_from_before_a_removal_are_stale(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        before = dict(several.own.incarnations)
        await several.fail("cell-3")
        await several.remove("cell-3", lose_messages=True)
        assert sorted(several.own.incarnations) == ["cell-1", "cell-2"]
        assert all(several.own.incarnations[name] > before[name] for name in ("cell-1", "cell-2"))

    play(tmp_path, scenario, nothing)


def test_what_belongs_to_another_service_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    play(tmp_path / "theirs", put)
    play(tmp_path / "ours", nothing)
    shutil.rmtree(tmp_path / "ours" / "cell-3")
    (tmp_path / "theirs" / "cell-3").rename(tmp_path / "ours" / "cell-3")

    async def refilled(several: SeveralCells) -> None:
        assert groups_of(several, "cell-3") == []
        assert await several.control.get(ITEM) is None

    play(tmp_path / "ours", refilled)
    assert "cells: cell-3 (cell-3) is foreign: cell-3 of another service" in caplog.text


def test_the_one_cell_of_a_service_is_no_cell_of_several(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    play(tmp_path, nothing)
    shutil.rmtree(tmp_path / "cell-3")

    async def make_one() -> None:
        cell = EmbeddedCell(tmp_path / "cell-3", SystemClock())
        await cell.put(ITEM, {"v": 1})
        await cell.close()

    asyncio.run(make_one())
    shutil.copytree(tmp_path / "cell-3", tmp_path / "new" / "cell-1")
    play(tmp_path, nothing)
    assert "cells: cell-3 (cell-3) is foreign: the one cell of a service" in caplog.text
    assert (tmp_path / "cell-3" / "data.mdb.set-aside-1").exists()
    with pytest.raises(StartError, match=r"^cells: cell-1 is the one cell of a service; name ano"):
        play(tmp_path / "new", nothing)


def test_a_backup_of_everything_starts_and_one_of_the_cells_alone_does_not(
    tmp_path: Path,
) -> None:
    data, manifest = tmp_path / "data", tmp_path / "data" / "manifest.json"
    play(data, put)
    shutil.copytree(data, tmp_path / "copy")
    play(data, nothing)
    newer = manifest.read_text()
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "copy", data)
    play(data, get)
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "copy", data)
    manifest.write_text(newer)
    with pytest.raises(
        StartError, match=r"^cells: no cell .* remove manifest.json, which is newer"
    ):
        play(data, nothing)
    manifest.unlink()
    play(data, get)
    assert manifest.stat().st_mode & 0o777 == 0o600


def test_a_manifest_that_cannot_be_read_is_no_start(tmp_path: Path) -> None:
    play(tmp_path, nothing)
    (tmp_path / "manifest.json").write_text('{"format": 2}')
    with pytest.raises(StartError, match=r"^cells: .*manifest.json cannot be read: .*, or remove"):
        play(tmp_path, nothing)


def test_a_manifest_that_cannot_be_written_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(StartError, match=r"^cells: cannot read .*manifest.json: Is a directory"):
        play(tmp_path, nothing)
    (tmp_path / "manifest.json").rmdir()
    (tmp_path / "manifest.json.new").mkdir()
    play(tmp_path, put, get)
    assert "manifest.json cannot be written" in caplog.text


def test_cells_are_given_up_with_what_they_alone_had(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def create(several: SeveralCells) -> None:
        at = next(
            name
            for name in several.known.placements
            if name.startswith("g1.") and members(several, name) == ["cell-3"]
        )
        await several.placing.placed(queue("0" * 16, at))

    async def without(several: SeveralCells) -> None:
        assert sorted(several.cells.folders) == ["cell-1"]
        assert groups_of(several, "cell-3") == []
        assert groups_of(several, "cell-2") == []

    play(tmp_path, create)
    with pytest.raises(StartError, match=r"^cells: cell-2 \(cell-2\) is whole, so it need not be"):
        play(tmp_path, nothing, give_up="cell-2")
    shutil.rmtree(tmp_path / "cell-2")
    shutil.rmtree(tmp_path / "cell-3")
    play(tmp_path, without, give_up="cell-2,cell-3")
    assert "cells: cell-3 is given up: 1 queues of g1." in caplog.text
    play(tmp_path, without, give_up="cell-2,cell-3")
    assert "cells: there is no cell cell-2 to give up" in caplog.text


def test_the_number_of_cells_counts_at_the_first_start_alone(tmp_path: Path) -> None:
    async def has_three(several: SeveralCells) -> None:
        assert sorted(several.cells.folders) == ["cell-1", "cell-2", "cell-3"]

    async def has_four(several: SeveralCells) -> None:
        assert sorted(several.cells.folders) == ["cell-1", "cell-2", "cell-3", "cell-4"]

    play(tmp_path, nothing)
    play(tmp_path, has_three, cells=5)
    named = ",".join(str(tmp_path / name) for name in ("cell-1", "cell-2", "cell-3", "new"))
    play(tmp_path, has_four, cells=4, cell_data=named)
    play(tmp_path, has_four)


def test_a_service_of_before_is_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def nothing_more(_names: Iterable[str]) -> None:
        """Nothing is written at the end, either."""

    async def make_old(several: SeveralCells) -> None:
        await put(several)
        several._advance = nothing_more  # type: ignore[method-assign,assignment]
        for cell in several.cells.plain.values():
            item = await cell.get(OWN)
            assert item is not None
            before = {name: value for name, value in item.items() if name not in "uik"}
            await cell.put(OWN, {**before, "v": 1})

    play(tmp_path, make_old)
    (tmp_path / "manifest.json").unlink()
    play(tmp_path, get)
    told = [record.message for record in caplog.records if "gets an id" in record.message]
    assert len(told) == 1
    play(tmp_path, get)


def test_a_copy_that_was_made_while_the_service_ran_is_stale(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        copy_while_open(tmp_path, "cell-2")
        await put(several)

    async def refilled(several: SeveralCells) -> None:
        assert groups_of(several, "cell-2") == []
        await get(several)

    play(tmp_path, scenario)
    put_back(tmp_path, "cell-2")
    play(tmp_path, refilled)


def test_a_copy_that_was_made_before_an_operator_failed_a_cell_is_stale(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        copy_while_open(tmp_path, "cell-3")
        await put(several)
        await several.fail("cell-3")
        put_back(tmp_path, "cell-3")
        await several.restore("cell-3")
        assert groups_of(several, "cell-3") == []

    play(tmp_path, scenario)


def test_a_start_that_ends_while_it_gives_up_a_cell_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(_several: SeveralCells, _name: str) -> None:
        raise CellUnavailableError("the power is cut")

    async def without(several: SeveralCells) -> None:
        assert several.known.cells["cell-3"].state == REMOVED
        assert groups_of(several, "cell-3") == []

    play(tmp_path, nothing)
    shutil.rmtree(tmp_path / "cell-3")
    with monkeypatch.context() as planted:
        planted.setattr(SeveralCells, "give_up", ends)
        with pytest.raises(StartError, match="the power is cut"):
            play(tmp_path, nothing, give_up="cell-3")
    play(tmp_path, without, give_up="cell-3")
