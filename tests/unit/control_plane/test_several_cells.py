"""Several embedded cells of one service: started again, failed, lost, added, removed."""

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from control_plane.cells import StartError
from control_plane.export.door import SOCKET
from control_plane.places.beating import Served
from control_plane.places.groups import REGISTRY
from control_plane.places.items import ACTIVE, DRAINING, FAILED, Heartbeat
from control_plane.places.report import CellCommandError
from control_plane.several_cells import SeveralCells
from control_plane.several_opening import open_folders
from data_plane.ports import CellUnavailableError, Key, Update
from data_plane.replication import fanout as fanout_module
from data_plane.replication import unneeded
from data_plane.replication.member_cell import StalePlacementError
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

from .starting import ITEM, groups_of, members, nothing, play, queue

pytestmark = pytest.mark.usefixtures("patience")


def test_a_new_service_and_its_next_starts(tmp_path: Path) -> None:
    async def first(several: SeveralCells) -> None:
        assert sorted(several.cells.folders) == ["cell-1", "cell-2", "cell-3"]
        assert len(several.known.placements) == 49
        assert members(several, REGISTRY) == ["cell-1", "cell-2", "cell-3"]
        await several.control.put(ITEM, {"v": 1})
        assert several.states() == dict.fromkeys(several.cells.folders, "available")
        assert several.gauges()["cell-1"]["groups"] == len(groups_of(several, "cell-1"))

    async def again(several: SeveralCells) -> None:
        assert await several.control.get(ITEM) == {"v": 1}
        assert {held.placement.epoch for held in several.known.placements.values()} == {1}
        assert len(several.cells.folders) == 3

    play(tmp_path, first, again)
    play(tmp_path, again, cells=2)  # the cells that are there know of the third one


def test_directories_may_be_named_in_any_order_and_be_moved(tmp_path: Path) -> None:
    async def put(several: SeveralCells) -> None:
        await several.control.put(ITEM, {"v": 1})

    async def get(several: SeveralCells) -> None:
        assert await several.control.get(ITEM) == {"v": 1}
        assert several.cells.folders["cell-1"].path.name == "x"

    named = [tmp_path / name for name in "xyz"]
    play(tmp_path / "data", put, cell_data=",".join(map(str, named)))
    play(tmp_path / "data", get, cell_data=",".join(map(str, reversed(named))))
    (tmp_path / "new").mkdir()
    new = [path.rename(tmp_path / "new" / path.name) for path in named]
    play(tmp_path / "data", get, cell_data=",".join(map(str, new)))


def test_a_cell_that_fails_leaves_the_registry_and_requests_go_on(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.control.put(ITEM, {"v": 1})
        await several.fail("cell-3")
        assert several.states()["cell-3"] == "unavailable"
        with pytest.raises(CellCommandError, match="no more than 1 of 3 cells answer"):
            await several.fail("cell-2")
        assert members(several, REGISTRY) == ["cell-1", "cell-2"]
        await several.control.put(ITEM, {"v": 1, "n": 2})
        report = await several.report()
        told = {cell.record.name: cell for cell in report.cells}
        assert told["cell-3"].failed == "an operator has failed it"
        assert told["cell-3"].record.state == FAILED
        assert told["cell-3"].groups == len(groups_of(several, "cell-3"))
        await several.restore("cell-3")
        assert several.states()["cell-3"] == "available"
        assert several.known.cells["cell-3"].state == ACTIVE
        await several.own.mend()
        assert await several.control.get(ITEM) == {"v": 1, "n": 2}

    async def again(several: SeveralCells) -> None:
        assert members(several, REGISTRY) == ["cell-1", "cell-2"]
        assert await several.control.get(ITEM) == {"v": 1, "n": 2}

    play(tmp_path, scenario, again)


@pytest.mark.parametrize("command", ["fail", "drain"])
def test_a_manager_that_lets_a_cell_into_the_registry_meanwhile_holds_up_nobody(
    tmp_path: Path, command: str
) -> None:
    async def scenario(several: SeveralCells) -> None:
        set_state, joined = several.places.set_state, list[str]()

        async def joins_first(name: str, state: str, *was: Collection[str]) -> object:
            assert not several.watch.report({})[name].answers  # no plan has it join
            if not joined:
                joined.append(name)
                epoch = several.own.placement().epoch
                await several.places.add_joining(REGISTRY, name, epoch=epoch)
                raise StalePlacementError("registry got a member while it was written to")
            return await set_state(name, state, *was)

        await several.look()
        await asyncio.gather(*several._probes)
        assert several.watch.report({})["cell-3"].answers
        several.places.set_state = joins_first  # type: ignore[assignment,method-assign]
        await getattr(several, command)("cell-3")
        assert joined == ["cell-3"]
        assert not several.watch.aside
        assert members(several, REGISTRY) == ["cell-1", "cell-2"]
        assert several.known.cells["cell-3"].state == (FAILED if command == "fail" else DRAINING)
        await several.control.put(ITEM, {"v": 1})

    play(tmp_path, scenario)


def test_upkeep_lets_idle_groups_collect_what_they_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unneeded, "FULL_US_MIN", 0)

    async def scenario(several: SeveralCells) -> None:
        for cells in (several.standard, several.fifo):
            held = cells["g3.00"].inner._unneeded._held  # type: ignore[attr-defined]
            held.append((ITEM,))
            await several.upkeep(SystemClock().now_us())
            assert not held

    play(tmp_path, scenario)


def test_a_cell_that_closes_itself_is_called_failed_and_another_start_takes_that_back(
    tmp_path: Path,
) -> None:
    async def scenario(several: SeveralCells) -> None:
        cell = several.cells.folders["cell-3"].cell.cell
        assert cell is not None
        cell._recover([], OSError("the disk is dead"))
        assert several.cells.folders["cell-3"].reason == ""  # its file could be opened again
        cell._store.let_go()
        cell._failure = "the cell cannot be opened again after a failed commit: dead"
        with pytest.raises(CellUnavailableError, match="cannot be opened again"):
            await several.control.put(ITEM, {"v": 1})
        await several.look()
        assert several.known.cells["cell-3"].state == FAILED
        assert members(several, REGISTRY) == ["cell-1", "cell-2"]
        assert several.states()["cell-3"] == "unavailable"
        await several.control.put(ITEM, {"v": 1})
        with pytest.raises(CellCommandError, match="no more than 1 of 3 cells answer"):
            await several.fail("cell-2")
        await several.fail("cell-3")
        assert several.known.cells["cell-3"].state == FAILED

    async def again(several: SeveralCells) -> None:
        assert several.known.cells["cell-3"].state == ACTIVE

    play(tmp_path, scenario, again)


def test_a_cell_stays_called_failed_while_it_cannot_be_opened(tmp_path: Path) -> None:
    async def fail(several: SeveralCells) -> None:
        await several.fail("cell-3")
        (tmp_path / "cell-3").rename(tmp_path / "elsewhere")
        (tmp_path / "cell-3").touch()
        with pytest.raises(CellCommandError, match="cannot open"):
            await several.restore("cell-3")
        assert several.known.cells["cell-3"].state == FAILED

    async def again(several: SeveralCells) -> None:
        assert several.known.cells["cell-3"].state == FAILED

    play(tmp_path, fail, again)


def test_nothing_keeps_the_disk_of_a_cell_that_an_operator_has_failed(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.look()
        directory = several.cells.folders["cell-3"].path
        assert (directory / SOCKET).is_socket()
        await several.fail("cell-3")
        assert not (directory / SOCKET).exists()
        assert not files_open_in(directory)
        await several.restore("cell-3")
        await several.look()
        assert (directory / SOCKET).is_socket()

    play(tmp_path, scenario)


def files_open_in(directory: Path) -> list[Path]:
    """What this process has open in there."""
    links = [Path(link) for link in Path("/proc/self/fd").iterdir()]
    targets = [link.readlink() for link in links if link.is_symlink()]
    return [target for target in targets if target.is_relative_to(directory)]


def test_a_look_probes_cells_and_reads_the_map(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.look()
        await asyncio.gather(*several._probes)
        assert all(seen.answers for seen in several.watch.report({}).values())
        await several.beat()
        (beat,) = await several.places.heartbeats()
        assert beat.front_end == several.heart.front_end
        assert set(beat.cells) == {"cell-1", "cell-2", "cell-3"}

    play(tmp_path, scenario)


def test_an_idle_service_writes_next_to_nothing(tmp_path: Path) -> None:
    async def looks(several: SeveralCells) -> None:
        await several.look()
        await asyncio.gather(*several._probes)
        await several.beat()

    async def scenario(several: SeveralCells) -> None:
        for _ in range(3):
            await looks(several)
        before = [one.cell.counters.writes for one in several.cells.folders.values()]
        (first,) = await several.places.heartbeats()
        for _ in range(20):
            await looks(several)
        assert [one.cell.counters.writes for one in several.cells.folders.values()] == before
        # Whatever is written to a cell has it probed by a write again.
        await several.control.put(ITEM, {"v": 1})
        await looks(several)
        after = [one.cell.counters.writes for one in several.cells.folders.values()]
        assert [now - then for now, then in zip(after, before, strict=True)] == [2, 2, 2]
        # A heartbeat goes out at once when somebody asks for something, or a cell fails.
        several.heart.served = lambda: Served(requests=10)
        several.heart._before_us -= 2_000_000
        await several.beat()
        (second,) = await several.places.heartbeats()
        assert second.time_us > first.time_us

    play(tmp_path, scenario)


def test_an_idle_cell_whose_disk_does_not_answer_is_seen_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(_path: object, _flags: int) -> int:
        raise OSError(5, "Input/output error")

    async def scenario(several: SeveralCells) -> None:
        for _ in range(2):
            await several.look()
            await asyncio.gather(*several._probes)
        assert all(seen.answers for seen in several.watch.report({}).values())
        monkeypatch.setattr("data_plane.embedded.store.os.open", dead)
        await several.look()
        await asyncio.gather(*several._probes)
        monkeypatch.undo()
        assert not any(seen.answers for seen in several.watch.report({}).values())

    play(tmp_path, scenario)


def test_a_disk_that_was_lost_is_given_up_and_begins_anew(tmp_path: Path) -> None:
    async def put(several: SeveralCells) -> None:
        await several.control.put(ITEM, {"v": 1})

    async def without(several: SeveralCells) -> None:
        assert members(several, REGISTRY) == ["cell-1", "cell-2"]
        assert groups_of(several, "cell-3") == []
        assert {held.placement.members[0].full for held in several.known.placements.values()}
        assert await several.control.get(ITEM) == {"v": 1}
        assert several.states()["cell-3"] == "available"
        joining = await several.places.add_joining("g3.00", "cell-3", epoch=2)
        assert joining.placement.members[-1].incarnation == 3

    async def with_it(several: SeveralCells) -> None:
        assert groups_of(several, "cell-3") == ["g3.00"]

    play(tmp_path, put)
    shutil.rmtree(tmp_path / "cell-3")
    play(tmp_path, without, with_it)


def test_a_lost_disk_with_the_only_copy_of_a_queue_is_not_used(tmp_path: Path) -> None:
    async def create(several: SeveralCells) -> None:
        at = next(
            name
            for name in several.known.placements
            if name.startswith("g1.") and members(several, name) == ["cell-3"]
        )
        await several.placing.placed(queue("0" * 16, at))

    async def refused(several: SeveralCells) -> None:
        reason = several.cells.folders["cell-3"].cell.reason
        assert reason.startswith("cell-3 (cell-3) is missing, and g1.")
        assert several.states()["cell-3"] == "unavailable"
        with pytest.raises(CellCommandError, match="has the last full copy"):
            await several.restore("cell-3")

    play(tmp_path, create)
    shutil.rmtree(tmp_path / "cell-3")
    play(tmp_path, refused)


def test_an_empty_directory_in_the_place_of_a_failed_cell(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.fail("cell-3")
        await several._leave_registry("cell-3")
        shutil.rmtree(tmp_path / "cell-3")
        await several.restore("cell-3")
        assert groups_of(several, "cell-3") == []

    play(tmp_path, scenario, nothing)


def test_most_cells_have_to_be_there(tmp_path: Path) -> None:
    play(tmp_path, nothing)
    shutil.rmtree(tmp_path / "cell-2")
    shutil.rmtree(tmp_path / "cell-3")
    with pytest.raises(StartError, match=r"^cells: 1 of 3 cells can be read, which is not more"):
        play(tmp_path, nothing)


def test_a_cell_that_cannot_be_opened_is_a_failed_one(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        assert members(several, REGISTRY) == ["cell-1", "cell-3"]
        assert "cannot use" in several.cells.folders["cell-2"].cell.reason
        assert several.states()["cell-2"] == "unavailable"

    play(tmp_path, nothing)
    shutil.rmtree(tmp_path / "cell-2")
    (tmp_path / "cell-2").touch()
    play(tmp_path, scenario)


def test_what_another_server_has_is_in_use_and_not_damaged(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        with pytest.raises(StartError, match=r"^data: .* is in use by another process$"):
            await asyncio.to_thread(play, tmp_path, nothing)
        assert several.states() == dict.fromkeys(several.cells.folders, "available")

    play(tmp_path, scenario)


def test_what_a_server_repeats_shows_that_it_gets_on(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        ticks = several.watch._ticks
        for _period_s, step in several.steps:
            await step()
        assert ticks._ticked_us is not None
        ticks._ticked_us -= 10_000_000  # as if the process had been held up since
        assert ticks.held_up_us() > 9_000_000

    play(tmp_path, scenario)


def test_two_servers_cannot_have_one_cell(tmp_path: Path) -> None:
    async def scenario(_several: SeveralCells) -> None:
        settings = ServerSettings(data=tmp_path, cells=3)
        with pytest.raises(StartError, match="is in use by another process"):
            await open_folders(settings, SystemClock(), SystemEntropy())

    play(tmp_path, scenario)


def test_a_cell_is_added_drained_and_removed(tmp_path: Path) -> None:
    async def add(several: SeveralCells) -> None:
        assert await several.add("more") == "cell-4"
        assert len(several.known.placements) == 65
        assert several.states()["cell-4"] == "available"
        assert several.placing.place("0" * 16, {"TidegateReplicationFactor": "4"}) == "g4.00"
        with pytest.raises(CellCommandError, match="is a cell of this service already"):
            await several.add("more")

    async def drain(several: SeveralCells) -> None:
        assert str(several.cells.folders["cell-4"].path) == str(tmp_path / "more")
        await several.drain("cell-4")
        await several.known.refresh()
        assert several.known.cells["cell-4"].state == DRAINING
        with pytest.raises(CellCommandError, match="cell-4 has 16 groups yet"):
            await several.remove("cell-4")
        await several.restore("cell-4")
        await several.known.refresh()
        assert several.known.cells["cell-4"].state == ACTIVE
        await several.drain("cell-4")
        for group in groups_of(several, "cell-4"):
            await several.places.drop_member(group, "cell-4", epoch=1)
        await several.remove("cell-4")
        assert "cell-4" not in several.cells.folders
        with pytest.raises(CellCommandError, match="there is no cell cell-4"):
            await several.drain("cell-4")

    async def without(several: SeveralCells) -> None:
        assert sorted(several.cells.folders) == ["cell-1", "cell-2", "cell-3"]
        assert await several.add("another") == "cell-5"
        with pytest.raises(CellCommandError, match="was a cell of a service before"):
            await several.add("more")

    play(tmp_path, add, drain, without)


def test_what_a_copy_of_the_registry_consists_of(tmp_path: Path) -> None:
    async def scenario(several: SeveralCells) -> None:
        await several.control.put(ITEM, {"v": 1})
        await several.look()
        await asyncio.gather(*several._probes)
        plain = several.cells.plain["cell-3"]
        await plain.put(Key("B|0|00|0", b"1"), {"v": 1})
        await plain.put(Key("Q|1|eu-west-1@7", b"1"), {"v": 1})
        await plain.put(Key("N|00112233445566aa|00000000|0", b"1"), {"v": 1})  # a shard's log
        offsets = "O|00112233445566bb|o"  # of a consumer group
        await plain.put(Key(offsets, b"1"), {"v": 1})
        wanted = ["C|", offsets, "P|", "Q|1|us-east-1", "Y|"]
        assert await several.registry_partitions() == wanted
        await several._leave_registry("cell-3")
        joined = await several.places.add_joining(REGISTRY, "cell-3", epoch=2)
        await several.control.put(Key("Q|1|us-west-1", b"1"), {"v": 1})
        assert "Q|1|us-west-1" in await several.registry_partitions()
        await several.places.make_full(REGISTRY, "cell-3", epoch=joined.placement.epoch)
        assert await several.registry_partitions() == ["Q|1|us-west-1"]

    play(tmp_path, scenario)


def test_who_ends_is_forgotten_and_who_crashes_or_has_more_to_tell_is_not(tmp_path: Path) -> None:
    state = Key("S|0011223344556600|00|0", bytes(10))
    ended: list[str] = []

    async def with_more_to_tell(several: SeveralCells) -> None:
        ended.append(several.heart.front_end)
        await several.standard["g3.00"].update(state, Update({"v": 1}, {"d": frozenset({1})}))
        for folder in several.cells.folders.values():
            await folder.cell.close()  # as in a crash nothing is written from now on

    async def check(several: SeveralCells) -> None:
        beats = await several.places.heartbeats()
        assert {beat.front_end for beat in beats} == {*ended, several.heart.front_end}

    play(tmp_path, nothing, check, with_more_to_tell, check)


def test_what_a_copy_does_not_take_is_noted_when_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout_module, "PENDING_MAX", 1)

    async def scenario(several: SeveralCells) -> None:
        cell = several.standard["g3.00"]
        for block in range(3):
            key = Key("S|0011223344556600|00|0", bytes((*bytes(9), block)))
            await cell.update(key, Update({"v": 1}, {"d": frozenset({1})}))
        (fanout,) = several.standard.fanouts().values()
        since_us = fanout.forgotten_since_us
        assert since_us is not None
        assert not several.heart.has_told_all()
        for _ in range(2):
            await several.beat()
        beats = await several.places.heartbeats()
        notes = [beat for beat in beats if beat.front_end != several.heart.front_end]
        assert [note.told_us for note in notes] == [since_us]
        await fanout.ship()
        assert several.heart.has_told_all()

    play(tmp_path, scenario)


def test_what_a_front_end_forgot_to_tell_is_noted_before_it_says_that_it_told_all(
    tmp_path: Path,
) -> None:
    async def scenario(several: SeveralCells) -> None:
        stored = several.places.beat
        _ = several.standard["g3.00"]
        (fanout,) = several.standard.fanouts().values()
        beats = {one.front_end: one for one in await several.places.heartbeats()}
        since_us = beats[several.heart.front_end].told_us
        fanout.forgotten_since_us = since_us

        async def ends(beat: Heartbeat) -> None:
            several.places.beat = never  # type: ignore[method-assign]
            await stored(beat)

        async def never(beat: Heartbeat) -> None:
            raise CellUnavailableError(f"{beat.front_end} was killed")

        several.places.beat = ends  # type: ignore[method-assign]
        with pytest.raises(CellUnavailableError):
            await several.beat()
        known = [one.told_us for one in await several.places.heartbeats()]
        assert min(told_us for told_us in known if told_us is not None) == since_us

    play(tmp_path, scenario)
