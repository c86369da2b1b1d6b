"""Depth and age of queues: what waits in them, by the names of who asked."""

from typing import Any

import pytest

from control_plane.core.cost import MEASURE_REQUESTS
from data_plane.core.message import Outgoing, SendCall
from data_plane.ports import CellUnavailableError
from tests.unit.control_plane.serverless.test_tasks import ACCOUNT, REGION, Site

MINUTE_S = 60


@pytest.fixture
def site() -> Site:
    made = Site()
    for name in ("orders", "mail"):
        made.call("CreateQueue", QueueName=name)
    return made


def send(site: Site, name: str, count: int) -> None:
    batch = [Outgoing(body=f"m{number}", size=2) for number in range(count)]
    site.rig.run(site.service.engine.send(site.queue(name), SendCall(ACCOUNT, batch)))


def measure(site: Site, *names: str) -> dict[str, tuple[int, int]]:
    asked = [{"account": ACCOUNT, "region": REGION, "queue": name} for name in names]
    answer = site.do({"task": "measure_queues", "queues": asked})
    assert (answer["task"], answer["more"]) == ("measure_queues", False)
    return {one["queue"]: (one["visible"], one["age_s"]) for one in answer["measured"]}


def test_what_waits_and_since_when(site: Site) -> None:
    send(site, "orders", 3)
    site.clock.advance(10 * MINUTE_S)
    send(site, "orders", 2)
    measured = measure(site, "orders", "mail")
    assert measured["mail"] == (0, 0)
    depth, age_s = measured["orders"]
    assert depth == 5
    # Sends are counted by the minute.
    assert 10 * MINUTE_S <= age_s <= 11 * MINUTE_S


def test_a_queue_that_is_not_there_is_left_out(site: Site) -> None:
    assert set(measure(site, "orders", "nowhere")) == {"orders"}


def test_a_queue_that_cannot_be_counted_is_left_out(site: Site) -> None:
    counts = site.service.engine.counts

    async def failing(queue: Any) -> Any:
        if queue.name == "orders":
            raise CellUnavailableError("it is away")
        return await counts(queue)

    site.service.engine.counts = failing  # type: ignore[method-assign]
    assert set(measure(site, "orders", "mail")) == {"mail"}


def test_it_asks_as_seldom_as_its_price_says(site: Site) -> None:
    asked = []
    for name in ("get", "get_many", "query"):
        request = getattr(site.cell, name)

        def counted(*arguments: Any, request: Any = request, **options: Any) -> Any:
            asked.append(arguments[0])
            return request(*arguments, **options)

        setattr(site.cell, name, counted)
    site.clock.advance(5 * MINUTE_S)
    measure(site, "orders")
    assert len(asked) == MEASURE_REQUESTS
