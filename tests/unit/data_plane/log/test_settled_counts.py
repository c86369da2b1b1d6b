"""Counters of a FIFO queue that say what is not there are let go of; others are not."""

from data_plane.ports import Update
from data_plane.stored import counting, keys
from tests.unit.data_plane.log.conftest import Bench


def test_an_empty_queue_is_soon_counted_as_empty_and_another_one_is_not(bench: Bench) -> None:
    async def story() -> None:
        queue = bench.queue

        async def visible() -> int:
            return (await bench.log.counts(queue)).visible

        await bench.send("g:a")
        minute = bench.clock.now_us() // counting.MINUTE_US
        counter = keys.counter(queue.uid, queue.purged_us, counting.ALIVE, minute)
        await bench.cell.update(counter, Update(add={"n": 61}))
        bench.clock.advance(180)
        await bench.log.drop_past_counters(queue)
        assert await visible() == 62
        await bench.drain()
        await bench.log.drop_past_counters(queue)
        assert await visible() == 0

    bench.run(story())
