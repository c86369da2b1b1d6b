"""Long messages: packed and opened in turns, and no more of them than an answer has room for."""

from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.long_answers import use_room
from data_plane.core.turns import at_once
from data_plane.ports import DeadlinePassedError
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import segment
from data_plane.stored.bounds import LONG_WORK_BYTES
from tests.unit.data_plane.bag.conftest import Bench
from tests.unit.data_plane.room_asked_for import RoomAskedFor, let_wait

T = TypeVar("T")


class TurnsBench(Bench):
    """Notes what is done in turns; its front ends deliver two long messages at most."""

    def front_end(self) -> Bag:
        waits: Any = EventLoopWaits(self.clock)
        self.in_turns: list[str] = []

        async def noted(work: Generator[None, None, T]) -> T:
            self.in_turns.append(getattr(work, "__name__", ""))
            return await at_once(work)

        waits.in_turns = noted
        return Bag(
            {"a": self.cell}, self.clock, self.entropy, waits, answer_bytes_max=3 * LONG_WORK_BYTES
        )


LONG = "x" * (LONG_WORK_BYTES + 1)


def test_long_messages_are_packed_and_opened_in_turns_and_short_ones_at_once() -> None:
    async def story() -> None:
        bench = TurnsBench()
        await bench.send("short")
        assert [one.message.body for one in await bench.receive()] == ["short"]
        assert bench.in_turns == []
        await bench.send(LONG)
        assert bench.in_turns == ["seal_in_slices"]
        assert [one.message.body for one in await bench.receive()] == [LONG]
        assert bench.in_turns == ["seal_in_slices", "opening"]

    Bench().run(story())


@pytest.mark.parametrize("visibility_s", [30, 0])
def test_a_receive_opens_no_more_than_its_answer_has_room_for(
    visibility_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    open_segment = segment.open_segment

    def counted(*args: Any, **named: Any) -> Any:
        opened.append(args[0])
        return open_segment(*args, **named)

    async def story() -> None:
        bench = TurnsBench()
        for _ in range(10):
            await bench.send(LONG)
        monkeypatch.setattr(segment, "open_segment", counted)
        for _ in range(3):
            opened.clear()
            assert len(await bench.receive(visibility_s=visibility_s)) == 2
            assert len(opened) <= 2, "those of before may still be at hand"

    Bench().run(story())


@pytest.fixture(autouse=True)
def _no_room_stays() -> Iterator[None]:
    yield
    use_room(None)


@pytest.mark.parametrize("refused", [False, True])
def test_a_receive_asks_for_room_before_it_reads_long_messages(*, refused: bool) -> None:
    room = RoomAskedFor(DeadlinePassedError("there is none") if refused else None)

    async def story() -> None:
        bench = TurnsBench()
        for _ in range(3):
            await bench.send(LONG)
        use_room(room)
        if refused:
            with pytest.raises(DeadlinePassedError):
                await bench.receive()
            use_room(None)
            assert len(await bench.receive()) == 2, "they wait to be received as before"
        else:
            assert len(await bench.receive()) == 2
        assert len(room.taken) == 1
        assert 2 * len(LONG) <= room.taken[0] < 2 * len(LONG) + 1_000

    Bench().run(story())


def test_a_long_poll_that_comes_too_late_for_what_it_read_holds_no_room_while_it_waits() -> None:
    room = RoomAskedFor()

    async def story() -> None:
        bench = TurnsBench()
        other = bench.front_end()
        await bench.send(LONG, LONG)
        assert len(await bench.receive(1)) == 1
        assert len(await bench.receive(bag=other)) == 1
        use_room(room)
        until_us = bench.clock.now_us() + 1_000_000
        poll = bench.bag.receive(bench.queue, count=1, visibility_s=30, until_us=until_us)
        await let_wait(poll)
        assert room.left >= len(LONG)
        assert room.taken == []

    Bench().run(story())
