"""A retention that was raised, and receives that began with the definition of before."""

from dataclasses import replace

import pytest

from data_plane.stored.segment import number
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

BEFORE = replace(QUEUE, retention_s=60)
RAISED = replace(QUEUE, retention_s=345_600, version=2)


async def raised_in_flight(bench: Bench) -> None:
    """A message that is in flight until 62 s, in a queue whose retention is raised at 50 s."""
    bench.queue = BEFORE
    await bench.send("m")
    bench.clock.advance(45)
    assert len(await bench.receive(visibility_s=17)) == 1
    bench.clock.advance(5)
    await bench.bag.restamp(replace(BEFORE, retention_s=RAISED.retention_s))
    assert await bench.receive() == []


async def there(bench: Bench) -> list[str]:
    """What a front end that knows nothing yet receives, once this one has done its upkeep."""
    bench.queue = RAISED
    await bench.bag.sweep()
    bench.clock.advance(60)
    return [one.message.body for one in await bench.receive(bag=bench.front_end())]


@pytest.mark.parametrize("is_met", [False, True])
def test_a_receive_of_before_takes_nothing_for_expired(bench: Bench, *, is_met: bool) -> None:
    async def story() -> None:
        await raised_in_flight(bench)
        if is_met:
            bench.queue = RAISED
            assert await bench.receive() == []
        else:
            bench.bag.changed(RAISED)
        bench.clock.advance(12.5)
        bench.queue = BEFORE
        delivered = await bench.receive()
        assert [one.message.body for one in delivered] == ["m"]
        assert await there(bench) == ["m"]

    bench.run(story())


def test_what_is_read_first_by_a_receive_of_before_is_not_expired(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = BEFORE
        await bench.send("m")
        bench.clock.advance(50)
        await bench.bag.restamp(replace(BEFORE, retention_s=RAISED.retention_s))
        bench.bag.changed(RAISED)
        bench.clock.advance(11)
        assert len(await bench.receive()) == 1
        assert await there(bench) == ["m"]

    bench.run(story())


def test_a_purge_that_was_met_holds_for_a_receive_of_before(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("m")
        bench.bag.changed(replace(QUEUE, version=2, purged_us=await bench.bag.purge(QUEUE)))
        assert await bench.receive() == []

    bench.run(story())


def test_what_was_sent_by_the_definition_of_before_is_kept_by_a_later_restamp(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = BEFORE
        await bench.bag.restamp(replace(BEFORE, retention_s=RAISED.retention_s))
        await bench.send("m", bag=bench.front_end())
        bench.clock.advance(900)
        bench.queue = RAISED
        await bench.bag.restamp(RAISED)
        bench.clock.advance(86_400)
        now_s = bench.clock.now_us() // 1_000_000
        timed = [one for one in bench.cell.items() if "x" in one.attributes]
        bench.cell.expire([one.key for one in timed if number(one.attributes, "x") < now_s])
        assert len(await bench.receive()) == 1

    bench.run(story())
