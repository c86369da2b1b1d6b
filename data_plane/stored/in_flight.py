"""How many messages of a queue are in flight, as one front end follows it."""

from data_plane.core.limits import IN_FLIGHT_MAX
from data_plane.stored.bounds import IN_FLIGHT_LOOK_EVERY_US, IN_FLIGHT_UNSEEN_MAX


class InFlight:
    """How many messages of a queue are in flight, looked up only where it may matter.

    A front end looks after so many leases that only a tenth of what was left could have been
    granted by itself, and not more often than once a second.
    """

    __slots__ = ("_deleted", "_granted", "_known", "_looked_us", "_unseen_max")

    def __init__(self) -> None:
        self._known = 0
        self._granted = 0
        self._deleted = 0
        self._looked_us = 0
        self._unseen_max = IN_FLIGHT_UNSEEN_MAX

    def granted(self, leases: int) -> None:
        """Messages were handed out."""
        self._granted += leases

    def deleted(self, messages: int) -> None:
        """Messages were deleted."""
        self._deleted += messages

    def must_look(self, now_us: int) -> bool:
        """Whether to ask the counters before more is granted."""
        is_recent = 0 <= now_us - self._looked_us < IN_FLIGHT_LOOK_EVERY_US
        return self._granted >= self._unseen_max and not is_recent

    def looked(self, in_flight: int, now_us: int) -> None:
        """The counters say so."""
        self._known, self._looked_us = in_flight, now_us
        self._granted = self._deleted = 0
        self._unseen_max = max(0, IN_FLIGHT_MAX - in_flight) // 10

    @property
    def is_full(self) -> bool:
        """Whether no more messages may be in flight."""
        return self._known + self._granted - self._deleted >= IN_FLIGHT_MAX
