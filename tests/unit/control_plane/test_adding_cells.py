"""A cell is added while the registry changes."""

from pathlib import Path
from typing import Any

import pytest

from control_plane.places.stored import Places
from control_plane.several_cells import SeveralCells
from data_plane.replication.member_cell import StalePlacementError
from tests.unit.control_plane.starting import play

pytestmark = pytest.mark.usefixtures("patience")


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
