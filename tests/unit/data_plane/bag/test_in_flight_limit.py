"""About 120,000 messages of a standard queue may be in flight; then receives are refused."""

import pytest

from data_plane.core.errors import OVER_LIMIT, RefusedError
from data_plane.core.limits import IN_FLIGHT_MAX
from data_plane.ports import Tally
from data_plane.stored import counting, in_flight, keys
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

IN_FLIGHT_UNSEEN_MAX = 100
"""In place of the shipped bound, for speed."""


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "IN_FLIGHT_UNSEEN_MAX", IN_FLIGHT_UNSEEN_MAX)


def counted(bench: Bench, in_flight: int) -> None:
    """Let the counters say that so many more messages are in flight for a minute."""
    tenth = bench.clock.now_us() // counting.TENTH_US + 600
    key = keys.counter(QUEUE.uid, 0, counting.IN_FLIGHT, tenth)
    bench.cell._count([Tally(key, in_flight)])


async def consume(bench: Bench, messages: int) -> None:
    """Receive so many messages that were sent before, and keep them."""
    for _ in range(messages // 10):
        assert len(await bench.receive(visibility_s=600)) == 10


async def fill(bench: Bench, messages: int) -> None:
    for _ in range(messages // 50):
        await bench.send(*["x"] * 50)


def test_a_receive_beyond_the_limit_is_refused_and_changes_nothing(bench: Bench) -> None:
    async def story() -> None:
        await fill(bench, IN_FLIGHT_UNSEEN_MAX + 100)
        await consume(bench, IN_FLIGHT_UNSEEN_MAX)
        counted(bench, IN_FLIGHT_MAX - IN_FLIGHT_UNSEEN_MAX)
        bench.clock.advance(1)
        stored = bench.cell.items()
        for _ in range(2):
            with pytest.raises(RefusedError) as refused:
                await bench.receive()
            assert refused.value.fault is OVER_LIMIT
        assert bench.cell.items() == stored

    bench.run(story())


def test_a_delete_makes_room_at_once_here_and_within_a_second_elsewhere(bench: Bench) -> None:
    async def story() -> None:
        await fill(bench, IN_FLIGHT_UNSEEN_MAX + 100)
        kept = await bench.receive(visibility_s=600)
        await consume(bench, IN_FLIGHT_UNSEEN_MAX - 10)
        counted(bench, IN_FLIGHT_MAX - IN_FLIGHT_UNSEEN_MAX)
        bench.clock.advance(1)
        with pytest.raises(RefusedError):
            await bench.receive()
        await bench.delete(kept[:1])
        assert len(await bench.receive(1)) == 1
        with pytest.raises(RefusedError):
            await bench.receive(1)
        await bench.delete(kept[1:2], bag=bench.front_end())
        with pytest.raises(RefusedError):
            await bench.receive(1)
        bench.clock.advance(1)
        assert len(await bench.receive(1)) == 1

    bench.run(story())


def test_who_keeps_up_looks_once_for_many_messages(bench: Bench) -> None:
    async def story() -> None:
        await bench.receive()  # opens the queue
        looks = 0
        for _ in range(1_000):
            await bench.send(*"abcdefghij")
            bench.clock.advance(0.01)
            before = bench.cell.requests["query"]
            await bench.delete(await bench.receive())
            looks += bench.cell.requests["query"] > before + 1
        assert looks == 1

    bench.run(story())


def test_looks_are_rare_while_much_is_left(bench: Bench) -> None:
    async def story() -> None:
        await bench.receive()
        await fill(bench, 5_000)
        looks = 0
        for _ in range(400):
            bench.clock.advance(2)
            requests, _ = await bench.cost_of(lambda: bench.receive(visibility_s=40_000))
            looks += requests.get("query", 0) > 1
        assert looks == 1

    bench.run(story())
