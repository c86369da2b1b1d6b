"""An event loop whose time passes at once: a real asyncio loop that never sleeps."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

START_US = 1_800_000_000_000_000


class _NoWait(selectors.DefaultSelector):
    """Reports what is ready, and moves the time by as long as it was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits, and nothing is going to happen")
            self.now_s += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its `now_us` is a Clock."""

    def __init__(self) -> None:
        self._virtual = _NoWait()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s

    def now_us(self) -> int:
        return START_US + round(self._virtual.now_s * 1_000_000)


def run(main: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)
