"""A handle is good at every front end, whatever that one remembers of the message."""

from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.log.engine import Log
from tests.unit.data_plane.log.conftest import Bench


async def taken_twice(bench: Bench) -> tuple[Log, ReceiptHandle]:
    """A front end that took a message, and the handle that another got for it afterwards."""
    other = bench.front_end()
    await bench.send("a:1")
    await bench.receive(visibility_s=1)
    bench.clock.advance(2)
    (delivery,) = await bench.receive(log=other)
    return bench.log, bench.handle(delivery)


def test_a_front_end_with_an_old_lease_in_memory_deletes(bench: Bench) -> None:
    async def story() -> None:
        log, handle = await taken_twice(bench)
        assert await log.delete(bench.queue, [handle]) == [None]
        assert await bench.drain(bench.front_end()) == []

    bench.run(story())


def test_a_front_end_with_an_old_lease_in_memory_changes_the_visibility(bench: Bench) -> None:
    async def story() -> None:
        log, handle = await taken_twice(bench)
        assert await log.change_visibility(bench.queue, [(handle, 0)]) == [None]
        assert await bench.drain(bench.front_end()) == ["1"]

    bench.run(story())


def test_a_visibility_that_another_front_end_has_extended_counts(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        await bench.send("a:1")
        (delivery,) = await bench.receive(visibility_s=10)
        handle = bench.handle(delivery)
        assert await other.change_visibility(bench.queue, [(handle, 100)]) == [None]
        bench.clock.advance(50)
        assert await bench.log.delete(bench.queue, [handle]) == [None]

    bench.run(story())
