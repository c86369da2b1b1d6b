"""Cells that an operator calls failed: what has to be left."""

import asyncio
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane import together
from control_plane.cells import StartError
from control_plane.places.groups import REGISTRY
from control_plane.places.items import ACTIVE, DRAINING, FAILED, REMOVED
from control_plane.places.report import CellCommandError
from control_plane.several_cells import SeveralCells
from data_plane.ports import Key, Update, Written
from data_plane.system import SystemClock

from .starting import ITEM, members, nothing, play, queue

pytestmark = pytest.mark.usefixtures("patience")

_S_MAX = 20
"""What hangs has failed then."""


@pytest.mark.parametrize("before", [ACTIVE, DRAINING])
def test_a_cell_is_not_failed_where_others_let_go_meanwhile(tmp_path: Path, before: str) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.places.set_state("cell-3", before)
        await several.known.refresh()
        set_state, group = several.places.set_state, "g3.07"
        await several.placing.placed(queue("0" * 30 + group[-2:], group))

        async def drops_first(name: str, state: str, *was: Collection[str]) -> object:
            if state == FAILED:
                for other in ("cell-1", "cell-2"):
                    epoch = several.known.placements[group].placement.epoch
                    await several.places.drop_member(group, other, epoch=epoch, forced=True)
            return await set_state(name, state, *was)

        several.places.set_state = drops_first  # type: ignore[assignment,method-assign]
        with pytest.raises(CellCommandError, match="cell-3 has the only copy of 1 queue"):
            await several.fail("cell-3")
        assert several.states()["cell-3"] == "available"
        assert several.known.cells["cell-3"].state == before
        assert not several.watch.aside

    play(tmp_path, scenario)


def test_a_cell_that_does_not_answer_is_not_relied_on(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.look()
        await asyncio.gather(*several._probes)
        several.watch.aside.add("cell-1")  # as if it hung
        with pytest.raises(CellCommandError, match="no more than 1 of 3 cells answer"):
            await several.fail("cell-2")

    play(tmp_path, scenario)


def test_of_two_cells_one_may_be_failed_and_the_other_goes_on(tmp_path: Path) -> None:
    async def fail(several: SeveralCells) -> None:
        await several.control.put(ITEM, {"v": 1})
        await several.fail("cell-1")
        with pytest.raises(CellCommandError, match="no more than 0 of 2 cells answer"):
            await several.fail("cell-2")
        assert members(several, REGISTRY) == ["cell-2"]
        await several.control.put(ITEM, {"v": 1, "n": 2})

    async def again(several: SeveralCells) -> None:
        assert several.known.cells["cell-1"].state == ACTIVE
        assert await several.control.get(ITEM) == {"v": 1, "n": 2}
        placement = several.own.placement()
        await several.places.add_joining(REGISTRY, "cell-1", epoch=placement.epoch)
        with pytest.raises(CellCommandError, match="cell-2 has the only whole copy of 1 groups"):
            await several.fail("cell-2")
        assert await several.control.get(ITEM) == {"v": 1, "n": 2}

    play(tmp_path, fail, cells=2)
    shutil.copytree(tmp_path, tmp_path.with_name("without"))
    shutil.rmtree(tmp_path.with_name("without") / "cell-2")
    with pytest.raises(StartError, match="cell-2"):  # what came meanwhile is in that one alone
        play(tmp_path.with_name("without"), nothing, cells=2)
    play(tmp_path, again, cells=2)


def test_half_of_the_cells_need_the_manifest(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        several.own._is_kept = False
        with pytest.raises(CellCommandError, match=r"manifest\.json"):
            await several.fail("cell-1")
        assert several.states() == dict.fromkeys(several.cells.folders, "available")

    play(tmp_path, scenario, cells=2)


def test_no_cell_is_removed_for_another_one_that_does_not_answer_either(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        group = "g2.00"
        await several.placing.placed(queue("0" * 32, group))
        await several.look()
        await asyncio.gather(*several._probes)
        await several.fail("cell-1")
        several.watch.aside.add("cell-2")  # as if it hung
        with pytest.raises(CellCommandError, match="cell-1 has the only copy of 1 queue"):
            await several.remove("cell-1")
        assert members(several, group) == ["cell-1", "cell-2"]
        await several.remove("cell-1", lose_messages=True)
        assert members(several, group) == ["cell-2"]

    play(tmp_path, scenario, cells=4)


def test_a_cell_that_another_server_has_removed_meanwhile_does_not_drain(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.places.set_state("cell-4", REMOVED)
        with pytest.raises(CellCommandError, match="there is no cell cell-4"):
            await several.drain("cell-4")
        assert (await several.places.read_all()).cells["cell-4"].state == REMOVED

    play(tmp_path, scenario, cells=4)


def test_a_full_cell_has_what_it_has(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        group = "g2.00"
        await several.placing.placed(queue("0" * 32, group))
        await several.look()
        await asyncio.gather(*several._probes)
        watched = several._watched["cell-2"]
        several._watched["cell-2"] = replace(watched, is_full=lambda: True)
        assert several.states()["cell-2"] == "full"
        await several.fail("cell-1")
        await several.remove("cell-1")
        assert members(several, group) == ["cell-2"]

    play(tmp_path, scenario, cells=4)


def test_copies_are_told_on_once_the_one_that_never_answered_has_left(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        async def delete(number: int) -> None:
            state = Key("S|0011223344556600|00|0", bytes((*bytes(9), number)))
            await several.standard["g3.00"].update(state, Update({"v": 1}, {"d": frozenset({1})}))

        hanging = members(several, "g3.00")[-1]
        has_come = asyncio.Event()

        async def hang(*_call: object, **_options: object) -> Written:
            has_come.set()
            never: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
            return await never

        several.cells.folders[hanging].cell.update = hang  # type: ignore[method-assign]
        await delete(1)
        await several.ship()
        await has_come.wait()
        await delete(2)
        await several.places.drop_member("g3.00", hanging, epoch=1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not several._shipping
        await several.ship()
        await asyncio.gather(*several._shipping.values())
        assert several.heart.has_told_all()

    play(tmp_path, scenario)


def test_upkeep_of_other_cells_goes_on_while_one_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "UPKEEP_S_MAX", 0.0)

    async def scenario(several: SeveralCells) -> None:
        collected: list[str] = []

        async def hang(*_call: object) -> int:
            collected.append("cell-3")
            never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            return await never

        async def collect(*_call: object) -> int:
            collected.append("cell-1")
            return 0

        folders = several.cells.folders
        monkeypatch.setattr(folders["cell-3"].cell, "collect", hang)
        monkeypatch.setattr(folders["cell-1"].cell, "collect", collect)
        async with asyncio.timeout(_S_MAX):
            for _ in range(2):
                await several.upkeep(SystemClock().now_us())
                others = [one for name, one in several._tending.items() if name != "cell-3"]
                await asyncio.gather(*others)
        assert sorted(collected) == ["cell-1", "cell-1", "cell-3"]

    play(tmp_path, scenario)
