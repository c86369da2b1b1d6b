"""The memory cell against the contract of cells, and what only it promises."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Cell, Key
from tests.conformance.cell_suite import KEY, NOON_US, CellSuite, ManualClock, Opened, run
from tests.conformance.on_driver import OffloadedCell, OnDriver, a_driver


@asynccontextmanager
async def open_memory_cell(clock: ManualClock) -> AsyncIterator[Cell]:
    yield MemoryCell(clock)


class TestMemoryCell(CellSuite):
    @pytest.fixture
    def opened(self) -> Opened:
        return open_memory_cell


class TestMemoryCellOnTheBlockingDriver(CellSuite):
    @pytest.fixture
    def opened(self) -> Iterator[Opened]:
        @asynccontextmanager
        async def open_cell(clock: ManualClock) -> AsyncIterator[Cell]:
            yield OffloadedCell(MemoryCell(clock), driver.offload, threading.Lock())

        with a_driver() as driver:
            yield OnDriver(driver, open_cell)


def test_expired_items_are_gone_at_once() -> None:
    async def scenario(cell: Cell, _clock: ManualClock) -> None:
        await cell.put(KEY, {"v": 1})
        cell.expire([KEY, Key("none", b"")])
        assert await cell.get(KEY) is None

    run(open_memory_cell, scenario)


def test_requests_and_items_read_are_counted() -> None:
    async def scenario(_cell: Cell, clock: ManualClock) -> None:
        cell = MemoryCell(clock)
        for sort in (b"a", b"b", b"c"):
            await cell.put(Key("Q", sort), {"v": 1})
        await cell.query("Q", limit=2)
        await cell.get(Key("Q", b"none"))
        await cell.get_many([Key("Q", b"a"), Key("Q", b"none")])
        cell.expire([Key("Q", b"a")])
        assert cell.requests == {"put": 3, "query": 1, "get": 1, "get_many": 1}
        assert cell.items_read == 3

    run(open_memory_cell, scenario)


def test_without_stamps_it_takes_the_proposed_ones() -> None:
    async def scenario(_cell: Cell, clock: ManualClock) -> None:
        cell = MemoryCell(clock, stamps=False)
        for proposed_us in (NOON_US + 9, NOON_US - 9):
            appended = await cell.append(Append("Q", b"s", {"v": 1}, proposed_us))
            assert appended.stamp_us == proposed_us
            assert appended.time_ms == NOON_US // 1000
        assert cell.now_us() == NOON_US + 9

    run(open_memory_cell, scenario)


def test_what_was_read_does_not_change_with_the_item() -> None:
    async def scenario(cell: Cell, _clock: ManualClock) -> None:
        attributes = {"v": 1}
        await cell.put(KEY, attributes)
        attributes["v"] = 2
        read = await cell.get(KEY)
        await cell.put(KEY, {"v": 3})
        assert read == {"v": 1}

    run(open_memory_cell, scenario)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_query_without_a_limit_is_a_mistake(limit: int) -> None:
    async def scenario(cell: Cell, _clock: ManualClock) -> None:
        with pytest.raises(ValueError, match="at least one item"):
            await cell.query("Q", limit=limit)

    run(open_memory_cell, scenario)
