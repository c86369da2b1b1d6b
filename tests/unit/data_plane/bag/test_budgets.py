"""What operations cost at the cell port, exactly, and that a past does not add to it."""

import asyncio

import pytest

from data_plane.core.message import Outgoing, SendCall
from tests.unit.data_plane.bag.conftest import Bench


def test_a_send_batch_is_one_write(bench: Bench) -> None:
    async def story() -> None:
        requests, _ = await bench.cost_of(lambda: bench.send(*"abcdefghij"))
        assert requests == {"append": 1}

    bench.run(story())


def test_a_receive_of_ten_from_one_block_is_one_query_one_read_one_write(bench: Bench) -> None:
    async def story() -> None:
        await bench.receive()  # opens the lane: reads the low-water mark once
        await bench.send(*"abcdefghij")
        requests, _ = await bench.cost_of(bench.receive)
        assert requests == {"query": 1, "get_many": 1, "update": 1}

    bench.run(story())


def test_a_receive_of_ten_single_sends_costs_the_same(bench: Bench) -> None:
    async def story() -> None:
        await bench.receive()
        for body in "abcdefghij":
            await bench.send(body)
        requests, items = await bench.cost_of(bench.receive)
        assert requests == {"query": 1, "get_many": 1, "update": 1}
        assert items == 10

    bench.run(story())


def test_a_delete_batch_in_one_block_is_one_write(bench: Bench) -> None:
    async def story() -> None:
        await bench.send(*"abcdefghij")
        deliveries = await bench.receive()
        requests, _ = await bench.cost_of(lambda: bench.delete(deliveries))
        assert requests == {"update": 1}

    bench.run(story())


def test_the_low_water_mark_costs_one_write_for_64_messages(bench: Bench) -> None:
    async def story() -> None:
        for _ in range(100):
            await bench.send(*"abcdefghij")
        requests, _ = await bench.cost_of(bench.drain)
        # 1,000 messages: a receive may cross a block, hence up to two leases and two deletes.
        assert requests["update"] <= 100 + 100 + 2 * (1000 // 64 + 1) + 1000 // 64 + 1
        assert "append" not in requests

    bench.run(story())


@pytest.mark.parametrize("front", ["nothing", "one undeleted", "one leased"])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_what_was_deleted_before_adds_no_reads(front: str, *, restarted: bool) -> None:
    """Receives, empty or of 10, read as much after 4,970 deleted messages as after 70 (a block).

    State that grew with them would show at 71 blocks; the benchmark has the million.
    """

    async def costs(past_messages: int) -> list[tuple[dict[str, int], int]]:
        bench = Bench()
        await bench.send("front")
        held = await bench.receive(visibility_s=0 if front == "one undeleted" else 43_200)
        if front == "nothing":
            await bench.delete(held)
        bench.clock.advance(1)
        for _ in range(past_messages // 10):
            await bench.send(*"abcdefghij")
        for _ in range(past_messages // 10):
            got = await bench.receive(visibility_s=43_200)
            await bench.delete([d for d in got if d.message.body != "front"])
        bench.clock.advance(60)
        for _ in range(20):
            await bench.bag.sweep()
        bag = bench.front_end() if restarted else bench.bag
        if front == "one undeleted":
            # It is there to be received at any time: look at what a receive of it costs.
            await bench.send("again")
        empty = await bench.cost_of(lambda: bench.receive(bag=bag, visibility_s=43_200))
        await bench.send(*"abcdefghij")
        full = await bench.cost_of(lambda: bench.receive(bag=bag))
        return [empty, full]

    with_none, with_many = Bench().run(costs(70)), Bench().run(costs(4_970))
    for (requests, items), (requests_after, items_after) in zip(with_none, with_many, strict=True):
        assert items_after <= items
        assert {k: n for k, n in requests_after.items() if n > requests.get(k, 0)} == {}


def test_a_crash_before_the_sweep_costs_at_most_the_last_64_messages(bench: Bench) -> None:
    async def story() -> None:
        for _ in range(200):
            await bench.send(*"abcdefghij")
        await bench.drain()
        _, items = await bench.cost_of(lambda: bench.receive(bag=bench.front_end()))
        assert items <= 1 + 64 // 10 + 1 + 10

    bench.run(story())


def test_ten_thousand_messages_in_one_slice_cost_no_more(bench: Bench) -> None:
    async def story() -> None:
        # Sent within one tick of the clock: stamps go up by a microsecond each.
        for _ in range(1000):
            await bench.send(*"abcdefghij")
        await bench.receive()
        for _ in range(300):
            requests, items = await bench.cost_of(bench.receive)
            assert requests.get("query", 0) <= 2
            assert items <= 3 + 2

    bench.run(story())


def test_concurrent_sends_share_segments(bench: Bench) -> None:
    async def story() -> None:
        await asyncio.gather(*(bench.send(f"m{i}") for i in range(65)))
        # The first goes at once; the 64 that came meanwhile fill one segment.
        assert bench.cell.requests["append"] == 2
        assert sorted(await bench.drain()) == sorted(f"m{i}" for i in range(65))

    bench.run(story())


def test_a_batch_of_the_greatest_size_is_one_segment(bench: Bench) -> None:
    async def story() -> None:
        big = Outgoing(body="x" * 104_857, size=104_857)
        await bench.bag.send(bench.queue, SendCall("1", [big] * 10))
        assert bench.cell.requests["append"] == 1
        assert len(await bench.receive()) == 10

    bench.run(story())


async def leave_every_tenth(bench: Bench) -> None:
    """Of 200 messages that came back, more are deleted behind each than let a receive look."""
    for number in range(200):
        await bench.send(str(number))
    held = [delivery for _ in range(20) for delivery in await bench.receive(visibility_s=5)]
    await bench.delete([d for d in held if int(d.message.body) % 10])


def test_a_mark_that_creeps_past_what_was_left_costs_one_write_for_64_messages(
    bench: Bench,
) -> None:
    async def story() -> None:
        await leave_every_tenth(bench)
        bench.clock.advance(6)
        requests, _ = await bench.cost_of(lambda: bench.drain(count=1))
        assert requests["update"] <= 20 + 20 + 200 // 64

    bench.run(story())


def test_a_receive_moves_the_mark_once_however_much_it_finds_expired(bench: Bench) -> None:
    async def story() -> None:
        await leave_every_tenth(bench)
        bench.clock.advance(bench.queue.retention_s + 1)
        requests, _ = await bench.cost_of(lambda: bench.receive(count=1))
        assert requests["get_many"] > 10  # pages through what was left, in vain
        assert requests.get("update", 0) <= 1

    bench.run(story())
