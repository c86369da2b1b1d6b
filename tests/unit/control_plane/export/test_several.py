"""Exports of a service of several cells, with its server and without it."""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate
from control_plane.export.door import SOCKET
from control_plane.several_cells import SeveralCells
from control_plane.several_opening import open_folders
from data_plane.ports import Key
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

STATE = Key("S|0011223344556600|00|0", bytes(10))
CELLS = ["cell-1", "cell-2", "cell-3"]


def export(data: Path, out: Path) -> Result:
    return CliRunner().invoke(tidegate, ["export", str(out), "--data", str(data)])


def summaries(out: Path) -> dict[str, dict[str, Any]]:
    """By the last part of the ARN."""
    found = [json.loads(path.read_bytes()) for path in out.glob("AWSDynamoDB/*/*summary.json")]
    return {one["tableArn"].rpartition("/")[2]: one for one in found}


def play(data: Path, scenario: Callable[[SeveralCells], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = ServerSettings(data=data, cells=3)
        several = await open_folders(settings, SystemClock(), SystemEntropy())
        try:
            await scenario(several)
        finally:
            await several.close()

    asyncio.run(main())


def check(out: Path) -> None:
    found = summaries(out)
    assert sorted(found) == CELLS
    for name, summary in found.items():
        assert summary["tidegate"]["cell"] == name
        assert summary["tidegate"]["cells"] == CELLS
        assert summary["itemCount"] > 48, "the registry is in each of them"


def test_all_cells_are_exported_while_they_are_served_and_when_they_are_not(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"

    async def served(several: SeveralCells) -> None:
        await several.standard["g3.00"].put(STATE, {"v": 1})
        await several.look()
        result = await asyncio.to_thread(export, data, tmp_path / "served")
        assert result.exit_code == 0, result.output
        await several.fail("cell-2")
        await several.look()
        assert not (data / "cell-2" / SOCKET).exists()
        await several.restore("cell-2")
        await several.look()
        assert (data / "cell-2" / SOCKET).exists()

    play(data, served)
    check(tmp_path / "served")
    assert not list(data.glob(f"*/{SOCKET}"))
    assert export(data, tmp_path / "closed").exit_code == 0
    check(tmp_path / "closed")


def test_a_cell_that_cannot_be_read_is_named_and_the_others_are_exported(tmp_path: Path) -> None:
    async def nothing(_several: SeveralCells) -> None:
        return

    data = tmp_path / "data"
    play(data, nothing)
    shutil.rmtree(data / "cell-2")
    result = export(data, tmp_path / "out")
    assert result.exit_code == 1
    assert f"there is no cell in {data / 'cell-2'}" in result.output
    assert sorted(summaries(tmp_path / "out")) == ["cell-1", "cell-3"]


def test_one_of_several_is_exported_by_its_directory(tmp_path: Path) -> None:
    async def nothing(_several: SeveralCells) -> None:
        return

    play(tmp_path / "data", nothing)
    result = export(tmp_path / "data" / "cell-2", tmp_path / "out")
    assert result.exit_code == 0
    assert "it is cell-2; cell-1, cell-3 are others" in result.output
    assert sorted(summaries(tmp_path / "out")) == ["cell-2"]
