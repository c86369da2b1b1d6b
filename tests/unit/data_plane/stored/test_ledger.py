import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.answer_record import AnswerRecord, answered_as
from data_plane.core.message import Outgoing, SendCall
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Item
from data_plane.stored import ledger
from data_plane.stored.ledger import (
    LedgerRow,
    SentCall,
    call_units,
    calls_attributes,
    read_calls,
    read_row,
    sums_of,
)
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
    alone = one._replace(batch=False)
    assert calls_attributes([alone], 1) == {}
    assert calls_attributes([alone._replace(units=3)], 1) == {"p": 3}
    assert calls_attributes([alone, alone], 2) == {"r": 2, "p": 2}
    assert calls_attributes([], 1) == {"r": 0, "p": 0}
    plain = [calls_attributes(calls, len(calls)) for calls in ([one, rest], [whole, one], [rest])]
    assert [each.pop("rb") for each in plain] == [
        bytes.fromhex(text) for text in ("0100010200000002", "0200040200000002", "0000000100000001")
    ]
    assert plain == [{}, {"r": 2, "p": 4}, {"r": 0, "p": 0}]


CALLS = st.lists(
    st.builds(
        SentCall, st.booleans(), st.integers(0, 16), st.integers(1, 2), st.integers(0, 1 << 20)
    ),
    max_size=60,
)


@given(CALLS, st.integers(0, 5))
def test_what_is_said_of_calls_can_be_read(calls: list[SentCall], moved: int) -> None:
    # Only batches lie in several segments: a call by itself is counted where it is.
    calls = [call if call.batch else call._replace(units=max(1, call.units)) for call in calls]
    messages, size = sum(call.messages for call in calls), sum(call.size_bytes for call in calls)
    moved = moved if calls or moved else 1
    stored = {"n": messages + moved, "y": size + moved, **calls_attributes(calls, messages + moved)}
    found = read_calls(stored)
    assert {batch: sums for batch, sums in found.items() if any(sums)} == sums_of(calls)


def test_what_is_stored_before_batches_were_told_apart_is_read() -> None:
    assert read_calls({"n": 3, "y": 9}) == {False: (1, 1, 3, 9)}
    assert read_calls({"n": 3, "y": 9, "r": 0, "p": 0}) == {}


def test_a_call_in_several_segments_counts_once() -> None:
    bench = Bench()
    messages = [Outgoing(body="m", size=40_000, delay_s=delay_s) for delay_s in (0, 5, 9)]
    bench.run(bench.bag.send(QUEUE, SendCall("1", messages, batch=True)))
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


def test_what_is_stored_for_a_request_says_which_record_its_answer_becomes() -> None:
    bench, fifo = Bench(), FifoBench()
    record = AnswerRecord("00112233445566aa", 7, 29_900_000)
    messages = [Outgoing(body="m", size=1, delay_s=delay_s) for delay_s in (0, 5)]
    bench.run(bench.send("of nobody"))
    with answered_as(record):
        bench.run(bench.bag.send(QUEUE, SendCall("1", messages, batch=True)))
        fifo.run(fifo.send("g:a", "g:b"))
        # What was moved here nobody sent.
        assert "ra" not in calls_attributes([], 1)
    fifo.run(fifo.send("g:c"))
    packed = bytes.fromhex("00112233445566aa 00000007 01c83ce0")
    assert [item.attributes.get("ra") for item in segments(bench)] == [None, packed, packed]
    assert [item.attributes.get("ra") for item in segments(fifo)] == [packed, None]
