"""Progress of a job: what it does now, and how long that took."""

from collections.abc import Callable
from time import monotonic
from typing import Final


class Progress:
    """Lines that say what begins, and what came of it. They are no part of what a job writes."""

    def __init__(self, job: str, say: Callable[[str], None]) -> None:
        self._job = job
        self._say = say
        self._since = monotonic()

    def step(self, what: str) -> None:
        """Say what begins."""
        self._since = monotonic()
        self._say(f"{self._job}: {what}")

    def done(self, what: str) -> None:
        """Say what came of it."""
        self._say(f"{self._job}:   {what} ({monotonic() - self._since:.1f} s)")


SILENT: Final = Progress("", lambda _line: None)
"""For who wants no lines."""
