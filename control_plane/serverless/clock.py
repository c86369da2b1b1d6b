"""Time in a function: taken from each invocation, because a sandbox is frozen between two of them.

What froze may wake with a clock that is behind. So the machine's clock is read when an invocation
begins, never taken to be earlier than the event says that its request came, and from there on the
clock only runs. Nothing asks for the time between two invocations.
"""

from collections.abc import Callable

from data_plane.ports import Clock


class InvocationClock:
    """Implements the port Clock for a sandbox, which has one invocation at a time.

    `wall` is the machine's clock, `running_us` one that only runs, as long as nothing is frozen.
    """

    def __init__(self, wall: Clock, running_us: Callable[[], int]) -> None:
        self._wall = wall
        self._running_us = running_us
        self._ahead_us = 0
        self.begin()

    def begin(self, event_us: int = 0) -> int:
        """An invocation begins whose event was made at this time (0: it does not say); now."""
        now_us = max(self._wall.now_us(), event_us)
        self._ahead_us = now_us - self._running_us()
        return now_us

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return self._running_us() + self._ahead_us
