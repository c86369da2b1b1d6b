"""A blocking driver in virtual time."""

import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from data_plane.runtime.blocking import BlockingDriver, BlockingWaits
from tests.unit.repeatable import HandClock

T = TypeVar("T")

LIMIT_S = 20
"""For facts that another thread brings about."""


class Rig:
    """A driver with a clock that moves when the driver sleeps."""

    def __init__(self, threads_max: int = 4) -> None:
        self.clock = HandClock()
        self.naps: list[float] = []
        self.driver = BlockingDriver(self.clock, self.sleep, threads_max=threads_max)
        self.waits = BlockingWaits(self.driver)

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.clock.advance(seconds)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return self.driver.run(main)

    async def threads_of(self, *calls: Callable[[], object]) -> list[Any]:
        """Offload the calls side by side; the threads that made them, by name."""

        def named(call: Callable[[], object]) -> Callable[[], str]:
            return lambda: (call(), threading.current_thread().name)[1]

        return await self.waits.all_of([self.driver.offload(named(call)) for call in calls])


def here() -> str:
    return threading.current_thread().name
