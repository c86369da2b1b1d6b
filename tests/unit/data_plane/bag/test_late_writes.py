"""Cells that take proposed stamps: what reaches them late is found all the same."""

import asyncio
from dataclasses import dataclass, field

import pytest

from data_plane.bag.bounds import LATE_APPENDS_MAX
from data_plane.memory.cell import MemoryCell
from data_plane.ports import SETTLE_US, Append, Appended, CellUnavailableError
from data_plane.stored import keys
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

CALL, OTHER_CALL = b"c" * 16, b"d" * 16


class SlowCell(MemoryCell):
    """Takes proposed stamps; an append that is held back arrives when it is let go."""

    def __init__(self, clock: object) -> None:
        super().__init__(clock, stamps=False)  # type: ignore[arg-type]
        self.held: list[asyncio.Event] = []
        self.holding = asyncio.Event()
        self.lost_replies = 0
        self.late_requests = 0
        self.under_way: list[Append] = []

    async def append(self, record: Append) -> Appended:
        if self.late_requests:
            self.late_requests -= 1
            self.under_way.append(record)
            raise CellUnavailableError("no answer in time")
        if self.held:
            self.holding.set()
            await self.held.pop().wait()
        appended = await super().append(record)
        if self.lost_replies:
            self.lost_replies -= 1
            raise CellUnavailableError("the reply was lost")
        return appended

    def kinds(self) -> list[object]:
        partition = keys.segments(QUEUE.uid, 0, 0)
        stored = [item for item in self.items() if item.key.partition == partition]
        return [item.attributes["k"] for item in stored]


@dataclass
class LateBench(Bench):
    cell: SlowCell = field(init=False)

    def __post_init__(self) -> None:
        self.cell = SlowCell(self.clock)
        self.bag = self.front_end()

    async def send_late(self, body: str, late_s: float) -> None:
        """Send a message that arrives so late, while another one, sent later, is consumed."""
        arrive = asyncio.Event()
        self.cell.held = [arrive]
        late = asyncio.create_task(self.send(body, bag=self.front_end()))
        await self.cell.holding.wait()
        self.clock.advance(0.5)
        await self.send("in time")
        assert await self.drain() == ["in time"]
        self.clock.advance(late_s - 0.5)
        arrive.set()
        await late


@pytest.fixture
def bench() -> LateBench:
    return LateBench()


def test_what_lands_behind_the_cursor_is_read_when_it_has_settled(bench: LateBench) -> None:
    async def story() -> None:
        await bench.send_late("late", late_s=1.9)
        assert bench.cell.kinds() == ["s", "s"]
        bench.clock.advance(SETTLE_US / 1e6)
        assert await bench.drain() == ["late"]
        assert await bench.drain() == []

    bench.run(story())


def test_what_comes_very_late_is_announced_before_it_is_acknowledged(bench: LateBench) -> None:
    async def story() -> None:
        await bench.send_late("late", late_s=2.1)
        assert bench.cell.kinds() == ["s", "s", "l"]
        assert await bench.drain() == ["late"]
        bench.clock.advance(60)
        assert await bench.drain() == []

    bench.run(story())


def test_an_announced_message_is_found_after_a_restart(bench: LateBench) -> None:
    async def story() -> None:
        await bench.send_late("late", late_s=100)
        await bench.bag.sweep()
        assert await bench.drain(bag=bench.front_end()) == ["late"]
        bench.clock.advance(60)
        assert await bench.drain(bag=bench.front_end()) == []

    bench.run(story())


def test_the_low_water_mark_stays_within_what_has_settled(bench: LateBench) -> None:
    async def story() -> None:
        for _ in range(3):
            await bench.send("a", "b")
            assert sorted(await bench.drain()) == ["a", "b"]
            await bench.bag.sweep()
            mark = await bench.cell.get(keys.low_water(QUEUE.uid, 0, 0))
            if mark is not None:
                low = mark["w"]
                assert isinstance(low, bytes)
                assert keys.slice_of(low) <= bench.clock.time_us - SETTLE_US
            bench.clock.advance(2)
        bench.clock.advance(5)
        assert await bench.drain() == []
        await bench.bag.sweep()
        assert (await bench.cell.get(keys.low_water(QUEUE.uid, 0, 0)) or {})["w"]
        assert bench.cell.items_read < 60

    bench.run(story())


def test_a_late_message_keeps_the_low_water_mark_behind_it(bench: LateBench) -> None:
    async def story() -> None:
        await bench.send_late("late", late_s=1.9)
        bench.clock.advance(SETTLE_US / 1e6)
        (delivery,) = await bench.receive()
        assert delivery.message.body == "late"
        await bench.bag.sweep()
        bench.clock.advance(31)
        again = await bench.receive(bag=bench.front_end())
        assert [d.message.body for d in again] == ["late"]

    bench.run(story())


def test_what_a_repeated_call_finds_is_announced(bench: LateBench) -> None:
    async def story() -> None:
        bench.cell.lost_replies = 1
        with pytest.raises(CellUnavailableError):
            await bench.send("once", call=CALL)
        assert bench.cell.kinds() == ["s"]
        found = await bench.send("once", call=CALL, repeated=True, bag=bench.front_end())
        assert bench.cell.kinds() == ["s", "l"]
        (delivery,) = await bench.receive()
        assert [delivery.message.id] == found

    bench.run(story())


@pytest.mark.parametrize("attempts_late", [1, 2])
def test_a_request_that_arrives_after_its_call_was_repeated_changes_nothing(
    bench: LateBench, attempts_late: int
) -> None:
    async def story() -> None:
        bench.cell.late_requests = attempts_late
        with pytest.raises(CellUnavailableError):
            await asyncio.gather(bench.send("a", call=CALL), bench.send("b", call=OTHER_CALL))
        bench.clock.advance(3)
        for _ in range(attempts_late - 1):
            with pytest.raises(CellUnavailableError):
                await bench.send("a", call=CALL, repeated=True)
        (first,) = await bench.send("a", call=CALL, repeated=True)
        assert await bench.send("a", call=CALL, repeated=True) == [first]
        for record in bench.cell.under_way:
            await bench.cell.append(record)
        assert await bench.send("b", call=OTHER_CALL, repeated=True) != [first]
        assert bench.cell.kinds() == ["s", "l"]
        assert sorted(await bench.drain(bench.front_end())) == ["a", "b"]

    bench.run(story())


def test_a_delayed_message_that_was_announced_keeps_its_delay(bench: LateBench) -> None:
    async def story() -> None:
        bench.cell.lost_replies = 1
        with pytest.raises(CellUnavailableError):
            await bench.send("later", call=CALL, delay_s=60)
        await bench.send("later", call=CALL, repeated=True, delay_s=60, bag=bench.front_end())
        assert bench.cell.kinds() == ["l", "s"]
        bench.clock.advance(59)
        assert await bench.drain() == []
        bench.clock.advance(2)
        assert await bench.drain() == ["later"]

    bench.run(story())


def test_a_marker_that_comes_late_is_appended_again(bench: LateBench) -> None:
    async def story() -> None:
        await bench.send("a")
        (delivery,) = await bench.receive()
        arrive = asyncio.Event()
        bench.cell.held = [arrive]
        change = asyncio.create_task(
            bench.bag.change_visibility(QUEUE, [(bench.handle(delivery), 0)])
        )
        await bench.cell.holding.wait()
        bench.clock.advance(10)
        arrive.set()
        assert await change == [None]
        assert bench.cell.kinds() == ["s", "m", "m"]

    bench.run(story())


def test_a_cell_that_takes_everything_late_is_unavailable(bench: LateBench) -> None:
    class Lagging(SlowCell):
        async def append(self, record: Append) -> Appended:
            bench.clock.advance(3)
            return await super().append(record)

    async def story() -> None:
        bench.cell = Lagging(bench.clock)
        bench.bag = bench.front_end()
        with pytest.raises(CellUnavailableError, match="too late for readers"):
            await bench.send("a")
        assert bench.cell.requests["append"] == 1 + LATE_APPENDS_MAX

    bench.run(story())


def test_each_item_is_read_once_more_and_not_again(bench: LateBench) -> None:
    async def story() -> None:
        for number in range(40):
            await bench.send(str(number))
            bench.clock.advance(0.1)
        delivered = 0
        while deliveries := await bench.receive(visibility_s=600):
            delivered += len(deliveries)
        assert delivered == 40
        bench.clock.advance(10)
        requests, items = await bench.cost_of(bench.receive)
        assert items <= 40
        assert requests["query"] <= 3
        for _ in range(3):
            bench.clock.advance(10)
            requests, items = await bench.cost_of(bench.receive)
            assert items == 0
            assert requests["query"] <= 2

    bench.run(story())
