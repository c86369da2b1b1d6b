"""How consumers end: by signals of the operating system, while nothing is lost."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

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
