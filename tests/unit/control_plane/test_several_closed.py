"""Cells of several that have closed themselves, as their files could not be opened again."""

import asyncio
from pathlib import Path

import pytest

from control_plane.places.items import ACTIVE, FAILED
from control_plane.several_cells import SeveralCells

from .starting import ITEM, play

pytestmark = pytest.mark.usefixtures("patience")


def test_one_is_opened_anew_when_it_is_restored(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        cell = several.cells.folders["cell-3"].cell.cell
        assert cell is not None
        cell._store.let_go()
        cell._failure = "the cell cannot be opened again after a failed commit: read-only"
        await several.look()
        assert several.known.cells["cell-3"].state == FAILED
        await several.control.put(ITEM, {"v": 1, "n": 2})
        await several.restore("cell-3")
        await several.look()
        await asyncio.gather(*several._probes)
        assert several.states()["cell-3"] == "available"
        assert several.known.cells["cell-3"].state == ACTIVE
        assert await several.control.get(ITEM) == {"v": 1, "n": 2}

    play(tmp_path, scenario)
