"""What a server says of a store that is slow, throttles or is away: at once, and truly."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from control_plane.cells import OF_DEFINITIONS, OpenedCell
from control_plane.server import TidegateServer
from control_plane.vital_signs import PATIENCE_S
from data_plane.ports import CellThrottledError, CellUnavailableError, NoThreadError
from data_plane.runtime.guard import Guard
from tests.unit.control_plane.test_idle_server import nothing, server_on
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run
from tests.unit.data_plane.slow_store import SlowCell
from tests.unit.repeatable import HandClock

ACCOUNT, REGION = "0" * 12, "us-east-1"
MOMENT_S = PATIENCE_S + 0.01


class Failing:
    """A cell whose reads raise what a test says."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.chooses_stamps = False

    async def get(self, *_: object, **__: object) -> None:
        if self.error is not None:
            raise self.error


Scenario = Callable[[TidegateServer, SlowCell, Failing], Awaitable[None]]


def play(data: Path, scenario: Scenario, guards: tuple[Guard, ...] = ()) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        slow, failing = SlowCell(loop, 8), Failing()
        server = server_on(loop, slow, data)
        server.pulse._store = store_of(failing, guards)
        await scenario(server, slow, failing)

    run(main(), loop)


def store_of(control: Any, guards: tuple[Guard, ...] = ()) -> OpenedCell:
    return OpenedCell(
        name="table",
        where="a table",
        cell=control,
        control=control,
        forgets=False,
        upkeep=nothing,
        is_full=lambda: False,
        gauges=dict,
        close=nothing,
        guards=guards,
    )


async def asked(call: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    answer = await call()
    return loop.time() - began_s, answer


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CellThrottledError("slow down"), 200),
        (NoThreadError("all are busy"), 200),
        (CellUnavailableError("reset"), 503),
    ],
)
def test_an_answer_is_no_illness(tmp_path: Path, error: Exception, status: int) -> None:
    async def scenario(server: TidegateServer, _slow: SlowCell, failing: Failing) -> None:
        failing.error = error
        assert (await server._health()).status == status
        failing.error = None
        assert (await server._health()).status == 200

    play(tmp_path, scenario)


def test_health_waits_for_no_probe_and_tells_what_it_says_later(tmp_path: Path) -> None:
    async def scenario(server: TidegateServer, slow: SlowCell, _failing: Failing) -> None:
        server.pulse._store = store_of(slow)
        slow.threads.takes_s = 1.5
        for _ in range(4):
            seconds, answer = await asked(server._health)
            assert seconds <= MOMENT_S
            assert answer.status == 200, "slow is not away"
            await asyncio.sleep(1)  # of the loop's time
        slow.threads.takes_s = 60.0
        statuses = []
        for _ in range(3):
            seconds, answer = await asked(server._health)
            assert seconds <= MOMENT_S
            statuses.append(answer.status)
            await asyncio.sleep(6)  # likewise
        assert statuses == [200, 503, 503]
        assert json.loads(answer.body)["cells"] == {"table": "unavailable"}

    play(tmp_path, scenario)


def test_an_open_breaker_is_told_at_once(tmp_path: Path) -> None:
    guard = Guard(f"table{OF_DEFINITIONS}", HandClock())

    async def scenario(server: TidegateServer, _slow: SlowCell, _failing: Failing) -> None:
        assert (await server._health()).status == 200
        for _ in range(10):
            guard.ended(guard.admit(), CellUnavailableError("reset"))
        assert (await server._health()).status == 503

    play(tmp_path, scenario, (guard,))


def test_metrics_wait_for_no_count_and_have_the_last_ones(tmp_path: Path) -> None:
    async def scenario(server: TidegateServer, slow: SlowCell, _failing: Failing) -> None:
        definition = server.registry.define(
            account=ACCOUNT, region=REGION, name="orders", attributes={}, tags={}, now_us=1
        )
        await server.registry.create(definition, {}, 1)
        visible = "tidegate_sqs_approximate_number_of_messages_visible{"
        _, first = await asked(server._metrics)
        assert visible in first.body.decode()
        slow.threads.takes_s = 1.5
        for _ in range(5):
            told = served("SendMessage", account=ACCOUNT, queue="orders", finished_us=slow.now_us())
            server.metrics.served(told)
            seconds, answer = await asked(server._metrics)
            assert seconds <= 2 * MOMENT_S
            assert visible in answer.body.decode(), "as it was counted last"
            await asyncio.sleep(1)  # of the loop's time

    play(tmp_path, scenario)
