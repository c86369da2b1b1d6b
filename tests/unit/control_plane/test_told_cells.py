"""What is told of several embedded cells: what is open, and what is known where nothing answers."""

from pathlib import Path

import pytest

from control_plane.several_cells import SeveralCells
from tests.unit.control_plane.starting import play

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
