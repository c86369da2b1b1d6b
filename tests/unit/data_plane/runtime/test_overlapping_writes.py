"""Writes of one call that overlap under the blocking driver: to two cells, and through the bag.

Each write waits in its thread until the other one has begun, so none returns where they do not.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.message import Outgoing, SendCall
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Appended, CellUnavailableError
from data_plane.runtime.blocking import BlockingDriver, BlockingWaits
from tests.conformance.on_driver import OffloadedCell
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.repeatable import HandClock, SeededEntropy

LIMIT_S = 20


class MeetingCell(OffloadedCell):
    """A cell whose appends meet those of others in the midst of the call."""

    def __init__(self, driver: BlockingDriver, meet: threading.Barrier) -> None:
        self.memory = MemoryCell(driver.clock)
        self._meet = meet
        super().__init__(self.memory, driver.offload, threading.Lock())

    async def append(self, *of: Any, **named: Any) -> Appended:
        def call() -> Appended:
            self._meet.wait()
            return self._call(self.memory.append, of, named)

        return await self._offload(call)


class LostCell(MeetingCell):
    """One that does not answer."""

    def _call(self, *_of: Any) -> Any:
        raise CellUnavailableError("no answer")


@pytest.fixture
def driver() -> Iterator[BlockingDriver]:
    clock = HandClock()
    opened = BlockingDriver(clock, clock.advance, threads_max=4)
    yield opened
    opened.close()


@pytest.fixture
def meet() -> threading.Barrier:
    return threading.Barrier(2, timeout=LIMIT_S)


def record(name: bytes) -> Append:
    return Append("Q", name, {"v": 1}, 1)


def test_two_cells_are_written_at_the_same_time(
    driver: BlockingDriver, meet: threading.Barrier
) -> None:
    cells = [MeetingCell(driver, meet) for _ in range(2)]

    async def write(round_name: bytes) -> list[Appended | Exception]:
        appends = [cell.append(record(round_name + b"%d" % n)) for n, cell in enumerate(cells)]
        return await BlockingWaits(driver).all_of(appends)

    for round_name in (b"first", b"next"):
        written = driver.run(write(round_name))
        suffixes = [answer.key.sort[8:] for answer in written if isinstance(answer, Appended)]
        assert suffixes == [round_name + b"0", round_name + b"1"]
    assert [len(cell.memory.items()) for cell in cells] == [2, 2]


def test_a_cell_that_fails_leaves_the_other_its_write(
    driver: BlockingDriver, meet: threading.Barrier
) -> None:
    lost, well = LostCell(driver, meet), MeetingCell(driver, meet)
    appends = [lost.append(record(b"a")), well.append(record(b"a"))]
    failure, written = driver.run(BlockingWaits(driver).all_of(appends))
    assert isinstance(failure, CellUnavailableError)
    assert isinstance(written, Appended)
    assert len(well.memory.items()) == 1


def test_a_batch_with_two_delays_is_two_writes_at_the_same_time(
    driver: BlockingDriver, meet: threading.Barrier
) -> None:
    cell = MeetingCell(driver, meet)
    bag = Bag({"a": cell}, driver.clock, SeededEntropy(), BlockingWaits(driver))
    batch = [Outgoing("now", ()), Outgoing("later", (), delay_s=5), Outgoing("now, too", ())]
    ids = driver.run(bag.send(QUEUE, SendCall("sender", batch)))
    assert len(set(ids)) == 3
    assert cell.memory.requests["append"] == 2

    def bodies() -> list[str]:
        receive = bag.receive(QUEUE, count=10, visibility_s=30, until_us=0)
        return [delivery.message.body for delivery in driver.run(receive)]

    # The bag is the same, from one run of the driver to the next.
    assert bodies() == ["now", "now, too"]
    assert isinstance(driver.clock, HandClock)
    driver.clock.advance(5)
    assert bodies() == ["later"]


def test_a_long_poll_sleeps_and_looks_again(driver: BlockingDriver) -> None:
    clock = driver.clock
    assert isinstance(clock, HandClock)
    started_us = clock.now_us()
    cell = MeetingCell(driver, threading.Barrier(1))
    bag, other = (Bag({"a": cell}, clock, SeededEntropy(), BlockingWaits(driver)) for _ in range(2))

    def poll(wait_s: int) -> list[str]:
        until_us = clock.now_us() + wait_s * 1_000_000
        receive = bag.receive(QUEUE, count=10, visibility_s=30, until_us=until_us)
        return [delivery.message.body for delivery in driver.run(receive)]

    assert poll(20) == []
    assert clock.now_us() == started_us + 20_000_000
    driver.run(other.send(QUEUE, SendCall("sender", [Outgoing("in a while", (), delay_s=7)])))
    assert poll(20) == ["in a while"]
    assert clock.now_us() - started_us < 28_100_000
