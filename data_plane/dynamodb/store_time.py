"""The store's clock, learnt from the `Date` of its answers.

A `Date` has whole seconds, and a front end's own clock may be wrong or jump. So both are bounded by
each other: every answer says that when it was made, somewhere between sending and receiving, the
store's clock was within the second of its `Date`. That is an interval for how far the store's clock
is ahead of ours; all answers together narrow it down.

"Ours" is a clock that only runs (`monotonic_us`): an interval stays right when the wall clock is
set. The wall clock is what the interval is applied to: as long as it lies inside, it is believed.
"""

from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from data_plane.ports import SETTLE_US, Clock

SECOND_US: Final = 1_000_000
LEAD_US_MAX: Final = 10_000_000
"""What is this far ahead of the store's clock was an error: it is dropped, not waited for."""


class ClockExchange(NamedTuple):
    """When a request was sent and its answer received (`monotonic_us`), and the answer's `Date`."""

    sent_us: int
    received_us: int
    date_us: int

    @property
    def store_ms_max(self) -> int:
        """An upper bound for the store's time of what the answer confirms."""
        return self.date_us // 1000 + 999


def read_date_us(header: str) -> int:
    """A `Date` header in microseconds since the epoch. Raises ValueError."""
    date = parsedate_to_datetime(header)
    return int(date.replace(tzinfo=date.tzinfo or UTC).timestamp()) * SECOND_US


class StoreTime:
    """What is known of the store's clock: a few numbers, whatever happens."""

    def __init__(self, clock: Clock, monotonic_us: Callable[[], int]) -> None:
        self._clock = clock
        self._monotonic_us = monotonic_us
        self._ahead_us: tuple[int, int] | None = None
        self._present_us = 0
        self._date_us = 0

    def observe(self, exchange: ClockExchange) -> None:
        """Learn from an answer.

        Where it contradicts what was known, one of the clocks has jumped or the machine slept: what
        was known is forgotten.
        """
        low_us = exchange.date_us - exchange.received_us
        high_us = exchange.date_us + SECOND_US - exchange.sent_us
        if self._ahead_us is not None:
            known_low_us, known_high_us = self._ahead_us
            if max(low_us, known_low_us) <= min(high_us, known_high_us):
                low_us, high_us = max(low_us, known_low_us), min(high_us, known_high_us)
        self._ahead_us = low_us, high_us
        if exchange.date_us > self._date_us or exchange.date_us < self._date_us - LEAD_US_MAX:
            self._date_us = exchange.date_us

    def now_us(self) -> int:
        """The wall clock, brought within the bounds of the store's; it does not go backwards."""
        now_us = self._clock.now_us()
        if self._ahead_us is not None:
            running_us = self._monotonic_us()
            low_us, high_us = self._ahead_us
            now_us = running_us + min(max(now_us - running_us, low_us), high_us)
            if self._present_us > running_us + high_us + LEAD_US_MAX:
                self._present_us = 0
        self._present_us = max(self._present_us, now_us)
        return self._present_us

    def settled_us(self) -> int:
        """SETTLE_US before the latest second of which an answer has proved that it had begun."""
        return max(0, self._date_us - SETTLE_US)
