import asyncio
from dataclasses import replace
from typing import Any

from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery
from data_plane.core.queue import AT_MOST_ONCE, Queue
from data_plane.engine import Engine
from data_plane.log.engine import Log
from data_plane.operations import hand_over
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.log.conftest import QUEUE as FIFO_QUEUE
from tests.unit.data_plane.log.conftest import Bench as LogBench

ONCE = replace(QUEUE, attributes={"TidegateDeliveryGuarantee": AT_MOST_ONCE})


def empty_log(bench: Bench) -> Log:
    return Log({"a": bench.cell}, bench.clock, bench.entropy, EventLoopWaits(bench.clock))


def engine_over(bench: Bench, bag: Bag) -> Engine:
    return Engine(bag, empty_log(bench))


class SlowEngine(Engine):
    """Takes longer than the lease lasts to give a receive's messages to the caller."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.bag, empty_log(bench))
        self.bench = bench
        self.others: list[Delivery] = []

    async def receive(self, queue: Queue, **options: Any) -> list[Delivery]:
        deliveries = await super().receive(queue, **options)
        self.bench.clock.advance(31)
        fast = engine_over(self.bench, self.bench.front_end())
        self.others = await hand_over.receive(fast, queue, **options)
        return deliveries


def test_who_is_overtaken_before_the_delete_shows_nothing() -> None:
    async def story() -> None:
        bench = Bench(queue=ONCE)
        await bench.send("a", "b")
        slow = SlowEngine(bench)
        shown = await hand_over.receive(slow, ONCE, count=10, visibility_s=0, until_us=0)
        assert shown == []
        assert sorted(delivery.message.body for delivery in slow.others) == ["a", "b"]

    asyncio.run(story())


def test_the_visibility_asked_for_has_no_effect() -> None:
    async def story() -> None:
        bench = Bench(queue=ONCE)
        await bench.send("a")
        engine = engine_over(bench, bench.bag)
        shown = await hand_over.receive(engine, ONCE, count=1, visibility_s=0, until_us=0)
        assert [delivery.message.body for delivery in shown] == ["a"]
        assert await bench.receive() == []

    asyncio.run(story())


class RepeatedEngine(Engine):
    """A receive whose call is repeated elsewhere before its messages are deleted."""

    def __init__(self, bench: LogBench) -> None:
        bag = Bag({"a": bench.cell}, bench.clock, bench.entropy, EventLoopWaits(bench.clock))
        super().__init__(bag, bench.log)
        self.elsewhere = Engine(bag, bench.front_end())
        self.again: list[Delivery] = []

    async def receive(self, queue: Queue, **options: Any) -> list[Delivery]:
        deliveries = await super().receive(queue, **options)
        self.again = await hand_over.receive(self.elsewhere, queue, **options)
        return deliveries


def test_a_repeated_attempt_shows_nothing_again() -> None:
    queue = replace(FIFO_QUEUE, attributes={**FIFO_QUEUE.attributes, **ONCE.attributes})
    bench = LogBench(queue=queue)

    async def story() -> None:
        await bench.send("g:1", "g:2")
        repeated = RepeatedEngine(bench)
        shown = await hand_over.receive(
            repeated, queue, count=10, visibility_s=0, until_us=0, attempt="a"
        )
        assert [delivery.message.body for delivery in shown] == ["1", "2"]
        assert repeated.again == []

    bench.run(story())
