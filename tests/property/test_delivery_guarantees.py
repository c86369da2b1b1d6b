"""Delivery guarantees while writes fail, are repeated, and receivers overtake each other."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.core import receipt_handle
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import AT_MOST_ONCE, EXACTLY_ONCE, Queue
from data_plane.engine import Engine
from data_plane.memory.cell import MemoryCell
from data_plane.operations import hand_over
from data_plane.ports import CellUnavailableError, Written
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.log.conftest import QUEUE as FIFO_QUEUE
from tests.unit.data_plane.log.conftest import Bench as FifoBench
from tests.unit.repeatable import HandClock

MESSAGES = 6
RECEIVERS = 3
FATES = ("done", "done", "done", "slow", "lost request", "lost reply", "repeated")


class UnreliableCell(MemoryCell):
    """Lets others in around each update, and treats it as the next fate says."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self.hand = clock
        self.fates: list[tuple[str, int]] = []

    async def update(self, *args: Any, **options: Any) -> Written:
        fate, steps = self.fates.pop() if self.fates else ("done", 0)
        if fate == "slow":
            self.hand.advance(31)  # Leases end while the request is on its way.
        for _ in range(steps):
            await asyncio.sleep(0)
        if fate == "lost request":
            raise CellUnavailableError
        written = await super().update(*args, **options)
        for _ in range(steps):
            await asyncio.sleep(0)
        if fate == "lost reply":
            raise CellUnavailableError
        # As an adapter does whose first reply was lost.
        return await super().update(*args, **options) if fate == "repeated" else written


class World:
    """Front ends of both engines over one unreliable cell with messages in a queue."""

    def __init__(self, queue: Queue, guarantee: str, fates: list[tuple[str, int]]) -> None:
        attributes = {**queue.attributes, "TidegateDeliveryGuarantee": guarantee}
        self.queue = replace(queue, attributes=attributes)
        self.bench = Bench(queue=self.queue)
        self.cell = UnreliableCell(self.bench.clock)
        self.fates = fates
        self.bench.cell = self.cell
        self.logs = FifoBench(clock=self.bench.clock, queue=self.queue)
        self.logs.cell = self.cell
        self.engines = [Engine(self.bench.front_end(), self.logs.front_end()) for _ in range(2)]

    async def fill(self) -> None:
        for number in range(MESSAGES):
            message = Outgoing(
                body=str(number), size=1, group=f"g{number % 2}", deduplication_id=str(number)
            )
            sent = message if self.queue.fifo else msgspec.structs.replace(message, group="")
            await self.engines[0].send(self.queue, SendCall("1", [sent]))
        self.cell.fates = list(self.fates)

    async def together(
        self, rounds: int, receive: Callable[[Engine], Coroutine[Any, Any, None]]
    ) -> None:
        """Receivers at both front ends at the same time, while leases end in between."""

        async def receiver(engine: Engine) -> None:
            try:
                await receive(engine)
            except CellUnavailableError:
                return

        for _ in range(rounds):
            await asyncio.gather(*(receiver(self.engines[n % 2]) for n in range(RECEIVERS)))
            self.bench.clock.advance(31)


queues = pytest.mark.parametrize("queue", [QUEUE, FIFO_QUEUE], ids=["standard", "fifo"])
any_fates = st.lists(st.tuples(st.sampled_from(FATES), st.integers(0, 3)), max_size=40)


@queues
@settings(max_examples=20, deadline=None)
@given(fates=any_fates, count=st.integers(1, 3))
def test_at_most_once_no_message_is_in_two_answers(
    queue: Queue, fates: list[tuple[str, int]], count: int
) -> None:
    async def story() -> list[str]:
        world = World(queue, AT_MOST_ONCE, fates)
        await world.fill()
        shown: list[str] = []

        async def receive(engine: Engine) -> None:
            shown.extend(
                delivery.message.body
                for delivery in await hand_over.receive(
                    engine, world.queue, count=count, visibility_s=0, until_us=0
                )
            )

        await world.together(12, receive)
        return shown

    shown = asyncio.run(story())
    assert len(shown) == len(set(shown))
    if not fates:
        assert len(shown) == MESSAGES


@queues
@settings(max_examples=20, deadline=None)
@given(fates=any_fates, slow=st.lists(st.booleans(), max_size=12))
def test_exactly_once_one_receiver_acknowledges(
    queue: Queue, fates: list[tuple[str, int]], slow: list[bool]
) -> None:
    async def story() -> None:
        world = World(queue, EXACTLY_ONCE, fates)
        await world.fill()
        acknowledged: dict[str, set[str]] = {}
        late: list[tuple[Engine, str, str]] = []

        async def acknowledge(engine: Engine, body: str, text: str) -> None:
            handle = receipt_handle.decode(text, world.queue)
            (refusal,) = await engine.delete(world.queue, [handle])
            if refusal is None:
                acknowledged.setdefault(body, set()).add(text)

        async def work(engine: Engine) -> None:
            before = set(acknowledged)
            for delivery in await engine.receive(world.queue, count=2, visibility_s=30, until_us=0):
                body = delivery.message.body
                assert body not in before, "delivered after its acknowledgement"
                if slow and slow.pop():
                    late.append((engine, body, delivery.receipt_handle))
                else:
                    await acknowledge(engine, body, delivery.receipt_handle)

        await world.together(6, work)
        world.cell.fates = []
        for engine, body, text in late:
            await acknowledge(engine, body, text)
        await world.together(12, work)
        assert {body: len(handles) for body, handles in acknowledged.items()} == dict.fromkeys(
            acknowledged, 1
        )
        if not fates:
            assert len(acknowledged) == MESSAGES

    asyncio.run(story())
