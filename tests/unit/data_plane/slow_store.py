"""A store that takes its time, in time that passes at once: a cell behind a real offload.

Its threads are played by timers of the loop, so a second of the store costs no second of a test.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from data_plane.memory.cell import MemoryCell
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop

T = TypeVar("T")

_SLOW = frozenset({"append", "put", "update", "delete", "get", "get_many", "query"})


class SlowThreads(Executor):
    """Threads whose calls take `takes_s`; `made` counts them."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.takes_s = 0.005
        self.made = 0

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        self.made += 1
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def end() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - as a thread does
                future.set_exception(error)

        self._loop.call_later(self.takes_s, end)
        return future


class SlowCell:
    """A memory cell, as a table is: behind an offload with so many threads."""

    def __init__(self, loop: VirtualLoop, threads_max: int, patience_s: float = 5.0) -> None:
        self.inner = MemoryCell(loop, stamps=False)
        self.threads = SlowThreads(loop)
        self.guard = Guard("slow", loop)
        self.offload = EventLoopOffload(
            threads_max, loop, self.guard, patience_s=patience_s, threads=self.threads
        )

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in _SLOW:
            return found

        async def call(*args: object, **kwargs: object) -> object:
            return await self.offload(lambda: at_once(found(*args, **kwargs)))

        return call


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never suspends."""
    try:
        call.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("a memory cell suspended")


async def took(call: Awaitable[object]) -> tuple[float, object]:
    """For how many seconds it ran, and its outcome."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    (outcome,) = await asyncio.gather(call, return_exceptions=True)
    return loop.time() - began_s, outcome
