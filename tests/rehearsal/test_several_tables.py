"""A deployment of several cells loses one of its tables, gets it back empty, and loses another."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from control_plane.places.items import REMOVAL
from data_plane.dynamodb.opening import make_table
from tests.integration.deployed_site import Site, deployment, prepare

CELLS = {"tasks": [], "cells": True}
ROUNDS_MAX = 5
READS_MAX = 13
"""Of a look at three tables; docs/cost.md has more, for a map that has to be read twice."""
ALL = {"tidegate", "second", "third"}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with deployment("second", "third") as made:
        prepare(made, monkeypatch)
        yield made


def manage(site: Site, cells: set[str]) -> None:
    """Execute the state machine until all groups of three copies have them in these cells."""
    for _ in range(ROUNDS_MAX):
        execution = site.execute_with(CELLS)
        assert execution["status"] == "SUCCEEDED", execution
        if all(set(found) == cells for found in members(site).values()):
            return
    raise AssertionError(members(site))


def members(site: Site) -> dict[str, list[str]]:
    """Of all groups of three copies, the cells that serve."""
    several = site.opened.several
    assert several is not None
    found = site.opened.run(several.places.read_all()).placements
    return {
        group: [member.cell for member in held.placement.members if member.full]
        for group, held in found.items()
        if held.factor == len(ALL)
    }


@contextmanager
def counted(site: Site) -> Iterator[Counter[str]]:
    """Requests to all tables, of whatever kind."""
    told = Counter[str]()

    def count(**_: Any) -> None:
        told["look"] += 1

    clients = {cell._requests._client for cell in cells_of(site)}
    for client in clients:
        client.meta.events.register_first("before-send.dynamodb", count)
    yield told
    for client in clients:
        client.meta.events.unregister("before-send.dynamodb", count)


def cells_of(site: Site) -> list[Any]:
    """One for each table, and that of the registry."""
    several = site.opened.several
    assert several is not None
    return [site.opened.ground.control, *several.cells.values()]


def lose(site: Site, table: str) -> None:
    site.tables.delete_table(TableName=table)


def a_minute_later(site: Site) -> None:
    """Groups may lose another cell, which they must not at once."""
    site.opened.run(site.opened.ground.control.delete(REMOVAL))


def send(site: Site, queue: str, bodies: range) -> None:
    group = {"MessageGroupId": "g"} if queue.endswith(".fifo") else {}
    for number in bodies:
        site.call("SendMessage", QueueUrl=queue, MessageBody=f"{number}", **group)


def receive_all(site: Site, queue: str) -> list[int]:
    """Bodies of all messages, which are deleted."""
    found: list[int] = []
    while True:
        answer: Any = site.call("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)
        messages = answer.get("Messages", [])
        if not messages:
            return found
        for message in messages:
            found.append(int(message["Body"]))
            site.call("DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def test_nothing_is_lost_with_one_table_nor_with_another_after_it(site: Site) -> None:
    queues = "standard", "ordered.fifo"
    site.call("CreateQueue", QueueName="standard")
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    site.call("CreateQueue", QueueName="ordered.fifo", Attributes=fifo)
    for queue in queues:
        send(site, queue, range(5))
    manage(site, ALL)

    lose(site, "second")
    manage(site, {"tidegate", "third"})
    for queue in queues:
        send(site, queue, range(5, 8))

    make_table(site.tables, "second")
    manage(site, ALL)
    a_minute_later(site)
    lose(site, "third")
    manage(site, {"tidegate", "second"})
    assert sorted(receive_all(site, "standard")) == list(range(8))
    assert receive_all(site, "ordered.fifo") == list(range(8))


def test_a_look_finds_a_lost_table_and_costs_little_without_one(site: Site) -> None:
    manage(site, ALL)
    with counted(site) as reads:
        assert site.beat(cells=True) == []
    assert 0 < reads["look"] <= READS_MAX, reads

    lose(site, "second")
    for _ in range(ROUNDS_MAX):
        started = site.beat(cells=True)
        assert started in ([{"tasks": [], "cells": True}], []), started
        if all(set(found) == {"tidegate", "third"} for found in members(site).values()):
            return
    raise AssertionError(members(site))
