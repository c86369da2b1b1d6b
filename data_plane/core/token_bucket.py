"""A token bucket in whole numbers: how many calls, or bytes, are let through in a time."""

from typing import Final, NamedTuple

_US_PER_S: Final = 1_000_000


class Rate(NamedTuple):
    """So many a second in the long run, and up to `burst` at once. `per_s` 0: without a limit."""

    per_s: int = 0
    burst: int = 0


class TokenBucket:
    """What is left of a rate. It starts full.

    The level is counted in millionths of a token, so every microsecond adds exactly `rate.per_s` of
    them and nothing is ever rounded: within any `t` microseconds no more than
    `rate.burst + rate.per_s * t / 1,000,000` tokens are taken. The rate is told with each call, so
    that a changed one counts at once.
    """

    __slots__ = ("_at_us", "_level")

    def __init__(self, rate: Rate, now_us: int) -> None:
        self._level = rate.burst * _US_PER_S
        self._at_us = now_us

    def take(self, rate: Rate, now_us: int, tokens: int = 1) -> int:
        """Take the tokens and return 0, or take none: in how many microseconds they will be there.

        A clock that was set back adds nothing and takes nothing away. More tokens than the rate's
        burst are never there: they wait for a full bucket, and empty it.
        """
        level = self._level_at(rate, now_us)
        wanted = min(tokens, rate.burst) * _US_PER_S
        self._at_us = now_us
        if level < wanted:
            self._level = level
            return -((level - wanted) // rate.per_s)
        self._level = level - wanted
        return 0

    def charge(self, rate: Rate, now_us: int, tokens: int) -> None:
        """Take the tokens, there or not: until the debt is paid off nothing can be taken."""
        self._level = self._level_at(rate, now_us) - tokens * _US_PER_S
        self._at_us = now_us

    def give_back(self, tokens: int) -> None:
        """What was taken last was not used. More than the burst is dropped with the next take."""
        self._level += tokens * _US_PER_S

    def _level_at(self, rate: Rate, now_us: int) -> int:
        elapsed_us = max(0, now_us - self._at_us)
        return min(rate.burst * _US_PER_S, self._level + elapsed_us * rate.per_s)
