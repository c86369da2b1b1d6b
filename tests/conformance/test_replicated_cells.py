"""Replicated cells against the contract of cells, over members of several kinds."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from data_plane.memory.cell import MemoryCell
from data_plane.ports import Cell, Key
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.placement import Member, Placement
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.merging import lacking
from tests.conformance.cell_suite import CellSuite, ManualClock, Opened
from tests.conformance.embedded_cell import embedded

MEMBERS = (Member("a"), Member("b", 3), Member("c", 4, full=False))
AT = Placement("g3.00", 4, MEMBERS)


class TestChain(CellSuite):
    @pytest.fixture
    def opened(self) -> Opened:
        @asynccontextmanager
        async def open_cell(clock: ManualClock) -> AsyncIterator[Cell]:
            cells = {name: MemoryCell(clock) for name in "abc"}
            yield Chain(lambda: AT, cells, EventLoopWaits(clock))

        return open_cell


class TestChainOfEmbeddedCells(CellSuite):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opened:
        @asynccontextmanager
        async def open_cell(clock: ManualClock) -> AsyncIterator[Cell]:
            async with AsyncExitStack() as stack:
                cells = {
                    name: await stack.enter_async_context(embedded(tmp_path / name, clock))
                    for name in "abc"
                }
                yield Chain(lambda: AT, cells, EventLoopWaits(clock))

        return open_cell


class TestFanout(CellSuite):
    async def count(self, cell: Cell, counter: Key) -> int | None:
        assert isinstance(cell, Fanout)
        await cell.ship()
        return await super().count(cell, counter)

    @pytest.fixture
    def opened(self) -> Opened:
        @asynccontextmanager
        async def open_cell(clock: ManualClock) -> AsyncIterator[Cell]:
            cells = {name: MemoryCell(clock) for name in "abc"}
            yield Fanout(lambda: AT, cells, EventLoopWaits(clock), lacking)

        return open_cell


class TestFanoutOfCellsThatTakeStamps(TestFanout):
    @pytest.fixture
    def opened(self) -> Opened:
        @asynccontextmanager
        async def open_cell(clock: ManualClock) -> AsyncIterator[Cell]:
            cells = {name: MemoryCell(clock, stamps=False) for name in "abc"}
            yield Fanout(lambda: AT, cells, EventLoopWaits(clock), lacking, acknowledge_first=True)

        return open_cell
