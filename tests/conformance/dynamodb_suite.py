"""The contract of cells, on whatever speaks DynamoDB's API at an endpoint.

A test module derives a class from `DynamoCellSuite` and defines its fixture `client`: a client that
opening.connect() made, or one that is mocked.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from os import getpid
from typing import Any, TypeVar

import pytest

from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import make_table
from data_plane.ports import Cell, Clock, Key
from tests.conformance.cell_suite import CellSuite, ManualClock, Opened

T = TypeVar("T")

_NUMBERS = count()


def new_table_name() -> str:
    """A name that no other test uses."""
    return f"cell-{getpid()}-{next(_NUMBERS)}"


async def inline(call: Callable[[], T]) -> T:
    """Offload to nowhere."""
    return call()


@asynccontextmanager
async def on_a_table_of_its_own(client: Any, clock: Clock) -> AsyncIterator[DynamoCell]:
    """A cell on a new table, which goes with it. Calls follow each other, without threads."""
    table = new_table_name()
    make_table(client, table)
    try:
        yield DynamoCell(client, table, clock, inline)
    finally:
        client.delete_table(TableName=table)


class DynamoCellSuite(CellSuite):
    """What is particular about DynamoDB cells.

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
