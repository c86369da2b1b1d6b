"""What a program wants done when a future is told."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

_log: Final = logging.getLogger("tidegate_sdk")


class FutureCallbacks:
    """Callbacks of futures, for one thread that runs them one after the other.

    `stream` is named in the log.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self.steps: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        """What the thread does; None ends it."""
        self._thread_id: int | None = None

    def run_later(self, callback: Callable[[], None]) -> None:
        """Run it behind all that was handed over before."""
        self.steps.put(partial(self._run, callback))

    def logged(
        self, callback: Callable[["Future[Any]"], object]
    ) -> Callable[["Future[Any]"], None]:
        """The callback, of which nothing comes out but Ctrl-C: this is for whoever is at work."""

        def run(future: "Future[Any]") -> None:
            try:
                callback(future)
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - SystemExit, too
                self._log_failure()

        return run

    def is_running_here(self) -> bool:
        """Whether a callback asks."""
        return self._thread_id == threading.get_ident()

    def _run(self, callback: Callable[[], None]) -> None:
        self._thread_id = threading.get_ident()
        try:
            callback()
        except BaseException:  # noqa: BLE001 - KeyboardInterrupt, too, would end the thread
            self._log_failure()
        finally:
            self._thread_id = None

    def _log_failure(self) -> None:
        _log.exception("a callback of a future of a record for %s failed", self._stream)
