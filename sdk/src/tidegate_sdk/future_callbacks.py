"""What a program wants done when a future is told."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Final

_log: Final = logging.getLogger("tidegate_sdk")


class FutureCallbacks:
    """Callbacks of futures, for one thread that runs them one after the other."""

    def __init__(self) -> None:
        self.steps: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        """What the thread does; None ends it."""
        self._thread_id: int | None = None

    def run_later(self, callback: Callable[[], None]) -> None:
        """Run it behind all that was handed over before."""
        self.steps.put(partial(self._run, callback))

    def is_running_here(self) -> bool:
        """Whether a callback asks."""
        return self._thread_id == threading.get_ident()

    def _run(self, callback: Callable[[], None]) -> None:
        self._thread_id = threading.get_ident()
        try:
            callback()
        except BaseException:  # noqa: BLE001 - KeyboardInterrupt, too, would end the thread
            _log.exception("a callback of a record's future failed")
        finally:
            self._thread_id = None
