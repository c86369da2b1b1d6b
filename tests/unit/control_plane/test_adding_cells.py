"""A cell is added while the registry changes."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from control_plane.places.own import OwnPlacement, StalePlanError
from control_plane.places.report import CellCommandError
from control_plane.places.stored import Places, by_what_is_now
from control_plane.several_cells import SeveralCells
from data_plane.ports import CellUnavailableError, Written
from data_plane.replication.member_cell import StalePlacementError
from tests.unit.control_plane.starting import play

pytestmark = pytest.mark.usefixtures("patience")


def test_cells_are_added_and_removed_while_the_registrys_own_placement_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_cells, tried = OwnPlacement.change_cells, list[int]()

    async def change(self: OwnPlacement, paths: Mapping[str, str], nonce: bytes) -> None:
        tried.append(len(paths))
        if len(tried) % 2:
            raise StalePlanError(self.placement(), 0)
        await change_cells(self, paths, nonce)

    async def scenario(several: SeveralCells) -> None:
        monkeypatch.setattr(OwnPlacement, "change_cells", change)
        assert await by_what_is_now(lambda: several.add("cell-4")) == "cell-4"
        await several.fail("cell-4")
        await by_what_is_now(lambda: several.remove("cell-4"))
        assert tried == [4, 4, 3, 3]
        assert "cell-4" not in several.own.paths
        assert "cell-4" not in several.served
        with pytest.raises(CellCommandError, match="there is no cell cell-4"):
            await several.remove("cell-4")

    play(tmp_path, scenario)


def test_a_cell_is_added_while_the_registry_gets_a_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_cell, tried = Places.put_cell, list[str]()

    async def put(self: Places, record: Any) -> Any:
        tried.append(record.name)
        if len(tried) == 1:
            raise StalePlacementError("registry got a member meanwhile")
        return await put_cell(self, record)

    async def scenario(several: SeveralCells) -> None:
        monkeypatch.setattr(Places, "put_cell", put)
        assert await several.add("cell-4") == "cell-4"
        assert tried == ["cell-4", "cell-4"]
        assert "cell-4" in several.known.cells

    play(tmp_path, scenario)


def test_a_cell_that_too_few_have_noted_is_added_by_the_next_try(tmp_path: Path) -> None:
    async def refuse(*_call: object) -> Written:
        raise CellUnavailableError("cut off")

    async def scenario(several: SeveralCells) -> None:
        with pytest.MonkeyPatch.context() as cut_off:
            for name in ("cell-1", "cell-2"):
                cut_off.setattr(several.cells.folders[name].cell, "put", refuse)
            with pytest.raises(CellUnavailableError, match="2 of 4 cells have stored"):
                await several.add("cell-4")
        assert "cell-4" not in several.own.paths
        assert await several.add("another") == "cell-5"
        assert await several.add("cell-4") == "cell-4"
        assert several.own.paths["cell-4"] == "cell-4"
        assert {"cell-4", "cell-5"} <= several.known.cells.keys()
        await several.look()
        await asyncio.gather(*several._probes)
        assert set(several.states().values()) == {"available"}

    play(tmp_path, scenario)
