"""How consumers end: by signals of the operating system, while nothing is lost."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tidegate_sdk.clock import Clock

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by(signals: Sequence[int], stop: Callable[[], None]) -> Iterator[None]:
    """Let these signals stop something while the context lasts.

    `stop` may be called in the middle of what the main thread does. Where this is not the main
    thread, which alone gets signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop()) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_to_end(
    start: Callable[[], None], wait_until_over: Callable[[], None], stop: Callable[[], None]
) -> None:
    """Start something, and wait until it is over.

    What interrupts that, as Ctrl-C may, is raised once it has stopped; the next one at once.
    """
    try:
        start()
        wait_until_over()
    except BaseException:
        stop()
        wait_until_over()
        raise


class OwnWork:
    """The program's own code, handlers and callbacks, which is waited for however long it takes.

    A call that it makes may hang, and is none of it. `changed` is the lock, told of each end.
    """

    def __init__(self, changed: threading.Condition, clock: Clock) -> None:
        self.changed, self.clock = changed, clock
        self._threads: set[int] = set()
        self.got_on_s = clock.now_s()
        """When something was done last."""

    @property
    def goes_on(self) -> bool:
        """Whether any of it is under way. The lock is held."""
        return bool(self._threads)

    def got_on(self) -> None:
        """Something is done. The lock is held."""
        self.got_on_s = self.clock.now_s()

    @contextmanager
    def begun(self, *, is_own: bool = True) -> Iterator[None]:
        """This thread is in the program's own code, or in a call that this makes."""
        me = threading.get_ident()
        with self.changed:
            was_own = me in self._threads
            self._set(me, is_own=is_own)
        try:
            yield
        finally:
            with self.changed:
                self._set(me, is_own=was_own)
                self.got_on()
                self.changed.notify_all()

    def _set(self, thread: int, *, is_own: bool) -> None:
        if is_own:
            self._threads.add(thread)
        else:
            self._threads.discard(thread)
