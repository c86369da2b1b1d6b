"""What is visible, in flight and dead in a queue of the Kinesis API."""

from dataclasses import replace

import pytest

from data_plane.core.message import Delivery
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import decode
from data_plane.core.settling import ACKNOWLEDGE, HIDE, RESTORE, Wish
from data_plane.log.engine import Log
from data_plane.stored import counting, keys
from tests.unit.data_plane.streams.queue_bench import QueueBench

VISIBILITY_S = 30


class Counted(QueueBench):
    """A queue whose records die when they were received once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.queue = self.over("!work", dies_after=1)
        self.dead = replace(self.queue, of_dead=True)

    async def take(self, count: int, queue: Queue, visibility_s: int = VISIBILITY_S) -> list[Wish]:
        found: list[Delivery] = await self.log.receive_records(
            queue, count=count, visibility_s=visibility_s, until_us=0
        )
        return [Wish(decode(one.receipt_handle, queue), ACKNOWLEDGE) for one in found]

    async def settle(self, act: str, queue: Queue, wishes: list[Wish], after_s: int = 0) -> None:
        wanted = [one._replace(act=act, visibility_s=after_s) for one in wishes]
        assert await self.log.settle(queue, wanted) == [None] * len(wanted)

    async def told(self, log: Log | None = None) -> tuple[int, int, int]:
        """Visible, in flight, dead."""
        counts = await (log or self.consumer()).counts(self.queue)
        return counts.visible, counts.in_flight, counts.dead

    async def lapse(self) -> None:
        self.clock.advance(VISIBILITY_S + 1)


@pytest.fixture
def bench() -> Counted:
    return Counted()


def test_a_record_is_counted_as_what_it_is(bench: Counted) -> None:
    async def story() -> None:
        await bench.put_for("ann", *"abcde")
        assert await bench.told() == (5, 0, 0)
        taken = await bench.take(3, bench.queue)
        assert await bench.told() == (2, 3, 0)
        await bench.settle(ACKNOWLEDGE, bench.queue, taken[:1])
        assert await bench.told() == (2, 2, 0)
        await bench.settle(HIDE, bench.queue, taken[1:2])
        assert await bench.told() == (2, 1, 1)
        await bench.lapse()
        assert await bench.told() == (2, 0, 2)

    bench.run(story())


def test_dead_letters_that_are_received_are_in_flight(bench: Counted) -> None:
    async def story() -> None:
        await bench.put_for("ann", *"abcd")
        await bench.take(3, bench.queue)
        await bench.lapse()
        assert await bench.told() == (1, 0, 3)
        taken = await bench.take(3, bench.dead)
        assert await bench.told() == (1, 3, 0)
        await bench.settle(ACKNOWLEDGE, bench.dead, taken[:1])
        await bench.settle(RESTORE, bench.dead, taken[1:2])
        assert await bench.told() == (2, 1, 0)
        await bench.settle(RESTORE, bench.dead, taken[1:2])
        await bench.lapse()
        assert await bench.told() == (2, 0, 1)
        assert len(await bench.take(10, bench.queue)) == 2

    bench.run(story())


def test_a_dead_letter_may_be_hidden_for_half_a_day(bench: Counted) -> None:
    async def story() -> None:
        await bench.put_for("ann", "a", "b")
        await bench.take(1, bench.queue)
        await bench.lapse()
        taken = await bench.take(1, bench.dead)
        bench.clock.advance(10)
        await bench.settle(HIDE, bench.dead, taken, after_s=12 * 3_600)
        assert await bench.told() == (1, 1, 0)
        bench.clock.advance(12 * 3_600 + 60)
        assert await bench.told() == (1, 0, 1)

    bench.run(story())


def test_dead_letters_expire_with_their_records(bench: Counted) -> None:
    async def story() -> None:
        await bench.put_for("ann", "a", "b")
        await bench.take(1, bench.queue)
        await bench.lapse()
        assert await bench.told() == (1, 0, 1)
        bench.clock.advance(bench.stream.retention_s + 120)
        await bench.put_for("ann", "c")
        assert await bench.told() == (1, 0, 0)

    bench.run(story())


def test_counters_of_the_past_are_dropped(bench: Counted) -> None:
    async def story() -> set[bytes]:
        await bench.put_for("ann", *"abc")
        await bench.take(1, bench.queue)
        await bench.lapse()
        await bench.take(1, bench.dead)
        bench.clock.advance(300)
        await bench.log.drop_past_counters(bench.queue)
        assert await bench.told() == (2, 0, 1)
        items = await bench.cell.query(keys.counters(bench.queue.uid), limit=100)
        return {item.key.sort[8:9] for item in items}

    assert bench.run(story()) == {counting.DEAD}


def test_minutes_are_dropped_a_day_after_the_retention_of_the_stream(
    bench: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bounded steps; each minute has one that died, and one that was acknowledged."""
    minutes = 7
    monkeypatch.setattr(counting, "QUERY_PAGE", 3)

    async def story() -> list[int]:
        for _ in range(minutes):
            await bench.put_for("ann", "a", "b")
            await bench.settle(ACKNOWLEDGE, bench.queue, await bench.take(1, bench.queue))
            await bench.take(1, bench.queue)
            bench.clock.advance(60)
        bench.clock.advance(bench.stream.retention_s + 86_400 - 60 * (minutes + 1))
        left = [await left_by_a_step()]
        bench.clock.advance(60 * (minutes + 1))
        return left + [await left_by_a_step() for _ in range(3)]

    async def left_by_a_step() -> int:
        await bench.log.drop_past_counters(bench.queue)
        items = await bench.cell.query(keys.counters(bench.queue.uid), limit=100)
        return sum(counting.is_lasting(item.key) for item in items)

    assert bench.stream.retention_s < bench.queue.retention_s
    assert bench.run(story()) == [14, 8, 2, 0]


def test_functions_write_at_once_what_would_be_missed_for_long() -> None:
    kinds = (counting.ALIVE, counting.DEAD, counting.IN_FLIGHT, counting.DEAD_IN_FLIGHT)
    lasting = [kind for kind in kinds if counting.is_lasting(keys.counter("u", 0, kind, 1))]
    assert lasting == [counting.ALIVE, counting.DEAD]


def test_who_receives_dead_letters_alone_finds_those_of_later_shards(bench: Counted) -> None:
    """Nobody has received from the shards before, which such a receive does not read."""

    async def story() -> None:
        await bench.split(0)
        await bench.put_for("ann", "late")
        assert len(await bench.take(1, bench.queue)) == 1
        await bench.lapse()
        found = await bench.consumer().receive_records(
            bench.dead, count=1, visibility_s=VISIBILITY_S, until_us=0
        )
        assert [one.message.body for one in found] == ["late"]

    bench.run(story())
