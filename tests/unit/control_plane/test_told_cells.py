"""What is told of several embedded cells: what is open, and what is known where nothing answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from control_plane.master_keys import open_keys
from control_plane.server import TidegateServer
from control_plane.several_cells import SeveralCells
from control_plane.several_opening import as_opened
from data_plane.http.logs import LogWriter
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy
from tests.unit.control_plane.starting import members, play, queue

pytestmark = pytest.mark.usefixtures("patience")


def test_what_is_told_of_swapped_directories_is_what_is_open(tmp_path: Path) -> None:
    async def told(several: SeveralCells) -> dict[str, tuple[str, int]]:
        cells = (await several.report()).cells
        return {cell.record.name: (Path(cell.where).name, cell.inode) for cell in cells}

    def inode(folder: str) -> int:
        return (tmp_path / folder / "data.mdb").stat().st_ino

    async def as_named(several: SeveralCells) -> None:
        assert (await told(several))["cell-1"] == ("cell-1", inode("cell-1"))

    async def swapped(several: SeveralCells) -> None:
        found = await told(several)
        assert found["cell-1"] == ("cell-2", inode("cell-2"))
        assert found["cell-2"] == ("cell-1", inode("cell-1"))
        await several.fail("cell-1")
        assert (await told(several))["cell-1"] == ("cell-2", 0)

    play(tmp_path, as_named)
    (tmp_path / "cell-1").rename(tmp_path / "aside")
    (tmp_path / "cell-2").rename(tmp_path / "cell-1")
    (tmp_path / "aside").rename(tmp_path / "cell-2")
    play(tmp_path, swapped)


def test_cells_are_told_where_the_registry_does_not_answer(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        for folder in several.cells.folders.values():
            await folder.cell.fail("its disk is gone")
        report = await several.report()
        assert [cell.failed for cell in report.cells] == ["its disk is gone"] * 3
        assert report.manager.waits[0].startswith("the registry does not answer (")

    play(tmp_path, scenario)


async def create(several: SeveralCells) -> None:
    """A queue of which cell-3 has the only copy."""
    at = next(
        group
        for group in several.known.placements
        if group.startswith("g1.") and members(several, group) == ["cell-3"]
    )
    await several.placing.placed(queue("0" * 16, at))


def test_where_most_cells_are_away_the_registry_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(*_: object) -> None:
        raise AssertionError("the registry is asked")

    async def scenario(several: SeveralCells) -> None:
        for name in ("cell-2", "cell-3"):
            await several.cells.folders[name].cell.fail("its disk is gone")
        monkeypatch.setattr(several.known, "refresh", asked)
        monkeypatch.setattr(several.placing, "queues_of", asked)
        monkeypatch.setattr(several.placing, "is_empty", asked)
        report = await several.report()
        assert [one.failed for one in report.cells] == ["", "its disk is gone", "its disk is gone"]
        assert report.manager.waits[0] == (
            "the registry does not answer (2 of 3 cells do not), so nothing of this may be new"
        )

    play(tmp_path, create, scenario)


def test_groups_without_a_copy_that_answers_are_known(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        find = several.parting.without_copies
        group = (await find(["cell-1", "cell-2"]))[0]
        assert members(several, group) == ["cell-3"]
        assert await find(["cell-1", "cell-2"]) == [group]
        assert await find(["cell-1", "cell-3"]) == []

    play(tmp_path, create, scenario)


def test_health_names_groups_whose_only_copy_is_away(tmp_path: Path) -> None:
    async def health(several: SeveralCells, clock: SystemClock) -> tuple[int, Any]:
        settings = ServerSettings(data=tmp_path, cells=3, auth="off")
        opened = as_opened(several)
        keys = await open_keys(settings, opened.cell, clock, SystemEntropy())
        log = LogWriter(lambda _: None, clock, "info")
        server = TidegateServer(settings, opened, keys, clock, log, several)
        response = await server._health()
        return response.status, json.loads(response.body)

    async def scenario(several: SeveralCells) -> None:
        clock = SystemClock()
        status, body = await health(several, clock)
        assert (status, body["status"]) == (200, "ok")
        assert "groups_without_copies" not in body
        await several._leave_registry("cell-3")
        await several.cells.folders["cell-3"].cell.fail("its disk is gone")
        status, body = await health(several, clock)
        assert (status, body["status"]) == (200, "in part")
        assert body["cells"]["cell-3"] == "unavailable"
        (group,) = body["groups_without_copies"]
        assert members(several, group) == ["cell-3"]

    play(tmp_path, create, scenario)
