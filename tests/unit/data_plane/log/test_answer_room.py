"""Receives from FIFO queues whose answers have a bound: order holds, nothing is counted twice."""

from data_plane.core.limits import SMALL_BODY_BYTES_MAX
from data_plane.core.long_answers import use_room
from data_plane.log.engine import Log
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.log.conftest import Bench, bodies
from tests.unit.data_plane.room_asked_for import RoomAskedFor, let_wait


class BoundedBench(Bench):
    """Its front ends deliver 10 bytes at most."""

    def front_end(self) -> Log:
        waits = EventLoopWaits(self.clock)
        return Log({"a": self.cell}, self.clock, self.entropy, waits, answer_bytes_max=10)


def test_what_does_not_fit_comes_next_in_order() -> None:
    async def story() -> None:
        bench = BoundedBench()
        await bench.send("g:aaaa", "g:bbbb", "g:cccccccc", "g:d")
        for expected in (["aaaa", "bbbb"], ["cccccccc", "d"], []):
            deliveries = await bench.receive()
            assert bodies(deliveries) == expected
            assert {delivery.receive_count for delivery in deliveries} <= {1}
            await bench.delete(deliveries)

    Bench().run(story())


def test_nothing_small_passes_what_does_not_fit_of_its_group() -> None:
    async def story() -> None:
        bench = BoundedBench()
        await bench.send("g:aaaa", "g:bbbbbbbb", "g:c")
        assert bodies(await bench.receive()) == ["aaaa"]
        assert await bench.receive() == [], "the group is in flight"

    Bench().run(story())


def test_one_message_is_delivered_however_big_it_is() -> None:
    async def story() -> None:
        bench = BoundedBench()
        await bench.send("g:" + "a" * 11, "h:" + "b" * 11)
        assert len(await bench.receive()) == 1
        assert len(await bench.receive()) == 1

    Bench().run(story())


def test_what_another_front_end_was_faster_with_takes_no_room() -> None:
    async def story() -> None:
        bench = BoundedBench()
        await bench.send("g:aaaaaaaa", "h:bbbbbbbb")
        assert bodies(await bench.receive(1)) == ["aaaaaaaa"]
        other = bench.front_end()
        assert bodies(await bench.receive(visibility_s=0, log=other)) == ["bbbbbbbb"]
        assert bodies(await bench.receive()) == ["bbbbbbbb"]

    Bench().run(story())


def test_a_receive_asks_for_room_before_it_reads_what_is_as_long_as_the_last() -> None:
    room = RoomAskedFor()

    async def story() -> None:
        bench = Bench()
        long = "a" * (2 * SMALL_BODY_BYTES_MAX)
        await bench.send(*[f"{group}:{long}{group}" for group in "ghij"])
        use_room(room)
        assert len(await bench.receive(1)) == 1
        room.leave()
        assert len(await bench.receive(2)) == 2
        assert sum(room.taken) >= 2 * len(long)
        use_room(None)

    Bench().run(story())


def test_a_long_poll_that_comes_too_late_for_what_it_read_holds_no_room_while_it_waits() -> None:
    room = RoomAskedFor()

    async def story() -> None:
        bench = Bench()
        other = bench.front_end()
        long = "a" * (2 * SMALL_BODY_BYTES_MAX)
        await bench.send(*[f"{group}:{long}{group}" for group in "gh"])
        assert len(await bench.receive(1)) == 1
        assert len(await bench.receive(log=other)) == 1
        use_room(room)
        await let_wait(bench.receive(until_us=bench.clock.now_us() + 1_000_000))
        assert room.left >= len(long)
        assert room.taken == []
        use_room(None)

    Bench().run(story())
