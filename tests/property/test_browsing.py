"""Whatever was done to a queue: browsing shows each message that is left, once, in its state."""

import asyncio
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.bag.engine import Bag
from data_plane.core.browsing import Browsed
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.core.queue import Queue
from tests.unit.data_plane.bag.apart import ApartBench, NarrowCell
from tests.unit.data_plane.bag.conftest import Bench

steps = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 25), st.sampled_from([0, 0, 0, 5, 900])),
    st.tuples(st.just("flood"), st.integers(20, 80), st.just(0)),
    st.tuples(st.just("receive"), st.integers(1, 10), st.sampled_from([0, 30, 600, 43_200])),
    st.tuples(st.just("drain"), st.integers(1, 12), st.sampled_from([60, 600])),
    st.tuples(st.just("delete"), st.integers(0, 50), st.just(0)),
    st.tuples(st.just("change"), st.integers(0, 50), st.sampled_from([0, 10, 1_000])),
    st.tuples(st.just("wait"), st.sampled_from([1, 31, 700]), st.just(0)),
    st.tuples(st.just("sweep"), st.integers(1, 5), st.just(0)),
    st.tuples(st.just("purge"), st.just(0), st.just(0)),
)


@dataclass
class Story:
    """Two front ends over one cell, and what must be left in the queue."""

    bench: Bench
    left: set[bytes] = field(default_factory=set)
    held: dict[bytes, Delivery] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bags = [self.bench.bag, self.bench.front_end()]

    @property
    def queue(self) -> Queue:
        return self.bench.queue

    async def send(self, bag: Bag, amount: int, delay_s: int, group: str) -> None:
        message = Outgoing(body="x", size=1, delay_s=delay_s, group=group)
        for start in range(0, amount, 10):
            part = [message] * min(10, amount - start)
            self.left |= set(await bag.send(self.queue, SendCall(self.queue.account, part)))

    async def take(  # noqa: C901 - one case for each kind of step
        self, bag: Bag, kind: str, amount: int, seconds: int
    ) -> None:
        bench = self.bench
        match kind:
            case "send":
                await self.send(bag, amount, seconds, "")
            case "flood":
                await self.send(bag, amount, 0, "noisy")
            case "receive":
                for delivery in await bench.receive(amount, seconds, bag):
                    self.held[delivery.message.id] = delivery
            case "drain":
                for _ in range(amount):
                    got = await bench.receive(10, seconds, bag)
                    await bench.delete(got, bag)
                    self.left -= {delivery.message.id for delivery in got}
            case "delete" if self.held:
                chosen = list(self.held)[amount % len(self.held)]
                await bench.delete([self.held.pop(chosen)], bag)
                self.left.discard(chosen)
            case "change" if self.held:
                delivery = list(self.held.values())[amount % len(self.held)]
                await bag.change_visibility(self.queue, [(bench.handle(delivery), seconds)])
            case "wait":
                bench.clock.advance(amount)
            case "sweep":
                for _ in range(amount):
                    await bag.sweep()
            case "purge":
                stamp_us = await bag.purge(self.queue)
                bench.queue = replace(self.queue, purged_us=stamp_us)
                self.left.clear()
                self.held.clear()
                bench.clock.advance(1)  # Counters tell what is purged by the millisecond.

    async def browsed(self, count: int) -> list[Browsed]:
        bag = self.bench.front_end()
        found: list[Browsed] = []
        position = b""
        for _ in range(5_000):
            page = await bag.browse(self.queue, count=count, position=position)
            found += page.messages
            position = page.next_position
            if not position:
                return found
        raise AssertionError("the walk does not end")

    async def check(self, count: int) -> None:
        found = await self.browsed(count)
        ids = [one.message.id for one in found]
        assert sorted(ids) == sorted(self.left)
        counts = await self.bench.bag.counts(self.queue)
        states = [one.state for one in found]
        assert counts.in_flight == states.count("inFlight")
        assert counts.delayed == states.count("delayed")
        # What is shown as visible is what a receive returns.
        visible = {one.message.id for one in found if one.state == "visible"}
        self.bench.clock.advance(4)  # What was written late has settled by then.
        got: set[bytes] = set()
        empty = 0
        while empty < 3:  # One may come from what was known before others deleted it.
            deliveries = await self.bench.receive(10, 43_200, self.bags[1])
            empty = 0 if deliveries else empty + 1
            got |= {delivery.message.id for delivery in deliveries}
        assert visible <= got <= self.left


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([Bench, ApartBench]),
    st.lists(st.tuples(st.integers(0, 1), steps), max_size=40),
    st.sampled_from([1, 3, 10, 100]),
    st.sets(st.integers(0, 30), max_size=6),
)
def test_every_message_is_shown_once(
    new_bench: type[Bench],
    taken: list[tuple[int, tuple[str, int, int]]],
    count: int,
    late: set[int],
) -> None:
    async def tell() -> None:
        story = Story(new_bench())
        for number, (bag, (what, amount, seconds)) in enumerate(taken):
            cell = story.bench.cell
            if isinstance(cell, NarrowCell):
                cell.append_takes_s = [3.0] if number in late and what == "send" else []
            await story.take(story.bags[bag], what, amount, seconds)
        await story.check(count)

    asyncio.run(tell())
