"""FIFO queues that promise more than at least once tell who else has deleted a message."""

from dataclasses import replace

import pytest

from data_plane.core.errors import RefusedError
from data_plane.core.queue import AT_MOST_ONCE, EXACTLY_ONCE
from tests.unit.data_plane.log.conftest import QUEUE, Bench, bodies


def fenced(guarantee: str) -> Bench:
    attributes = {**QUEUE.attributes, "TidegateDeliveryGuarantee": guarantee}
    return Bench(queue=replace(QUEUE, attributes=attributes))


@pytest.mark.parametrize("guarantee", [AT_MOST_ONCE, EXACTLY_ONCE])
def test_a_message_that_somebody_else_has_deleted(guarantee: str) -> None:
    bench = fenced(guarantee)

    async def story() -> None:
        await bench.send("g:1", "g:2")
        overtaken = await bench.receive(1)
        bench.clock.advance(31)
        latest = await bench.receive(1)
        assert not await bench.delete(latest)
        assert "has expired" in (await bench.delete(overtaken))[0]
        # The same handle may delete again, as a repeated request does.
        assert not await bench.delete(latest)
        assert bodies(await bench.receive()) == ["2"]
        counts = await bench.log.counts(bench.queue)
        assert (counts.visible, counts.in_flight) == (0, 1)

    bench.run(story())


def test_by_default_it_counts_as_deleted_by_all(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("g:1")
        overtaken = await bench.receive(1)
        bench.clock.advance(31)
        assert not await bench.delete(await bench.receive(1))
        assert not await bench.delete(overtaken)

    bench.run(story())


def test_another_front_end_takes_what_was_deleted_for_done() -> None:
    bench = fenced(EXACTLY_ONCE)

    async def story() -> None:
        await bench.send("g:1", "g:2", "h:3")
        other = bench.front_end()
        first, *_ = await bench.receive(1)
        assert not await bench.delete([first])
        assert sorted(bodies(await bench.receive(log=other))) == ["2", "3"]
        bench.clock.advance(31)
        assert sorted(bodies(await bench.receive(log=bench.front_end()))) == ["2", "3"]

    bench.run(story())


def test_an_attempt_gets_nothing_again_once_some_of_it_is_deleted() -> None:
    bench = fenced(EXACTLY_ONCE)

    async def story() -> None:
        await bench.send("g:1", "g:2")
        received = await bench.log.receive(
            bench.queue, count=2, visibility_s=30, until_us=0, attempt="a"
        )
        assert bodies(received) == ["1", "2"]
        assert not await bench.delete(received[:1])
        with pytest.raises(RefusedError, match="the receive call is not retryable"):
            await bench.log.receive(bench.queue, count=2, visibility_s=30, until_us=0, attempt="a")

    bench.run(story())
