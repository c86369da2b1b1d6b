"""One node of a shared cache under both drivers, with a guard of its own before it."""

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from control_plane.metadata_cache.memcached import RULES, MemcachedNode
from data_plane.runtime.blocking import BlockingDriver
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard, GuardedOffload
from data_plane.system import SystemClock
from tests.unit.repeatable import HandClock

T = TypeVar("T")
Call = Callable[[MemcachedNode], Coroutine[Any, Any, T]]

PATIENT_S: Final = 10.0
"""So that a busy machine loses no answer, where none is to be lost."""


def on_event_loop(
    address: tuple[str, int],
    call: Call[T],
    clock: HandClock | None = None,
    tls: ssl.SSLContext | None = None,
) -> T:
    """What the call answers, of a node beside an event loop."""
    own = clock or SystemClock()
    guard = Guard("node", own, rules=RULES)

    async def run() -> T:
        offload = EventLoopOffload(2, own, guard, patience_s=PATIENT_S)
        node = MemcachedNode(*address, offload, guard, tls)
        try:
            return await call(node)
        finally:
            offload.close()
            node.close()

    return asyncio.run(run())


def on_blocking_driver(
    address: tuple[str, int], call: Call[T], *, tls: ssl.SSLContext | None = None
) -> T:
    """What the call answers, of a node as a function has it."""
    clock = SystemClock()
    driver = BlockingDriver(clock, time.sleep, threads_max=4)
    guard = Guard("node", clock, rules=RULES)
    node = MemcachedNode(*address, GuardedOffload(driver.offload, guard), guard, tls)
    try:
        return driver.run(call(node))
    finally:
        node.close()
        driver.close()


RUNS: Final = (on_event_loop, on_blocking_driver)
