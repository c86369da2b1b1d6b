import asyncio
from typing import Any

from data_plane.core.message import Outgoing
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Item
from data_plane.stored import ledger
from data_plane.stored.ledger import LedgerRow, SentCall, call_units, calls_attributes, read_row
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.log.conftest import Bench as FifoBench


def rows(bench: Bench | FifoBench) -> list[LedgerRow]:
    """What the ledger has."""
    return [read_row(item) for item in bench.cell.items() if item.key.partition == ledger.PARTITION]


def told(bench: Bench | FifoBench) -> list[tuple[bool, int, int, int, int]]:
    """Batch, calls, units, messages, bytes of each row."""
    return [(r.batch, r.calls, r.units, r.messages, r.size_bytes) for r in rows(bench)]


def segments(bench: Bench | FifoBench) -> list[Item]:
    return [item for item in bench.cell.items() if item.attributes.get("k") == "s"]


def counted(bench: Bench | FifoBench) -> list[tuple[Any, Any]]:
    return [(item.attributes.get("r"), item.attributes.get("p")) for item in segments(bench)]


def _call(units: int) -> SentCall:
    return SentCall(batch=True, units=units, messages=1, size_bytes=1)


def test_a_row_names_its_queue_and_minute() -> None:
    bench = Bench()
    bench.run(bench.send("x"))
    assert [row._replace(batch=True) for row in rows(bench)] == [
        LedgerRow(
            minute=bench.clock.now_us() // 60_000_000,
            batch=True,
            account=QUEUE.account,
            region=QUEUE.region,
            queue=QUEUE.name,
            calls=1,
            units=1,
            messages=1,
            size_bytes=1,
        )
    ]


def test_units_are_those_of_the_call() -> None:
    assert [call_units(sizes) for sizes in ([0], [65_536], [65_536, 1], [1 << 20])] == [1, 1, 2, 16]


def test_segments_say_what_is_not_one_call_of_one_unit() -> None:
    whole, rest = _call(3), _call(0)
    one = _call(1)
    assert calls_attributes([one]) == {}
    assert calls_attributes([one, rest]) == {}
    assert calls_attributes([whole]) == {"p": 3}
    assert calls_attributes([whole, one]) == {"r": 2, "p": 4}
    assert calls_attributes([rest]) == {"r": 0, "p": 0}


def test_a_call_in_several_segments_counts_once() -> None:
    bench = Bench()
    messages = [Outgoing(body="m", size=40_000, delay_s=delay_s) for delay_s in (0, 5, 9)]
    bench.run(bench.bag.send(QUEUE, "1", messages, batch=True))
    assert told(bench) == [(True, 1, 2, 3, 120_000)]
    assert sorted(counted(bench), key=str) == [(0, 0), (0, 0), (None, 2)]


def test_sends_that_share_a_segment_count_each() -> None:
    bench = Bench()

    async def story() -> None:
        await asyncio.gather(*(bench.send("x") for _ in range(5)), bench.send("a", "b", batch=True))

    bench.run(story())
    assert told(bench) == [(True, 1, 1, 2, 2), (False, 5, 5, 5, 5)]


def test_duplicates_of_fifo_queues_are_not_sent() -> None:
    bench = FifoBench()

    async def story() -> None:
        await bench.send("g:a", "g:b")
        await bench.send("g:a", "g:b")
        await bench.send("g:b", "g:c")

    bench.run(story())
    assert told(bench) == [(False, 2, 2, 3, 3)]
    assert counted(bench) == [(None, None), (None, None)]


def test_cells_that_take_proposed_stamps_have_none() -> None:
    bench = Bench()
    bench.cell = MemoryCell(bench.clock, stamps=False)
    bench.run(bench.send("x" * 70_000, bag=bench.front_end()))
    assert rows(bench) == []
    assert counted(bench) == [(None, 2)]
