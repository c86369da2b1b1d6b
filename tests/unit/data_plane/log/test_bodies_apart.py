"""Bodies that are too big for a cell's items, with several writers of one log."""

from collections.abc import Sequence

from data_plane.log.engine import Log
from data_plane.memory.blobs import MemoryBlobs
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import bounds
from data_plane.stored.bodies import BodyStore
from tests.unit.data_plane.log.conftest import Bench


class ApartBench(Bench):
    def __post_init__(self) -> None:
        self.cell = MemoryCell(self.clock, stamps=False)
        self.blobs = MemoryBlobs(self.clock)
        self.log = self.front_end()

    def front_end(self) -> Log:
        self.bodies = BodyStore(self.blobs, threshold_bytes=10)
        waits = EventLoopWaits(self.clock)
        return Log({"a": self.cell}, self.clock, self.entropy, waits, {"a": self.bodies})

    async def names(self) -> list[str]:
        return [blob.name for blob in await self.blobs.names(limit=1000)]


def test_a_writer_that_is_overtaken_leaves_its_blob_alone() -> None:
    bench = ApartBench()

    async def story() -> None:
        other = bench.front_end()
        await bench.send("a:1")
        await bench.send("a:2", log=other)
        await bench.send("a:3")
        names = await bench.names()
        assert len(names) == len(set(names)) == 4
        assert await bench.drain(bench.front_end()) == ["1", "2", "3"]
        bench.clock.advance(bounds.ORPHAN_AGE_US_MIN // 1_000_000 + 1)
        removed = await bench.bodies.sweep(
            bench.cell, EventLoopWaits(bench.clock), bench.clock.now_us()
        )
        assert removed == 1
        slots = [item for item in bench.cell.items() if "o" in item.attributes]
        assert sorted(str(slot.attributes["o"]) for slot in slots) == await bench.names()

    bench.run(story())


class AskedCell:
    """Knows the time of its store from answers alone, as one on tables does."""

    def __init__(self, cell: MemoryCell) -> None:
        self._cell = cell
        self._known_us = 0

    def now_us(self) -> int:
        return self._known_us

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        self._known_us = self._cell.now_us()
        return await self._cell.get_many(keys, strong=strong)


def test_a_walk_that_asks_its_cell_first_finds_what_is_old() -> None:
    bench = ApartBench()

    async def story() -> None:
        await bench.send("a:1")
        await bench.drain(bench.log)
        for item in bench.cell.items():
            await bench.cell.delete(item.key)
        bench.clock.advance(bounds.ORPHAN_AGE_US_MIN // 1_000_000 + 1)
        waits, now_us = EventLoopWaits(bench.clock), bench.clock.now_us()
        walked = await bench.bodies.walk_on(AskedCell(bench.cell), waits, now_us, "")
        assert walked.orphans == 1

    bench.run(story())


def test_a_lost_body_holds_its_group_up_no_longer() -> None:
    bench = ApartBench()

    async def story() -> None:
        await bench.send("a:1")
        await bench.send("a:2")
        await bench.blobs.delete((await bench.names())[:1])
        log = bench.front_end()
        assert await bench.drain(log) == ["2"]
        assert log.damaged_segments == 1

    bench.run(story())


def test_a_second_attempt_at_a_slot_takes_another_name() -> None:
    """The store may get the first attempt's body later than the second's."""
    bench = ApartBench()
    put = bench.blobs.put
    names: list[str] = []

    async def put_while_another_write_fails(name: str, body: bytes) -> None:
        await put(name, body)
        names.append(name)
        (partition,) = bench.log._desk.partitions.values()
        if len(names) == 1 and partition.tail is not None:
            partition.tail.unsure = True

    async def story() -> None:
        bench.blobs.put = put_while_another_write_fails  # type: ignore[method-assign]
        await bench.send("a:1")
        assert len(set(names)) == 2

    bench.run(story())
