"""Cells whose directories are moved, swapped, deleted or replaced while they are open."""

import asyncio
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from control_plane.cells import StartError
from control_plane.places.groups import REGISTRY
from control_plane.places.items import ACTIVE, StoredPlacement
from control_plane.places.report import CellCommandError
from control_plane.places.stored import Places, StalePlanError
from control_plane.places.watching import CellWatch
from control_plane.several_cells import SeveralCells
from data_plane.ports import CellUnavailableError
from tests.unit.control_plane.starting import (
    ITEM,
    groups_of,
    members,
    nothing,
    play,
    queue,
)

pytestmark = pytest.mark.usefixtures("patience")


async def looked(several: SeveralCells) -> dict[str, str]:
    """How the cells are, after a look at each; those that are under way end first."""
    await asyncio.gather(*several._probes)
    await asyncio.gather(*(several.watch.probe(name) for name in several.watch.idle()))
    return several.states()


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize("cells", [3, 5])
def test_swapped_directories_are_not_taken_for_each_other(tmp_path: Path, cells: int) -> None:
    async def scenario(several: SeveralCells) -> None:
        swap(tmp_path / "cell-1", tmp_path / "cell-2")
        found = await looked(several)
        assert [found[f"cell-{n}"] for n in (1, 2, 3)] == ["unavailable"] * 2 + ["available"]
        if len(found) == 3:
            helps = r"1 of 3 .* without most of them .* put them back, or start the server again"
            for command in (several.restore, several.fail, several.drain):
                with pytest.raises(CellCommandError, match=helps):
                    await command("cell-1")
            return
        with pytest.raises(CellCommandError, match="is in use by another process"):
            await several.restore("cell-1")
        with pytest.raises(CellCommandError, match="has another cell of this service"):
            await several.restore("cell-2")
        swap(tmp_path / "cell-1", tmp_path / "cell-2")
        for name in ("cell-1", "cell-2"):
            await several.restore(name)
        assert set((await looked(several)).values()) == {"available"}

    play(tmp_path, scenario, cells=cells)


def test_that_the_registry_keeps_a_failing_cell_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("control_plane.several_cells.REGISTRY_DOWN_US", 0)
    # As if a third cell answered, without the registry.
    monkeypatch.setattr(CellWatch, "_any_answers", lambda _watch: True)

    async def scenario(several: SeveralCells) -> None:
        for name in ("cell-2", "cell-1"):
            shutil.rmtree(tmp_path / name)
            await looked(several)
            for _ in range(2):
                with suppress(CellUnavailableError):
                    await several.look()

    play(tmp_path, scenario, cells=2)
    kept = [line for line in caplog.messages if "the registry keeps it" in line]
    assert len(kept) == 1
    assert "cell-1 has the last full copy" in kept[0]


@pytest.mark.parametrize("away", [[], ["cell-1"], ["cell-1", "cell-2", "cell-3"]])
def test_a_second_server_finds_the_service_in_use_whatever_is_left(
    tmp_path: Path, away: list[str]
) -> None:
    async def scenario(_several: SeveralCells) -> None:
        for name in away:
            shutil.rmtree(tmp_path / name)
        with pytest.raises(StartError, match=f"^data: {tmp_path} is in use by another process$"):
            await asyncio.to_thread(play, tmp_path, nothing)

    play(tmp_path, scenario)
    play(tmp_path.with_name("another"), nothing)


def test_what_is_back_goes_on_as_it_was(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        had = groups_of(several, "cell-2")
        (tmp_path / "cell-2").rename(tmp_path / "away")
        assert (await looked(several))["cell-2"] == "unavailable"
        (tmp_path / "away").rename(tmp_path / "cell-2")
        await several.restore("cell-2")
        assert (await looked(several))["cell-2"] == "available"
        assert groups_of(several, "cell-2") == had

    play(tmp_path, scenario)


def test_what_stands_there_instead_is_taken_for_nothing(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        (tmp_path / "copy").mkdir()
        shutil.copyfile(tmp_path / "cell-2" / "data.mdb", tmp_path / "copy" / "data.mdb")
        await several.control.put(ITEM, {"v": 1})
        (tmp_path / "copy" / "data.mdb").replace(tmp_path / "cell-2" / "data.mdb")
        assert (await looked(several))["cell-2"] == "unavailable"
        await several.restore("cell-2")
        assert several.known.cells["cell-2"].state == ACTIVE
        assert "cell-2" not in members(several, REGISTRY)
        assert groups_of(several, "cell-2") == []
        assert await several.control.get(ITEM) == {"v": 1}

    play(tmp_path, scenario)


def test_the_only_copy_of_a_queue_is_not_let_go_of(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        group = next(name for name in groups_of(several, "cell-2") if name.startswith("g1."))
        await several.placing.placed(queue("0" * 30 + group[-2:], group))
        shutil.rmtree(tmp_path / "cell-2")
        assert (await looked(several))["cell-2"] == "unavailable"
        alone = r"cell-2 has the only copy of 1 queue \(orders of account 1{12}\)"
        saved = (
            "/proc/[0-9]+/fd/[0-9]+ has what was there: copy that, stop the server, put the copy"
        )
        for command in (several.restore, several.remove, several.fail):
            with pytest.raises(
                CellCommandError, match=f"{alone}, which would lose.*{saved}.*; or `ti"
            ):
                await command("cell-2")
        told = {one.record.name: one.failed for one in (await several.report()).cells}
        lost = "--lose-messages` gives it up, and loses all messages in there$"
        assert re.search(f"{saved}.* It has the only copy of 1 queue .* {lost}", told["cell-2"])
        assert "cells restore" not in told["cell-2"]  # that is refused
        assert several.cells.folders["cell-2"].cell.file is not None  # it can still be copied

    play(tmp_path, scenario)


def test_a_cell_that_queues_rely_on_is_not_failed(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        group = next(name for name in groups_of(several, "cell-2") if name.startswith("g1."))
        await several.placing.placed(queue("0" * 30 + group[-2:], group))
        with pytest.raises(
            CellCommandError, match=r"only copy of 1 .*`tidegate cells drain cell-2`"
        ):
            await several.fail("cell-2")
        assert several.states()["cell-2"] == "available"
        await several.fail("cell-1")  # what it alone has is used by nobody

    play(tmp_path, scenario)


def test_refusals_about_an_only_copy_do_not_name_each_other(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        group = next(name for name in groups_of(several, "cell-2") if name.startswith("g1."))
        await several.fail("cell-2")
        await several.placing.placed(queue("0" * 30 + group[-2:], group))
        with pytest.raises(CellCommandError, match=r"`tidegate cells restore cell-2` brings it ba"):
            await several.remove("cell-2")
        (tmp_path / "cell-2").rename(tmp_path / "away")
        back = "put its directory back as it was last, and `tidegate cells restore cell-2`"
        for command in (several.restore, several.remove):
            with pytest.raises(CellCommandError) as told:
                await command("cell-2")
            ways = str(told.value).split(": ", 1)[1]
            assert back in ways
            assert re.search(
                r"loses?\b.* `tidegate cells remove cell-2 --lose-mess", str(told.value)
            )
        shutil.rmtree(tmp_path / "cell-2")
        (tmp_path / "away").rename(tmp_path / "cell-2")
        await several.restore("cell-2")
        assert several.states()["cell-2"] == "available"

    play(tmp_path, scenario)


def test_an_only_copy_is_not_let_go_of_for_one_that_does_not_answer(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        group = next(name for name in groups_of(several, "cell-2") if name.startswith("g2."))
        other = next(name for name in members(several, group) if name != "cell-2")
        await several.placing.placed(queue("0" * 30 + group[-2:], group))
        await two_more(several)
        shutil.rmtree(tmp_path / other)
        shutil.rmtree(tmp_path / "cell-2")
        await looked(several)
        with pytest.raises(CellCommandError, match=r"cell-2 has the only copy of 1 queue"):
            await several.restore("cell-2")

    play(tmp_path, scenario)


def test_an_empty_disk_answers_nothing_before_its_groups_go_on_without(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        leave_groups = several.parting.leave_groups
        answered: list[str] = []

        async def and_look(name: str, lost: Collection[str]) -> None:
            await leave_groups(name, lost)
            with suppress(CellUnavailableError):
                await several.cells.folders[name].cell.get(ITEM)
                answered.append(name)

        several.parting.leave_groups = and_look  # type: ignore[method-assign]
        await several.fail("cell-2")
        shutil.rmtree(tmp_path / "cell-2")
        assert groups_of(several, "cell-2")  # no manager is there
        await several.restore("cell-2")
        assert answered == []
        assert several.states()["cell-2"] == "available"

    play(tmp_path, scenario)


async def two_more(several: SeveralCells) -> None:
    """Add two cells; without a manager they join nothing."""
    for name in ("cell-4", "cell-5"):
        assert await several.add(name) == name


def test_an_empty_disk_leaves_a_registry_that_has_few_copies_yet(tmp_path: Path) -> None:
    async def put(several: SeveralCells) -> None:
        await several.control.put(ITEM, {"v": 1})

    async def get(several: SeveralCells) -> None:
        assert len(several.own.paths) == 5
        assert members(several, REGISTRY) == ["cell-1", "cell-2"]
        assert await several.control.get(ITEM) == {"v": 1}

    play(tmp_path, put, two_more)
    shutil.rmtree(tmp_path / "cell-3")
    play(tmp_path, get)


def test_a_start_meets_what_was_half_written_when_the_process_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_member, met = Places.drop_member, set[str]()

    async def drop(self: Places, group: str, cell: str, **how: Any) -> StoredPlacement:
        if group not in met:
            met.add(group)
            raise StalePlanError((await self.read(group)).placement, how["epoch"])
        return await drop_member(self, group, cell, **how)

    async def emptied(several: SeveralCells) -> None:
        assert "g3.07" in met
        assert groups_of(several, "cell-2") == []

    async def as_before(several: SeveralCells) -> None:
        assert groups_of(several, "cell-2")

    play(tmp_path, as_before)
    shutil.rmtree(tmp_path / "cell-2")
    monkeypatch.setattr(Places, "drop_member", drop)
    play(tmp_path, emptied)


def test_a_missing_cell_leaves_a_registry_that_has_few_copies_yet(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        assert len(several.own.paths) == 5
        shutil.rmtree(tmp_path / "cell-3")
        assert (await looked(several))["cell-3"] == "unavailable"
        await several.restore("cell-3")
        assert members(several, REGISTRY) == ["cell-1", "cell-2"]
        await several.control.put(ITEM, {"v": 1})

    play(tmp_path, two_more, scenario)
