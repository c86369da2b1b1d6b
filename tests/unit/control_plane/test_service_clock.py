"""Which clock a server goes by: never the machine's alone."""

import asyncio
import logging
from pathlib import Path
from typing import cast

import pytest

from control_plane.cells import OpenedCell
from control_plane.one_cell import open_cell
from control_plane.service_clock import (
    StoreClock,
    clock_gauges,
    clock_of,
    clock_to_open_with,
    describe,
    log_step,
    world_ms,
)
from control_plane.several_opening import open_folders
from data_plane.bag.engine import Bag
from data_plane.core.cell_clock import CellClock, ClockStep
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.dynamodb.store_time import ClockExchange, StoreTime
from data_plane.embedded.cell import EmbeddedCell
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock
from tests.unit.data_plane.bag.conftest import QUEUE as STANDARD
from tests.unit.data_plane.log.conftest import QUEUE as FIFO
from tests.unit.machine import DAY_US, HOUR_US, SECOND_US, START_US, Machine
from tests.unit.repeatable import HandClock, SeededEntropy


def test_embedded_cells_have_cell_time_and_tables_their_own() -> None:
    assert isinstance(clock_to_open_with(ServerSettings()), CellClock)
    assert isinstance(clock_to_open_with(ServerSettings(cells=3)), CellClock)
    assert isinstance(clock_to_open_with(ServerSettings(cell="dynamodb")), SystemClock)
    opened = cast(OpenedCell, type("Opened", (), {"cell": MemoryCell(HandClock())})())
    assert isinstance(clock_of(SystemClock(), opened), StoreClock)
    clock = clock_to_open_with(ServerSettings())
    assert clock_of(clock, opened) is clock


def test_what_is_told_of_a_step(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for step in (ClockStep(-HOUR_US), ClockStep(DAY_US), ClockStep(-HOUR_US, "/data")):
            log_step(step)
    back, ahead, behind = caplog.messages
    assert "set back by 3600 s" in back
    assert "set ahead by 86400 s" in ahead
    assert "3600 s behind the latest stamp in /data" in behind


def test_health_and_metrics() -> None:
    machine = Machine()
    clock = machine.start()
    assert describe(clock) == describe(SystemClock()) == "ok"
    assert clock_gauges(SystemClock()) == {}
    clock.learn(START_US + HOUR_US, None, "cell")
    machine.passes(SECOND_US, clock)
    assert describe(clock) == "behind the store by 3600 s"
    assert clock_gauges(clock) == {"clock_lead_seconds": 3600.0, "clock_steps_total": 0}
    assert world_ms(clock) == machine.true_us // 1000


class Table(MemoryCell):
    """A table as one server sees it: its time is known by the `Date` of answers."""

    def __init__(self, of: MemoryCell | None, true: HandClock, wrong_us: int) -> None:
        super().__init__(true, stamps=False)
        if of is not None:
            self._partitions = of._partitions
        self._true, self._wrong_us = true, wrong_us
        self.time = StoreTime(self._Wrong(true, wrong_us), true.now_us)
        self.answers()

    class _Wrong:
        def __init__(self, true: HandClock, wrong_us: int) -> None:
            self._true, self._wrong_us = true, wrong_us

        def now_us(self) -> int:
            return self._true.now_us() + self._wrong_us

    def answers(self) -> None:
        now_us = self._true.now_us()
        self.time.observe(ClockExchange(now_us, now_us, now_us // SECOND_US * SECOND_US))

    def now_us(self) -> int:
        return self.time.now_us()


@pytest.mark.parametrize("wrong_us", [HOUR_US, -HOUR_US, DAY_US])
@pytest.mark.parametrize("queue", [STANDARD, FIFO], ids=["standard", "fifo"])
def test_a_server_whose_machine_is_wrong_respects_what_others_hold(
    queue: Queue, wrong_us: int
) -> None:
    true, entropy = HandClock(), SeededEntropy()
    right = Table(None, true, 0)
    wrong = Table(right, true, wrong_us)
    kind = Log if queue is FIFO else Bag
    engines = [
        kind({"a": table}, clock := StoreClock(table), entropy, EventLoopWaits(clock))
        for table in (right, wrong)
    ]
    message = Outgoing(
        body="a",
        size=1,
        group="g" if queue is FIFO else "",
        deduplication_id="a" if queue is FIFO else "",
    )

    async def receive(by: int) -> list[Delivery]:
        for table in (right, wrong):
            table.answers()
        return await engines[by].receive(queue, count=1, visibility_s=30, until_us=0)

    async def scenario() -> None:
        await engines[1].send(queue, SendCall(queue.account, [message]))
        true.advance(2)
        assert len(await receive(0)) == 1
        assert not await receive(1)
        true.advance(33)
        assert len(await receive(1)) == 1
        assert not await receive(0)
        true.advance(33)
        assert len(await receive(0)) == 1

    asyncio.run(scenario())


def test_cell_time_lies_in_the_cell(tmp_path: Path) -> None:
    """Stamps, eras and what may be removed, over three processes."""
    machine = Machine(wrong_us=DAY_US)
    record = Append("B|a|00|0", b"x", {"v": 1}, 0)

    async def process(wrong_us: int, closed_us: int) -> tuple[int, int]:
        machine.wrong_us = wrong_us
        machine.passes(closed_us)
        clock = machine.start()
        cell = EmbeddedCell(tmp_path, clock)
        stamp_us = (await cell.append(record)).stamp_us
        assert cell.now_us() >= stamp_us
        removed = await cell.collect(clock.now_us() // SECOND_US + 1, 100)
        await cell.close()
        return stamp_us, removed

    ahead_us, _ = asyncio.run(process(DAY_US, 0))
    right_us, _ = asyncio.run(process(0, 5 * SECOND_US))
    assert machine.told == [ClockStep(-DAY_US + 5 * SECOND_US, str(tmp_path))]
    last_us, _ = asyncio.run(process(0, 60 * SECOND_US))
    assert ahead_us < right_us < last_us
    assert abs(last_us - right_us - 60 * SECOND_US) < 10  # stamps of one moment follow each other
    assert len(machine.told) == 1


@pytest.mark.parametrize("knows", ["cell-1", "cell-3"])
def test_of_several_cells_the_one_that_was_written_to_last_is_gone_by(
    tmp_path: Path, knows: str
) -> None:
    """Whichever is opened first: it alone has stored that the clock was set."""
    machine = Machine()
    settings = ServerSettings(data=tmp_path, cells=3)

    async def left(wrong_us: int) -> str:
        clock = machine.start()
        several = await open_folders(settings, clock, SeededEntropy(machine.true_us))
        told = describe(clock)
        machine.wrong_us = wrong_us
        machine.passes(60 * SECOND_US, clock)
        await several.cells.folders[knows].cell.put(Key("M|anything", b""), {"v": 1})
        for folder in several.cells.folders.values():
            await folder.cell.close()
        several._folders.unlock()
        machine.passes(60 * SECOND_US)
        return told

    assert asyncio.run(left(DAY_US)) == "ok"
    assert asyncio.run(left(DAY_US)) == "ahead of the store by 86400 s, believed in 900 s"


@pytest.mark.parametrize("wrong_us", [0, DAY_US])
def test_a_start_long_after_the_last_stamp_removes_nothing_at_first(
    tmp_path: Path, wrong_us: int
) -> None:
    machine = Machine()

    async def first() -> None:
        cell = EmbeddedCell(tmp_path, machine.start())
        expires_s = START_US // SECOND_US + 600
        await cell.append(Append("B|a|00|0", b"x", {"v": 1, "x": expires_s}, 0))
        await cell.close()

    async def second() -> None:
        clock = machine.start()
        cell = EmbeddedCell(tmp_path, clock)
        assert await cell.collect(clock.now_us() // SECOND_US, 100) == 0
        machine.wrong_us = 0
        machine.passes(3_600 * SECOND_US, clock)
        removed = await cell.collect(clock.now_us() // SECOND_US, 100)
        assert removed == 1  # its 600 s are over in any case by now
        await cell.close()

    asyncio.run(first())
    machine.wrong_us = wrong_us
    machine.passes(SECOND_US if wrong_us else DAY_US)
    asyncio.run(second())


def test_a_server_opens_its_cell_with_cell_time(tmp_path: Path) -> None:
    async def opened() -> str:
        settings = ServerSettings(data=tmp_path / "data")
        clock = clock_to_open_with(settings)
        cell = await open_cell(settings, clock)
        eras = cell.cell.eras
        await cell.close()
        assert isinstance(clock, CellClock)
        assert eras is clock.eras
        return describe(clock)

    assert asyncio.run(opened()) == "ok"
