"""Cells that are opened and called under the blocking driver instead of an event loop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from data_plane.core.eras import Eras
from data_plane.embedded.encoding import encode_key
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Appended, Attributes, Cell, Clock, Item, Key, Offload, Written
from data_plane.runtime.blocking import BlockingDriver, BlockingWaits
from data_plane.system import SystemClock, sleep

T = TypeVar("T")

THREADS_MAX = 8


@dataclass(frozen=True, slots=True)
class OnDriver:
    """The fixture `opened` of a cell suite that runs on the driver."""

    driver: BlockingDriver
    opened: Callable[[Any], AbstractAsyncContextManager[Cell]]

    def __call__(self, clock: Clock) -> AbstractAsyncContextManager[Cell]:
        return self.opened(clock)


@contextmanager
def a_driver() -> Iterator[BlockingDriver]:
    """A driver of its own, in real time."""
    driver = BlockingDriver(SystemClock(), sleep, threads_max=THREADS_MAX)
    yield driver
    driver.close()


def run_as(opened: object, main: Coroutine[Any, Any, T]) -> T:
    """Run under the driver, if the cell is opened on one, or else on an event loop."""
    return opened.driver.run(main) if isinstance(opened, OnDriver) else asyncio.run(main)


async def side_by_side(opened: object, calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Make the calls at the same time, by the means of what runs them; raises what one raises."""
    if not isinstance(opened, OnDriver):
        return await asyncio.gather(*calls)
    results: list[T] = []
    for outcome in await BlockingWaits(opened.driver).all_of(list(calls)):
        if isinstance(outcome, Exception):
            raise outcome
        results.append(outcome)
    return results


async def inline(call: Callable[[], T]) -> T:
    """Offload to nowhere."""
    return call()


def in_turn(offload: Offload, lock: threading.Lock) -> Offload:
    """The same, for calls to what would mix them up: one at a time."""

    def locked(call: Callable[[], T]) -> T:
        with lock:
            return call()

    async def offload_in_turn(call: Callable[[], T]) -> T:
        return await offload(lambda: locked(call))

    return offload_in_turn


def _check_keys(of: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise ValueError for a key that the embedded cell could not have."""
    for value in (*of, *named.values()):
        if isinstance(value, Key):
            encode_key(value)
        elif isinstance(value, list):
            for key in value:
                encode_key(key)
    for bound in ("after", "until"):
        if named.get(bound):
            encode_key(Key(of[0], named[bound]))


class OffloadedCell:
    """A memory cell whose calls block, as those of an SDK do: each goes through `offload`.

    It takes no longer keys than the embedded cell does. The lock is shared by all that reach one
    memory cell: it takes one call at a time.
    """

    def __init__(self, cell: MemoryCell, offload: Offload, lock: threading.Lock) -> None:
        self._cell = cell
        self._offload = offload
        self._lock = lock

    @property
    def chooses_stamps(self) -> bool:
        return self._cell.chooses_stamps

    @property
    def eras(self) -> Eras:
        return self._cell.eras

    def has_room(self, size_bytes: int) -> bool:
        return self._cell.has_room(size_bytes)

    def settled_us(self) -> int:
        with self._lock:
            return self._cell.settled_us()

    def now_us(self) -> int:
        with self._lock:
            return self._cell.now_us()

    async def append(self, *of: Any, **named: Any) -> Appended:
        return await self._offload(partial(self._call, self._cell.append, of, named))

    async def put(self, *of: Any, **named: Any) -> Written:
        return await self._offload(partial(self._call, self._cell.put, of, named))

    async def update(self, *of: Any, **named: Any) -> Written:
        return await self._offload(partial(self._call, self._cell.update, of, named))

    async def delete(self, *of: Any, **named: Any) -> Written:
        return await self._offload(partial(self._call, self._cell.delete, of, named))

    async def get(self, *of: Any, **named: Any) -> Attributes | None:
        return await self._offload(partial(self._call, self._cell.get, of, named))

    async def get_many(self, *of: Any, **named: Any) -> dict[Key, Attributes]:
        return await self._offload(partial(self._call, self._cell.get_many, of, named))

    async def query(self, *of: Any, **named: Any) -> list[Item]:
        return await self._offload(partial(self._call, self._cell.query, of, named))

    def expire(self, *of: Any) -> None:
        with self._lock:
            self._cell.expire(*of)

    def _call(
        self,
        method: Callable[..., Coroutine[Any, Any, T]],
        of: tuple[Any, ...],
        named: dict[str, Any],
    ) -> T:
        _check_keys(of, named)
        with self._lock:
            call = method(*of, **named)
            try:
                call.send(None)
            except StopIteration as stop:
                value: T = stop.value
                return value
            raise AssertionError("a memory cell suspends nobody")
