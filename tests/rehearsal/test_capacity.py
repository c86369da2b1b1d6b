"""The units that engines report are those that are counted from the sizes of items."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from data_plane.core.conditions import apply
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import connect, make_table
from data_plane.ports import Append, Appended, Item, Key, Update, Written
from data_plane.system import SystemClock
from tests.conformance.capacity_units import query_units, write_units
from tests.conformance.cost_table import CASES, Case, work
from tests.conformance.dynamodb_suite import new_table_name
from tests.conformance.on_driver import inline
from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.emulators import REGION

MESSAGES = 130
READ_TIMEOUT_S = 30.0


class Foreseen(DynamoCell):
    """Counts what its requests should cost."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, report_units=True, **options)
        self.expected: Counter[str] = Counter()

    async def append(self, record: Append) -> Appended:
        appended = await super().append(record)
        stored = Item(appended.key, {**record.attributes, "t": appended.stamp_us})
        self.expected["put_item"] += write_units(None, stored)
        return appended

    async def update(self, key: Key, change: Update, *args: Any, **options: Any) -> Written:
        written = await super().update(key, change, *args, **options)
        before = None if written.before is None else Item(key, written.before)
        after = Item(key, apply(change, written.before)) if written.applied else None
        self.expected["update_item"] += write_units(before, after)
        return written

    async def query(self, *args: Any, **options: Any) -> list[Item]:
        page = await super().query(*args, **options)
        # These engines charge nothing where they find nothing; Amazon's charges the least there is.
        self.expected["query"] += query_units(page) if page else 0
        return page


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(
    ("engine", "reported"),
    [
        pytest.param(
            "ministack", ("put_item", "update_item"), marks=pytest.mark.xdist_group("ministack")
        ),
        pytest.param(
            "dynamodb-local",
            ("put_item", "update_item", "query"),
            marks=pytest.mark.xdist_group("dynamodb-local"),
        ),
    ],
)
def test_engines_report_the_units_that_are_counted(
    engine_url: EngineUrl, engine: str, reported: tuple[str, ...], case: Case
) -> None:
    client = connect(engine_url(engine), REGION, connections_max=1, read_timeout_s=READ_TIMEOUT_S)
    table = new_table_name()
    make_table(client, table)
    cell = Foreseen(client, table, SystemClock(), inline)
    units = cell.counters.units
    asyncio.run(work(cell, units, SystemClock(), case, MESSAGES))
    assert {name: units[name] for name in reported} == {
        name: cell.expected[name] for name in reported
    }
    client.delete_table(TableName=table)
