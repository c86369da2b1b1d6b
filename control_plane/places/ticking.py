"""For how long a process was held up itself: by a tick that is due all the time, and comes late."""

from typing import Final

from data_plane.ports import Clock

TICK_US: Final = 100_000
"""After the last tick the next one is due."""

LATE_US_MAX: Final = 100_000
"""By so much a tick is late in a process that is busy, and gets on."""

COUNTED_US: Final = 20_000
"""So much counts of the time up to a tick that is late, however late: who is busy all the time is
to see a cell fail, too, if after half a minute."""


class Ticks:
    """Counts for how long ticks did not come. Who stops ticking is held up from then on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ticked_us: int | None = None
        self._held_up_us = 0

    def tick(self) -> None:
        """The tick has come; the next one is due TICK_US from now on."""
        self._held_up_us = self.held_up_us()
        self._ticked_us = self._clock.now_us()

    def held_up_us(self) -> int:
        """For how long this process was held up since its first tick, the present included."""
        if self._ticked_us is None:
            return 0
        passed_us = self._clock.now_us() - self._ticked_us
        is_late = passed_us > TICK_US + LATE_US_MAX
        return self._held_up_us + (passed_us - COUNTED_US if is_late else 0)
