"""The time of servers in this process: it passes while they wait for it, and hardly else.

So no result depends on how long calls take.
"""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.system import SystemClock, running_us, sleep
from data_plane.usage.record import US_PER_MINUTE


class WaitedClock:
    """The machine's time at first, which a test can put forward.

    It begins with a minute, so that what is counted by minutes is the same at all times. Each look
    takes a microsecond, so that what comes later is later.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        now_us = SystemClock().now_us()
        self._now_us = now_us - now_us % US_PER_MINUTE
        self._waiting = 0
        self._since_us = 0
        """When the first of those who wait began to."""

    def now_us(self) -> int:
        with self._turn:
            self._pass()
            self._now_us += 1
            return self._now_us

    def advance(self, seconds: float) -> None:
        with self._turn:
            self._now_us += round(seconds * 1_000_000)

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Let time pass meanwhile."""
        with self._turn:
            self._pass()
            self._waiting += 1
        try:
            yield
        finally:
            with self._turn:
                self._pass()
                self._waiting -= 1

    def sleep(self, seconds: float) -> None:
        """Hold up this thread for so long."""
        with self.waited_for():
            sleep(seconds)

    def _pass(self) -> None:
        then_us, self._since_us = self._since_us, running_us()
        if self._waiting:
            self._now_us += self._since_us - then_us


class WaitsOnClock(EventLoopWaits):
    """An event loop's, which let the clock's time pass."""

    def __init__(self, clock: WaitedClock) -> None:
        super().__init__(clock)
        self._waited = clock

    async def sleep_until(self, time_us: int) -> None:
        with self._waited.waited_for():
            await super().sleep_until(time_us)

    async def wait_for(self, channel: Hashable, seen: int, until_us: int) -> bool:
        with self._waited.waited_for():
            return await super().wait_for(channel, seen, until_us)
