"""How often requests to DynamoDB are repeated: by a budget, and not beyond a deadline."""

import asyncio

import pytest
from botocore.exceptions import ReadTimeoutError

from data_plane.core.deadline import deadline
from data_plane.core.retry_budget import BURST, TIMEOUT_COST
from data_plane.dynamodb.cell import DynamoCell
from data_plane.ports import CellThrottledError, CellUnavailableError, DeadlinePassedError
from tests.conformance.on_driver import inline
from tests.unit.data_plane.dynamodb.scripted import Reply, Script, failure
from tests.unit.data_plane.dynamodb.test_requests import FOUND, KEY, STORED
from tests.unit.repeatable import HandClock

CALLS = 400
"""Enough that the burst, and a retry for every tenth, are long used up."""

TIMEOUT = ReadTimeoutError(endpoint_url="http://127.0.0.1:9")


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited between attempts: the time passes at once."""
    taken: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", taken.append)
    return taken


def cell_on(script: Script, clock: HandClock | None = None) -> DynamoCell:
    clock = clock or HandClock()
    return DynamoCell(script.client, "t", clock, inline, deadline_s=5, monotonic_us=clock.now_us)


def fail(cell: DynamoCell, times: int) -> None:
    async def calls() -> None:
        for _ in range(times):
            with pytest.raises(CellUnavailableError):
                await cell.get(KEY)

    asyncio.run(calls())


@pytest.mark.parametrize(
    ("reply", "cost"),
    [(failure("InternalServerError", 500), 1), (TIMEOUT, TIMEOUT_COST)],
)
def test_a_long_outage_is_not_multiplied(reply: Reply | Exception, cost: int) -> None:
    script = Script(reply)
    cell = cell_on(script)
    fail(cell, CALLS)
    retries = len(script.requests) - CALLS
    most = (CALLS // 10 + BURST) // cost
    assert most - 1 <= retries <= most
    assert cell.counters.retries == retries
    assert cell.retries_refused == CALLS


def test_a_view_through_other_threads_has_the_same_budget() -> None:
    script = Script(failure("InternalServerError", 500))
    cell = cell_on(script)
    other = cell.through(inline)
    for _ in range(CALLS // 2):
        fail(cell, 1)
        fail(other, 1)
    assert len(script.requests) <= CALLS * 1.1 + BURST
    assert other.counters is cell.counters


def test_a_passing_failure_is_not_seen() -> None:
    failing = [failure("InternalServerError", 500)] * 3
    cell = cell_on(Script(*failing, FOUND))
    assert asyncio.run(cell.get(KEY)) == {"v": 1}


def test_a_throttle_says_that_the_table_is_there() -> None:
    with pytest.raises(CellThrottledError):
        asyncio.run(cell_on(Script(failure("ThrottlingException"))).get(KEY))


def test_a_request_whose_time_is_over_is_not_sent() -> None:
    script, clock = Script(FOUND), HandClock()
    cell = cell_on(script, clock)

    async def late() -> None:
        with deadline(clock.now_us()):
            await cell.get(KEY)

    with pytest.raises(DeadlinePassedError):
        asyncio.run(late())
    assert script.requests == []


def test_the_deadline_of_the_request_ends_repetitions(naps: list[float]) -> None:
    script, clock = Script(failure("InternalServerError", 500)), HandClock()
    cell = cell_on(script, clock)

    async def hurried() -> None:
        with deadline(clock.now_us() + 1000):  # a millisecond: no wait is as short
            await cell.get(KEY)

    for _ in range(20):
        with pytest.raises(CellUnavailableError):
            asyncio.run(hurried())
    assert sum(naps) <= 20 * 0.001
    assert len(script.requests) <= 25


def test_a_table_that_throttles_every_other_request_serves_all_calls() -> None:
    throttled = failure("ProvisionedThroughputExceededException")
    cell = cell_on(Script(*[throttled, FOUND] * CALLS))

    async def calls() -> None:
        for _ in range(CALLS):
            assert await cell.get(KEY) == {"v": 1}

    asyncio.run(calls())
    assert cell.counters.retries == CALLS
    assert cell.retries_refused == 0


def test_a_table_that_leaves_out_a_part_of_every_batch_serves_all_calls() -> None:
    """It refuses a part for too much at once: that costs the retries of other calls nothing."""
    rest = {"t": {"Keys": [{"pk": {"S": "P"}, "sk": {"B": "AGE="}}]}}
    left_out = Reply({"Responses": {}, "UnprocessedKeys": rest})
    got = Reply({"Responses": {"t": [STORED]}})
    cell = cell_on(Script(*[left_out, got] * CALLS))

    async def calls() -> None:
        for _ in range(CALLS):
            assert await cell.get_many([KEY]) == {KEY: {"v": 1}}

    asyncio.run(calls())
    assert cell.counters.retries == CALLS
    assert cell.retries_refused == 0


def test_a_table_that_throttles_all_is_asked_little_more_than_once() -> None:
    script = Script(failure("ThrottlingException"))
    fail(cell_on(script), CALLS)
    assert len(script.requests) <= CALLS * 1.1 + BURST
