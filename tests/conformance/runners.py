"""The ways in which a front end is run, as a process in each of them does.

TIDEGATE_TEST_DOOR=rest, or url, runs every suite through that door of Lambda instead.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from data_plane.ports import Offload, Waits
from data_plane.runtime.blocking import BlockingDriver, BlockingWaits
from tests.conformance.doors import Door, rest_door, url_door
from tests.conformance.on_driver import THREADS_MAX, inline
from tests.conformance.waited_clock import WaitedClock, WaitsOnClock

T = TypeVar("T")

_ANSWER_WITHIN_S = 60


class Runner(Protocol):
    """What runs a front end's coroutines, for callers in any thread."""

    serves_one_at_a_time: bool
    waits: Waits
    offload: Offload
    new_door: Callable[[Any], Door] | None

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine: what it returns or raises."""
        ...

    def close(self) -> None:
        """End what still runs."""
        ...


class LoopInAThread:
    """An event loop in a thread of its own, as in the long-lived server."""

    serves_one_at_a_time = False
    new_door: Callable[[Any], Door] | None = None

    def __init__(self, clock: WaitedClock) -> None:
        self.waits: Waits = WaitsOnClock(clock)
        self.offload: Offload = inline
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(_ANSWER_WITHIN_S)

    def close(self) -> None:
        self.run(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class OneAfterTheOther:
    """The blocking driver, which gets one call at a time, as in a Lambda function's sandbox."""

    serves_one_at_a_time = True
    new_door: Callable[[Any], Door] | None = None

    def __init__(self, clock: WaitedClock) -> None:
        self._driver = BlockingDriver(clock, clock.sleep, threads_max=THREADS_MAX)
        self.waits: Waits = BlockingWaits(self._driver)
        self.offload: Offload = self._driver.offload
        self._turn = threading.Lock()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        with self._turn:
            return self._driver.run(call)

    def close(self) -> None:
        self._driver.close()


class BehindRest(OneAfterTheOther):
    """The same, behind a REST API of API Gateway."""

    new_door: Callable[[Any], Door] | None = staticmethod(rest_door)


class BehindUrl(OneAfterTheOther):
    """The same, behind a function URL."""

    new_door: Callable[[Any], Door] | None = staticmethod(url_door)


NewRunner = Callable[[WaitedClock], Runner]

DOORS: dict[str, NewRunner] = {"rest": BehindRest, "url": BehindUrl}
RUNNERS: dict[str, NewRunner] = {"event loop": LoopInAThread, "blocking": OneAfterTheOther}


class Chosen:
    """What runs a front end where a test does not say."""

    runner: NewRunner = LoopInAThread


EVERYWHERE = os.environ.get("TIDEGATE_TEST_DOOR", "")
"""The door that all suites go through, if any."""

if EVERYWHERE:
    Chosen.runner = DOORS[EVERYWHERE]
    RUNNERS = {EVERYWHERE: Chosen.runner}
