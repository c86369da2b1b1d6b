"""The contract of cells, on whatever speaks DynamoDB's API at an endpoint.

A test module derives a class from `DynamoCellSuite` and defines its fixture `client`: a client that
opening.connect() made, or one that is mocked.
"""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from os import getpid
from typing import Any, Final, TypeVar

import pytest

from data_plane.dynamodb.cell import DEADLINE_S, DynamoCell
from data_plane.dynamodb.opening import make_table
from data_plane.ports import Cell, Clock, Key, Offload
from tests.conformance.cell_suite import CellSuite, ManualClock, Opened
from tests.conformance.on_driver import OnDriver, a_driver, in_turn, inline

T = TypeVar("T")

_NUMBERS = count()
_DEADLINE_S: Final = 10 * DEADLINE_S
"""A hundred calls that wait for one thread take a second, and more where others are at work."""


def new_table_name() -> str:
    """A name that no other test uses."""
    return f"cell-{getpid()}-{next(_NUMBERS)}"


@asynccontextmanager
async def on_a_table_of_its_own(
    client: Any, clock: Clock, offload: Offload = inline
) -> AsyncIterator[DynamoCell]:
    """A cell on a new table, which goes with it."""
    table = new_table_name()
    make_table(client, table)
    try:
        yield DynamoCell(client, table, clock, offload, deadline_s=_DEADLINE_S)
    finally:
        client.delete_table(TableName=table)


class DynamoCellSuite(CellSuite):
    """What is particular about DynamoDB cells. Here, calls follow each other, without threads.

    The store has a clock, items are small, and engines count the megabyte of a page differently.
    """

    by_manual_clock = False
    value_sizes_bytes = (30_000, 400_000)
    items_in_a_page = (4, 5, 6)

    @pytest.fixture
    def opened(self, client: Any) -> Opened:
        @asynccontextmanager
        async def open_cell(clock: ManualClock) -> AsyncIterator[Cell]:
            async with on_a_table_of_its_own(client, clock) as cell:
                yield cell

        return open_cell

    async def count(self, cell: Cell, counter: Key) -> int | None:
        assert isinstance(cell, DynamoCell)
        await cell.flush()
        return await super().count(cell, counter)


class DynamoCellOnTheBlockingDriver(DynamoCellSuite):
    """The same under the blocking driver: calls side by side come from several threads."""

    takes_one_call_at_a_time = False
    """Whether what is mocked would mix up calls from several threads."""

    @pytest.fixture
    def opened(self, client: Any) -> Iterator[Opened]:
        @asynccontextmanager
        async def open_cell(clock: ManualClock) -> AsyncIterator[Cell]:
            offload: Offload = driver.offload
            if self.takes_one_call_at_a_time:
                offload = in_turn(offload, threading.Lock())
            async with on_a_table_of_its_own(client, clock, offload) as cell:
                yield cell

        with a_driver() as driver:
            yield OnDriver(driver, open_cell)
