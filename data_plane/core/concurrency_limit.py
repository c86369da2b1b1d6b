"""How many calls to a dependency may be under way: as many as it sustains.

A dependency that is given more than it can do answers later, and beyond a time-out not at all: what
it then does is done for nobody. So calls that fail after a long time halve the limit, once for all
that were under way together, and calls that are answered raise it again: to what it was half of at
one for each answer, and from there by one for each round of answers (as TCP does: RFC 5681). Being
slow is no reason, nor are refusals: a store that takes its time for each call, however many there
are, gets as many as before.
"""

from typing import Final

LIMIT_MIN: Final = 4
"""So many find out whether it is well again."""

LONG_US: Final = 1_000_000
"""A failure that took as long was waited for."""


class ConcurrencyLimit:
    """The limit of one dependency, `most` at first. Time is microseconds of any clock."""

    __slots__ = ("_cut_us", "_limit", "_most", "_slow_start_below")

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._slow_start_below = float(most)
        self._cut_us: int | None = None

    @property
    def calls(self) -> int:
        """So many may be under way."""
        return int(self._limit)

    def ended(self, began_us: int, now_us: int, *, failed: bool | None) -> None:
        """A call has ended that began then; None: in a way that says nothing."""
        if failed is False:
            step = 1.0 if self._limit < self._slow_start_below else 1.0 / self._limit
            self._limit = min(float(self._most), self._limit + step)
        elif failed and now_us - began_us >= LONG_US and self._is_news(began_us, now_us):
            self._limit = max(float(min(LIMIT_MIN, self._most)), self._limit / 2)
            self._slow_start_below = self._limit
            self._cut_us = now_us

    def _is_news(self, began_us: int, now_us: int) -> bool:
        """Whether the call began after the last cut: what was under way then has been heard."""
        return self._cut_us is None or began_us >= self._cut_us or now_us < self._cut_us
