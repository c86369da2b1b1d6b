"""Receives whose answers have a bound: what does not fit stays as it was, for the next one."""

from data_plane.bag.engine import Bag
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.bag.conftest import Bench


class BoundedBench(Bench):
    """Its front ends deliver 100 bytes at most."""

    def front_end(self) -> Bag:
        waits = EventLoopWaits(self.clock)
        return Bag({"a": self.cell}, self.clock, self.entropy, waits, answer_bytes_max=100)


def test_what_does_not_fit_is_neither_leased_nor_counted() -> None:
    async def story() -> None:
        bench = BoundedBench()
        bodies = [f"{number}" * 40 for number in range(5)]
        await bench.send(*bodies)
        received: list[str] = []
        for expected in (2, 2, 1, 0):
            deliveries = await bench.receive()
            assert [delivery.receive_count for delivery in deliveries] == [1] * expected
            received += [delivery.message.body for delivery in deliveries]
        assert sorted(received) == bodies

    Bench().run(story())


def test_over_several_blocks_and_for_other_front_ends() -> None:
    async def story() -> None:
        bench = BoundedBench()
        for number in range(6):
            await bench.send(f"{number}" * 60, bag=bench.front_end())
        other = bench.front_end()
        received = [
            delivery.message.body[0]
            for bag in (None, other, None, other, None, other)
            for delivery in await bench.receive(bag=bag)
        ]
        assert sorted(received) == list("012345")

    Bench().run(story())


def test_one_message_is_delivered_however_big_it_is() -> None:
    async def story() -> None:
        bench = BoundedBench()
        await bench.send("a" * 101, "b" * 101)
        first, second = await bench.receive(), await bench.receive()
        assert [len(deliveries) for deliveries in (first, second)] == [1, 1]

    Bench().run(story())
