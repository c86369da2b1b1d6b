"""Futures of which no caller keeps the lock when an exception of a signal's handler comes."""

import threading
from concurrent.futures import Future
from typing import Any


class _SteadyCondition(threading.Condition):
    """A condition that `with` takes and gives back in one step.

    threading's own takes its lock in a function of Python's. An exception that comes before that
    returns leaves the lock taken for ever, and whoever tells the future waits for it.
    """

    def __init__(self) -> None:
        self._whole = threading.RLock()
        super().__init__(self._whole)

    __enter__ = property(lambda self: self._whole.__enter__)
    __exit__ = property(lambda self: self._whole.__exit__)

    def wait(self, timeout: float | None = None) -> bool:
        """As threading's, but the lock is held afterwards, whatever came between."""
        try:
            return super().wait(timeout)
        finally:
            if not self._whole._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - as threading does
                self._whole.acquire()


def new_future() -> "Future[Any]":
    """A future that is pending."""
    future: Future[Any] = Future()
    future._condition = _SteadyCondition()  # noqa: SLF001 - it has no other way
    return future
