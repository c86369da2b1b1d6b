"""The register of writers on a cell in DynamoDB (moto): entries, ends, and what a minute costs."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from data_plane.dynamodb.opening import connect, make_table
from data_plane.usage.register import AT_WORK, CUT_OFF, ENDED, WRITERS, EndedByOthersError
from tests.conformance.dynamodb_suite import new_table_name
from tests.conformance.on_driver import inline
from tests.conformance.test_sent_on_dynamodb import CellOfItsTime
from tests.unit.data_plane.usage.places import MemoryPlace
from tests.unit.data_plane.usage.test_register import Server
from tests.unit.repeatable import HandClock

run = asyncio.run


class BenchOnATable:
    """Servers on one table, none of which is alone; `asked` has what DynamoDB was asked for."""

    alone = False

    def __init__(self, client: Any) -> None:
        self.clock = HandClock()
        self.clock.time_us = int(time.time()) * 1_000_000
        self.place = MemoryPlace(self.clock)
        table = new_table_name()
        make_table(client, table)
        self.cell: Any = CellOfItsTime(client, table, self.clock, inline)
        self.asked: list[str] = []
        client.meta.events.register(
            "before-call.dynamodb", lambda model, **_: self.asked.append(model.name)
        )

    def server(self, seed: int) -> Server:
        its = Server(self, seed)  # type: ignore[arg-type]
        run(its.start())
        return its

    def items(self, partition: str) -> dict[str, Any]:
        found = run(self.cell.query(partition, after=b"", limit=100))
        return {its.key.sort.decode(): its.attributes for its in found}


@pytest.fixture
def bench() -> Iterator[BenchOnATable]:
    with mock_aws():
        yield BenchOnATable(connect("", "us-east-1", connections_max=1))


def test_a_server_is_registered_and_signed_off(bench: BenchOnATable) -> None:
    server = bench.server(1)
    name = server.writer.name
    its = bench.items(WRITERS)[name]
    assert (its["k"], its["a"], "e" in its) == ("server", "", False)
    assert list(bench.items(AT_WORK)) == [name]
    server.serve()
    run(server.register.close())
    its = bench.items(WRITERS)[name]
    assert (its["e"], its["n"], its["m"]) == (ENDED, 1, 1)
    assert bench.items(AT_WORK) == {}


def test_one_that_was_frozen_is_ended_and_goes_on_as_another(bench: BenchOnATable) -> None:
    frozen = bench.server(1)
    name = frozen.writer.name
    frozen.serve("before")
    bench.clock.advance(3)
    run(frozen.writer.keep())
    bench.clock.advance(51 * 60)
    second = bench.server(2)
    its = bench.items(WRITERS)[name]
    assert (its["e"], its["n"], its["m"]) == (CUT_OFF, 1, 1)
    assert list(bench.items(AT_WORK)) == [second.writer.name]
    with pytest.raises(EndedByOthersError):
        run(frozen.minute())
    frozen.serve("after")
    run(frozen.minute())
    assert sorted(row["queue"] for row in bench.place.rows()) == ["after", "before"]
    assert bench.place.mark(frozen.writer.name)["after"] == name
    assert sorted(bench.items(AT_WORK)) == sorted([frozen.writer.name, second.writer.name])


def test_it_costs_a_write_a_minute_and_four_around(bench: BenchOnATable) -> None:
    """docs/cost.md, *Requests on DynamoDB*, has the price."""
    server = bench.server(1)
    assert bench.asked.count("PutItem") == 2
    before = len(bench.asked)
    for _ in range(9):
        bench.clock.advance(60)
        run(server.minute())
    assert bench.asked[before:] == ["UpdateItem"] * 9
    before = len(bench.asked)
    run(server.register.close())
    assert bench.asked[before:] == ["UpdateItem", "UpdateItem", "DeleteItem"]
