"""Time and randomness that are the same in every run."""

import hashlib
from typing import Final

SECRET: Final = bytes(range(32))


class HandClock:
    """A clock that moves when a test says so."""

    def __init__(self) -> None:
        self.time_us = 1_790_000_000_000_000

    def now_us(self) -> int:
        return self.time_us

    def advance(self, seconds: float) -> None:
        self.time_us += round(seconds * 1_000_000)


class SeededEntropy:
    """The same bytes in every run, for each seed others."""

    def __init__(self, seed: int = 0) -> None:
        self._drawn = seed * 1_000_000_000

    def random_bytes(self, count: int) -> bytes:
        self._drawn += 1
        return hashlib.shake_128(str(self._drawn).encode()).digest(count)
