"""Both drivers' Waits against the contract of the port."""

import pytest

from data_plane.runtime.blocking import BlockingDriver, BlockingWaits
from data_plane.runtime.event_loop import EventLoopWaits
from tests.conformance.waits_suite import Play, Scenario, WaitsSuite
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run
from tests.unit.repeatable import HandClock


def play_on_an_event_loop(scenario: Scenario) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        waits = EventLoopWaits(loop)
        await scenario(waits, loop)
        assert not waits._lanes, "a lane was not forgotten"
        assert not waits._waiters, "a channel was not forgotten"

    run(main(), loop)


def play_on_the_blocking_driver(scenario: Scenario) -> None:
    clock = HandClock()
    driver = BlockingDriver(clock, clock.advance, threads_max=1)
    waits = BlockingWaits(driver)

    async def main() -> None:
        await scenario(waits, clock)
        assert not driver.drive.lanes, "a lane was not forgotten"
        assert not any(driver.drive.waiters.values()), "a waiter was not forgotten"

    driver.run(main())
    assert driver._pool is None, "what only waits needs no thread"


class TestEventLoopWaits(WaitsSuite):
    @pytest.fixture
    def play(self) -> Play:
        return play_on_an_event_loop


class TestBlockingWaits(WaitsSuite):
    @pytest.fixture
    def play(self) -> Play:
        return play_on_the_blocking_driver
