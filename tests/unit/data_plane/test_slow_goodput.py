"""What a front end gets done while its store is slow, beside what the store sustains.

In virtual time: a store of 1.5 s a request, with more clients than it can serve, each with a queue
of its own, so that no two share a write; and long polls beside them.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.begun import start_progress
from data_plane.core.deadline import deadline
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import decode
from data_plane.engine import Engine
from data_plane.log.engine import Log
from data_plane.ports import CellUnavailableError
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run
from tests.unit.data_plane.slow_store import SlowCell
from tests.unit.repeatable import SeededEntropy

T = TypeVar("T")

THREADS: Final = 16
CALM_S, SLOW_S = 0.2, 1.5
DEADLINE_S: Final = 15
AGAIN_S: Final = 0.5
"""When a client tries again what was refused; SDKs wait about as long."""

GOODPUT_MIN: Final = 0.5


@dataclass
class Scene:
    """One front end on one store, and its clients."""

    loop: VirtualLoop
    done: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0

    def __post_init__(self) -> None:
        self.cell = SlowCell(self.loop, THREADS)
        ports = (self.loop, SeededEntropy(), EventLoopWaits(self.loop))
        cells = {"a": self.cell}
        self.engine = Engine(Bag(cells, *ports), Log(cells, *ports))

    async def call(self, kind: str, begin: Callable[[], Awaitable[T]], wait_s: int = 0) -> T | None:
        """A request as the front end makes it, which is counted if it is served."""
        began_s = self.loop.time()
        start_progress()
        try:
            with deadline(self.loop.now_us() + (DEADLINE_S + wait_s) * 1_000_000):
                answer = await begin()
            self.done[kind] += 1
        except CellUnavailableError:
            answer = None
        self.longest_s = max(self.longest_s, self.loop.time() - began_s - wait_s)
        if answer is None:
            await asyncio.sleep(AGAIN_S)  # of the loop's time
        return answer

    async def work(self, queue: Queue) -> None:
        """Send, receive and delete, one after the other, without end."""
        engine = self.engine
        message = Outgoing(body="m", size=1)
        while True:
            await self.call("send", lambda: engine.send(queue, SendCall("1", [message])))
            got = await self.call(
                "receive",
                lambda: engine.receive(queue, count=1, visibility_s=600, until_us=0),
            )
            handles = [decode(one.receipt_handle, queue) for one in got or ()]
            while handles:
                if await self.call("delete", partial(engine.delete, queue, handles)) is not None:
                    handles = []

    async def poll(self, queue: Queue) -> None:
        """Wait for what never comes."""
        while True:
            receive = partial(self.engine.receive, queue, count=1, visibility_s=60)
            until_us = self.loop.now_us() + 20_000_000
            await self.call("poll", partial(receive, until_us=until_us), wait_s=20)

    def served(self) -> int:
        """Calls that did something for a client."""
        return self.done.total() - self.done["poll"]


async def goodput(scene: Scene, clients: int, polls: int) -> float:
    """What is served of what the store sustains, while it is slow."""
    queues = [replace(QUEUE, uid=f"{n:016x}", name=f"q{n}") for n in range(clients + polls)]
    scene.cell.threads.takes_s = CALM_S
    tasks = [asyncio.create_task(scene.work(queue)) for queue in queues[:clients]]
    await asyncio.sleep(5)  # of the loop's time, as all that follow
    served, made = scene.served(), scene.cell.threads.made
    await asyncio.sleep(5)
    requests_a_call = (scene.cell.threads.made - made) / (scene.served() - served)
    tasks += [asyncio.create_task(scene.poll(queue)) for queue in queues[clients:]]
    scene.cell.threads.takes_s = SLOW_S
    await asyncio.sleep(20)
    served = scene.served()
    await asyncio.sleep(45)
    share = (scene.served() - served) * requests_a_call / (45 * THREADS / SLOW_S)
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    return share


@pytest.mark.parametrize(("clients", "polls"), [(32, 0), (100, 40)])
def test_a_slow_store_still_gives_half_of_what_it_sustains(clients: int, polls: int) -> None:
    loop = VirtualLoop()
    scene = Scene(loop)
    share = run(goodput(scene, clients, polls), loop)
    assert share >= GOODPUT_MIN, scene.done
    assert min(scene.done[kind] for kind in ("send", "receive", "delete")) > 0
    assert scene.longest_s <= DEADLINE_S + 0.01
