"""As tests/unit/data_plane/bag/test_raised_retention.py, of a FIFO queue."""

from dataclasses import replace

import pytest

from data_plane.stored.segment import number
from tests.unit.data_plane.log.conftest import QUEUE, Bench, bodies

BEFORE = replace(QUEUE, retention_s=60)
RAISED = replace(QUEUE, retention_s=345_600, version=2)


async def raised_in_flight(bench: Bench) -> None:
    bench.queue = BEFORE
    await bench.send("g:m")
    bench.clock.advance(45)
    assert len(await bench.receive(visibility_s=17)) == 1
    bench.clock.advance(5)
    await bench.log.restamp(replace(BEFORE, retention_s=RAISED.retention_s))
    assert await bench.receive() == []


async def there(bench: Bench) -> list[str]:
    bench.queue = RAISED
    await bench.log.sweep()
    bench.clock.advance(60)
    return bodies(await bench.receive(log=bench.front_end()))


@pytest.mark.parametrize("is_met", [False, True])
def test_a_receive_of_before_takes_nothing_for_expired(bench: Bench, *, is_met: bool) -> None:
    async def story() -> None:
        await raised_in_flight(bench)
        if is_met:
            bench.queue = RAISED
            assert await bench.receive() == []
        else:
            bench.log.changed(RAISED)
        bench.clock.advance(12.5)
        bench.queue = BEFORE
        assert bodies(await bench.receive()) == ["m"]
        assert await there(bench) == ["m"]

    bench.run(story())


def test_what_is_read_first_by_a_receive_of_before_is_not_expired(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = BEFORE
        await bench.send("g:m")
        bench.clock.advance(50)
        await bench.log.restamp(replace(BEFORE, retention_s=RAISED.retention_s))
        bench.log.changed(RAISED)
        bench.clock.advance(11)
        assert bodies(await bench.receive()) == ["m"]
        assert await there(bench) == ["m"]

    bench.run(story())


def test_what_was_sent_by_the_definition_of_before_is_kept_by_a_later_restamp(bench: Bench) -> None:
    """Time to live does not fall from slot to slot; but the raising record may come behind it."""

    async def story() -> None:
        bench.queue = BEFORE
        await bench.send("g:m")
        bench.clock.advance(50)
        bench.queue = RAISED
        await bench.log.restamp(RAISED)
        stored = bench.cell.requests.copy()
        await bench.log.restamp(RAISED)
        again = bench.cell.requests - stored
        assert again["update"] == 0  # What lives long enough is not written anew.
        bench.clock.advance(86_400)
        now_s = bench.clock.now_us() // 1_000_000
        timed = [one for one in bench.cell.items() if "x" in one.attributes]
        bench.cell.expire([one.key for one in timed if number(one.attributes, "x") < now_s])
        assert bodies(await bench.receive()) == ["m"]

    bench.run(story())
