"""Progress of a job: what it does now, how much of it is done, and how long the rest may take."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

BILL_STEPS: Final[Mapping[str, int]] = {
    "starting Spark": 4,
    "verifying": 2,
    "looking at exports": 6,
    "looking at how much": 6,
    "looking at records": 34,
    "looking again": 4,
    "looking for sends": 8,
    "adding up": 16,
    "rating": 8,
    "writing": 12,
}
"""What a bill's steps begin with, in their order, and what share of its time each one took in
hundredths, where all were measured. Those that a run has no need of count as done."""

_TICK_S: Final = 10.0
_SHARE_MIN: Final = 0.05
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600


class Progress:
    """Lines that say what begins, and what came of it. They are no part of what a job writes.

    With `steps`, shares by what each line begins with, they say how much was done before, and
    what is left at the pace so far.
    """

    def __init__(
        self,
        job: str,
        say: Callable[[str], None],
        steps: Mapping[str, int] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._job = job
        self._say = say
        self._steps = steps or {}
        self._clock = clock
        self._began = self._since = clock()
        self._share = self._next = 0.0

    def step(self, what: str) -> None:
        """Say what begins."""
        self._since = self._clock()
        self._move_to(what)
        self._say(f"{self._job}: {what}{self._so_far(self._share)}")

    def within(self, done: int, of: int) -> None:
        """Say how much of the step is done, in tasks."""
        share = self._share + (self._next - self._share) * done / of
        self._say(f"{self._job}:   {done:,} of {of:,} tasks{self._so_far(share)}")

    def done(self, what: str) -> None:
        """Say what came of it."""
        self._say(f"{self._job}:   {what} ({self._clock() - self._since:.1f} s)")

    def _move_to(self, what: str) -> None:
        """Let the step be the one that `what` begins like; a share never goes back."""
        total, before = sum(self._steps.values()), 0
        for begin, weight in self._steps.items():
            if what.startswith(begin):
                self._share = max(self._share, before / total)
                self._next = max(self._share, (before + weight) / total)
                return
            before += weight
        self._share = max(self._share, self._next)

    def _so_far(self, share: float) -> str:
        if share < _SHARE_MIN:
            return ""
        left_s = (self._clock() - self._began) * (1 - share) / share
        return f" ({share:.0%} done, about {duration(left_s)} left)"


def duration(seconds: float) -> str:
    """A time as people say it, in one unit."""
    if seconds < _MINUTE_S:
        return f"{max(1, round(seconds))} s"
    return (
        f"{round(seconds / _MINUTE_S)} min" if seconds < _HOUR_S else f"{seconds / _HOUR_S:.1f} h"
    )


@contextmanager
def told_by_spark(session: Any, progress: Progress) -> Iterator[None]:
    """Say every ten seconds how many tasks of Spark's stages at work are done."""
    tracker, is_over = session.sparkContext.statusTracker(), Event()

    def tell() -> None:
        while not is_over.wait(_TICK_S):
            stages = [tracker.getStageInfo(its) for its in tracker.getActiveStageIds()]
            known = [its for its in stages if its is not None]
            if of := sum(its.numTasks for its in known):
                progress.within(sum(its.numCompletedTasks for its in known), of)

    teller = Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


SILENT: Final = Progress("", lambda _line: None)
"""For who wants no lines."""
