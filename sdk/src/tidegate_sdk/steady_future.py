"""Futures of which no caller keeps the lock when an exception of a signal's handler comes.

Nor does a callback hold up who tells them: it is handed on to be run elsewhere.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from tidegate_sdk.future_callbacks import FutureCallbacks


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


class SteadyFuture(Future[Any]):
    """A future that hands its callbacks on when it is told or cancelled."""

    def __init__(self, callbacks: FutureCallbacks) -> None:
        super().__init__()
        self._condition = _SteadyCondition()
        self._callbacks = callbacks

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """As concurrent.futures: where the future is told already, the callback runs here at once.

        SystemExit does not come out of it: who adds a callback is not to end by what it does.
        """
        super().add_done_callback(self._callbacks.logged(fn))

    def _invoke_callbacks(self) -> None:
        """As concurrent.futures, which calls this without the lock, but elsewhere."""
        for callback in self._done_callbacks:  # type: ignore[attr-defined]
            self._callbacks.run_later(partial(callback, self))
