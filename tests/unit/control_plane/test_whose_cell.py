"""Starts that are told a directory of another service, by whatever name."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from control_plane.cells import StartError
from control_plane.data_folder import death_notes, prepare_folders
from control_plane.one_cell import open_cell
from data_plane.embedded.cell import EmbeddedCell
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock

from .starting import ITEM, nothing, play

pytestmark = pytest.mark.usefixtures("patience")


def started_alone(data: Path, **options: bool) -> str:
    """Why a server of one cell does not start there; "": it does."""

    async def start() -> None:
        settings = ServerSettings(data=data, **options)  # type: ignore[arg-type]
        prepare_folders(settings)
        await (await open_cell(settings, SystemClock())).close()

    try:
        asyncio.run(start())
    except StartError as error:
        return str(error)
    return ""


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """The data directory of a service whose cells have names of their own."""
    data = tmp_path / "data"
    play(data, nothing, cell_data=",".join(str(data / name) for name in ("x", "y", "z")))
    return data


def test_one_cell_is_not_begun_beside_several(three: Path) -> None:
    assert started_alone(three) == f"cells: {three} has 3 cells: --cells 3"
    (three / "manifest.json").unlink()
    (three / "master.keys").touch(mode=0o600)
    assert started_alone(three) == f"cells: {three} has 3 cells: --cells 3"
    assert started_alone(three, begin_anew=True) == f"cells: {three} has 3 cells: --cells 3"


def test_one_of_several_cells_is_no_service(three: Path) -> None:
    why = f"{three}/y is cell-2 of a service of 3 cells: serve that, by --data {three} --cells 3"
    for anew in (False, True):
        assert started_alone(three / "y", begin_anew=anew) == f"data: {why}"
    with pytest.raises(StartError, match=f"^cells: {re.escape(why)}$"):
        play(three / "y", nothing)
    (three / "manifest.json").unlink()
    assert started_alone(three / "y") == f"data: {why}"
    play(three, nothing)  # they were not touched


def test_a_cell_on_a_disk_of_its_own_is_no_service(tmp_path: Path) -> None:
    disks = [tmp_path / f"disk-{n}" / "t" for n in range(3)]
    play(tmp_path / "data", nothing, cell_data=",".join(map(str, disks)))
    assert started_alone(disks[1]) == (
        f"data: {disks[1]} is cell-2 of a service of 3 cells: serve that, by --data the directory"
        " with its manifest.json --cells 3"
    )


@pytest.mark.parametrize("name", ["foo", "foo/bar", "y/foo", "usage/records"])
def test_nothing_begins_anew_inside_of_a_service(three: Path, name: str) -> None:
    data = three / name
    assert started_alone(data) == (
        f"data: {data} has no store, and {three} is a service's: name that with --data, or begin"
        " with an empty store: --begin-anew"
    )
    assert started_alone(data, begin_anew=True) == ""
    assert started_alone(data) == ""


def test_nothing_begins_anew_beside_cells_whose_manifest_is_lost(three: Path) -> None:
    (three / "manifest.json").write_text("")
    (three / "master.keys").touch(mode=0o600)
    assert f"and {three} is a service's" in started_alone(three / "foo")


def test_nothing_begins_anew_inside_of_a_service_of_one_cell(tmp_path: Path) -> None:
    assert started_alone(tmp_path / "one") == ""
    assert f"{tmp_path}/one is a service's" in started_alone(tmp_path / "one" / "a" / "b")


def test_other_peoples_manifests_are_no_services(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    assert started_alone(tmp_path / "data") == ""


def test_services_side_by_side_do_not_mind_each_other(three: Path) -> None:
    assert started_alone(three.with_name("other")) == ""
    shutil.copytree(three / "x", three.with_name("copy") / "x")
    (three.with_name("copy") / "x" / "data.mdb").write_bytes(b"")
    assert started_alone(three.with_name("copy")) == ""


def test_several_cells_in_use_are_no_new_service(three: Path) -> None:
    (three / "manifest.json").unlink()

    async def used() -> str:
        cell = EmbeddedCell(three / "x", SystemClock())
        try:
            return await asyncio.to_thread(started_alone, three)
        finally:
            await cell.close()

    assert asyncio.run(used()) == f"data: {three}/x is in use by another process"


def test_one_cell_in_use_is_no_place_for_several(tmp_path: Path) -> None:
    async def used() -> str:
        cell = EmbeddedCell(tmp_path, SystemClock())
        await cell.put(ITEM, {"v": 1})
        try:
            with pytest.raises(StartError) as told:
                await asyncio.to_thread(play, tmp_path, nothing)
            return str(told.value)
        finally:
            await cell.close()

    assert asyncio.run(used()) == f"data: {tmp_path} is in use by another process"
    with pytest.raises(StartError, match=f"^cells: {tmp_path} is the one cell of a service; name"):
        play(tmp_path, nothing)


def test_deaths_are_noted_in_directories_of_any_name(three: Path) -> None:
    notes = death_notes(ServerSettings(data=three, cells=3))
    assert [note.parent for note in notes] == [three / name for name in ("x", "y", "z")]
