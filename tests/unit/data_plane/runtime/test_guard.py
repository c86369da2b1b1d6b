"""What stands before a dependency: which failures count, and what is counted of all."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from data_plane.core.circuit_breaker import BreakerRules, CircuitState
from data_plane.ports import (
    CellFullError,
    CellThrottledError,
    CellUnavailableError,
    DeadlinePassedError,
    MasterKeysError,
)
from data_plane.runtime.guard import CircuitOpenError, Guard, GuardedOffload
from tests.conformance.on_driver import inline
from tests.unit.data_plane.runtime.blocking_rig import Rig, here
from tests.unit.repeatable import HandClock

RULES = BreakerRules()


class Watched:
    """A guard in virtual time, before calls that end as a test says."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.told: list[tuple[str, CircuitState]] = []
        self.guard = Guard("t", self.clock, lambda *change: self.told.append(change))
        self._offload = GuardedOffload(inline, self.guard)

    def call(self, error: BaseException | None = None) -> None:
        def end() -> None:
            if error is not None:
                raise error

        asyncio.run(self._offload(end))

    def fail(self, times: int, error: Callable[[], BaseException]) -> None:
        for _ in range(times):
            with pytest.raises(type(error())):
                self.call(error())


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_outage_is_told_and_counted_and_so_is_its_end(watched: Watched) -> None:
    watched.fail(RULES.weight_min, CellUnavailableError)
    with pytest.raises(CircuitOpenError, match=r"^t has failed and is left alone"):
        watched.call()
    assert watched.guard.gauges() == {
        "circuit_state": 2,
        "circuit_opened_total": 1,
        "calls_in_flight": 0,
        "failed_calls_total": 10,
        "rejected_calls_total": 1,
    }
    watched.clock.advance(RULES.open_us / 1_000_000)
    for _ in range(RULES.probes):
        watched.call()
    assert watched.told == [
        ("t", CircuitState.OPEN),
        ("t", CircuitState.HALF_OPEN),
        ("t", CircuitState.CLOSED),
    ]
    assert watched.guard.gauges()["circuit_state"] == 0


@pytest.mark.parametrize(
    "error",
    [CellFullError, CellThrottledError, DeadlinePassedError, ValueError, KeyboardInterrupt],
)
def test_what_says_nothing_of_the_dependency_does_not_open_the_breaker(
    watched: Watched, error: Callable[[], BaseException]
) -> None:
    watched.fail(5 * RULES.weight_min, error)
    watched.call()
    assert watched.told == []
    assert watched.guard.counters.failed == 0


@pytest.mark.parametrize(
    "error", [CellFullError, CellThrottledError, partial(MasterKeysError, "NotFound", "no key")]
)
def test_a_dependency_that_refuses_has_come_back(
    watched: Watched, error: Callable[[], BaseException]
) -> None:
    watched.fail(RULES.weight_min, CellUnavailableError)
    watched.clock.advance(RULES.open_us / 1_000_000)
    watched.fail(RULES.probes, error)
    assert watched.guard.state is CircuitState.CLOSED


def test_calls_of_the_blocking_driver_pass_a_guard(rig: Rig) -> None:
    guard = Guard("t", rig.clock, rules=BreakerRules(weight_min=2))
    offload = GuardedOffload(rig.driver.offload, guard)

    def gone() -> None:
        raise CellUnavailableError("gone")

    async def main() -> None:
        at_once = await rig.waits.all_of([offload(gone), offload(here), offload(gone)])
        assert [isinstance(outcome, CellUnavailableError) for outcome in at_once] == [
            *(True, False, True)
        ]
        with pytest.raises(CircuitOpenError):
            await offload(here)
        await rig.waits.sleep_until(rig.clock.now_us() + 1_000_000)
        assert await offload(here) == here()

    rig.run(main())
    assert guard.counters.in_flight == 0
