"""Counts of what is delayed, or in flight, for longer than SQS allows: by the minute."""

from data_plane.stored import keys
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

DAY_S = 86_400


async def counts(bench: Bench) -> tuple[int, int, int]:
    found = await bench.bag.counts(bench.queue)
    return found.visible, found.in_flight, found.delayed


def counters(bench: Bench) -> set[bytes]:
    partition = keys.counters(QUEUE.uid)
    return {item.key.sort[8:9] for item in bench.cell.items() if item.key.partition == partition}


def test_long_delays_leave_the_count_within_a_minute(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("short", delay_s=900)
        assert counters(bench) == {b"a", b"d"}
        await bench.send("long", "longer", delay_s=901)
        assert counters(bench) == {b"a", b"d", b"e"}
        assert await counts(bench) == (0, 0, 3)
        bench.clock.advance(900.2)
        assert await counts(bench) == (1, 0, 2)
        bench.clock.advance(61)
        assert await counts(bench) == (3, 0, 0)

    bench.run(story())


def test_long_leases_are_counted_until_they_end_or_are_deleted(bench: Bench) -> None:
    async def story() -> None:
        await bench.send(*"abc")
        first, second, _ = await bench.receive(visibility_s=2 * DAY_S)
        assert counters(bench) == {b"a", b"g"}
        assert await counts(bench) == (0, 3, 0)
        await bench.delete([first])
        assert await counts(bench) == (0, 2, 0)
        bench.clock.advance(DAY_S)
        # Shortened, but more than twelve hours after its receive all the same.
        change = [(bench.handle(second), 60)]
        assert await bench.bag.change_visibility(bench.queue, change, extended=True) == [None]
        assert await counts(bench) == (0, 2, 0)
        bench.clock.advance(121)
        assert await counts(bench) == (1, 1, 0)
        bench.clock.advance(DAY_S)
        assert await counts(bench) == (2, 0, 0)

    bench.run(story())


def test_a_change_takes_a_lease_from_one_kind_of_counter_to_the_other(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        (held,) = await bench.receive(visibility_s=600)
        for seconds in (2 * DAY_S, 300, 2 * DAY_S, 0):
            change = [(bench.handle(held), seconds)]
            assert await bench.bag.change_visibility(bench.queue, change, extended=True) == [None]
            assert await counts(bench) == ((0, 1, 0) if seconds else (1, 0, 0))

    bench.run(story())


def test_a_count_reads_no_more_than_a_counter_a_minute(bench: Bench) -> None:
    async def story() -> None:
        for number in range(300):
            await bench.send("x", delay_s=DAY_S + number // 10)
            bench.clock.advance(0.15)
        _, items = await bench.cost_of(lambda: bench.bag.counts(bench.queue))
        assert items <= 1 + 4
        assert await counts(bench) == (0, 0, 300)

    bench.run(story())


def test_past_counters_are_let_go(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("delayed", delay_s=1_000)
        await bench.send("held")
        await bench.receive(visibility_s=2 * DAY_S)
        bench.clock.advance(2 * DAY_S + 180)
        await bench.bag.drop_past_counters(bench.queue)
        assert counters(bench) == {b"a"}
        assert await counts(bench) == (2, 0, 0)

    bench.run(story())
