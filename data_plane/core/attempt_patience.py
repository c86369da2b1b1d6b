"""How long an attempt waits for its answer: as long as the store takes, within two bounds.

As TCP does with its segments (RFC 6298), it follows the mean of what answers took, and four times
their deviation. Where nothing is answered within the short bound, nobody knows whether the store is
slow or away: then one attempt at a time waits for the long one, and finds out for all.
"""

from typing import Final

SCOUTS_AFTER: Final = 3
"""So many time-outs in a row say that it may be slow."""

_MEAN_GAIN: Final = 1 / 8
_DEVIATION_GAIN: Final = 1 / 4
_DEVIATIONS: Final = 4


class AttemptPatience:
    """Which of two time-outs the next attempt gets. Threads that share it may get the other one."""

    __slots__ = ("_deviation_us", "_mean_us", "_scouting", "_short_us", "_timeouts")

    def __init__(self, short_us: int) -> None:
        self._short_us = short_us
        self._mean_us: float | None = None
        self._deviation_us = 0.0
        self._timeouts = 0
        self._scouting = False

    def begin(self) -> bool:
        """Whether an attempt that begins now waits for the long time; `ended` is told of it."""
        if self._mean_us is not None:
            expected_us = self._mean_us + _DEVIATIONS * self._deviation_us
            if expected_us > self._short_us:
                return True
        if self._timeouts >= SCOUTS_AFTER and not self._scouting:
            self._scouting = True
            return True
        return False

    def ended(self, took_us: int, *, patient: bool, timed_out: bool) -> None:
        """An attempt has ended; one that failed at once says nothing of how long answers take."""
        if patient:
            self._scouting = False
        if timed_out:
            self._timeouts += 1
            if patient:
                self._mean_us = None  # so slow that it is as good as away
            return
        self._timeouts = 0
        if self._mean_us is None:
            self._mean_us, self._deviation_us = float(took_us), took_us / 2
            return
        off_us = abs(took_us - self._mean_us)
        self._deviation_us += _DEVIATION_GAIN * (off_us - self._deviation_us)
        self._mean_us += _MEAN_GAIN * (took_us - self._mean_us)
