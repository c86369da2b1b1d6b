"""What a front end remembers of calls is bounded, and no call is stored twice because of that."""

import asyncio
from collections.abc import Sequence

import pytest

from data_plane.core.record import OutgoingRecord, PutCall
from data_plane.ports import Key
from data_plane.stored.shelf import Shelf
from data_plane.streams import held_calls
from data_plane.streams.bounds import PART_BYTES, PARTS_HELD_MAX, SLOT_BYTES_MAX, SLOT_RECORDS_MAX
from data_plane.streams.held_calls import HeldCalls
from data_plane.streams.slots import RECORDS, PartOfCall, RecordSlot, pack_calls
from tests.unit.data_plane.streams.conftest import Bench
from tests.unit.data_plane.streams.test_repeats import LateCell

FIRST = PutCall(b"c" * 16)
AGAIN = PutCall(b"c" * 16, repeated=True)


def slot(offset: int, calls: Sequence[bytes], position: int = 0) -> RecordSlot:
    """A slot of records that each came with a call of their own, at this position."""
    parts = [PartOfCall(call, n, 1 << position) for n, call in enumerate(calls)]
    key, item = Key("N|s|0|0", b""), {"cp": pack_calls(parts)}
    return RecordSlot(offset, RECORDS, len(parts), offset, 0, key, item)


def names(first: int, count: int) -> list[bytes]:
    return [(first + n).to_bytes(16, "big") for n in range(count)]


def held(calls: HeldCalls, wanted: Sequence[bytes]) -> int:
    return sum(len(calls.of(call)) for call in wanted)


def test_a_shard_has_so_many_parts_at_most() -> None:
    shelf = Shelf(1_000_000)
    calls = HeldCalls(shelf)
    calls.begin(1)
    for n in range(5):
        calls.take(slot(1 + n * SLOT_RECORDS_MAX, names(n * 1_000, SLOT_RECORDS_MAX)))
    assert shelf.bytes == PARTS_HELD_MAX * PART_BYTES
    assert held(calls, names(3_000, 500)) + held(calls, names(4_000, 500)) == PARTS_HELD_MAX
    assert not held(calls, names(2_000, 500))
    assert calls.since == 1 + 2 * SLOT_RECORDS_MAX + 1


def test_parts_of_one_call_count_each() -> None:
    calls = HeldCalls(Shelf(1_000_000))
    calls.begin(1)
    for n in range(2 * PARTS_HELD_MAX):
        calls.take(slot(1 + n, [FIRST.name], position=n % SLOT_RECORDS_MAX))
    assert len(calls.of(FIRST.name)) <= PARTS_HELD_MAX
    # What is left may lack what came before: that lies in the cell alone.
    assert calls.since > calls.of(FIRST.name)[0].slot - 1


def test_all_shards_together_have_so_much_at_most() -> None:
    shelf = Shelf(1_000 * PART_BYTES)
    shards = [HeldCalls(shelf) for _ in range(100)]
    for n, calls in enumerate(shards):
        calls.begin(1)
        calls.take(slot(1, names(n * 1_000, 40)))
        assert shelf.bytes <= 1_000 * PART_BYTES
    kept = [held(calls, names(n * 1_000, 40)) for n, calls in enumerate(shards)]
    assert kept == [0] * 75 + [40] * 25  # The idlest let go.
    assert shards[0].since == 41
    shards[99].begin(1)
    shards[98].leave_shelf()
    assert shelf.bytes == 23 * 40 * PART_BYTES


def test_a_front_end_bounds_what_all_its_shards_have(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_plane.streams.desk.PARTS_HELD_TOGETHER_BYTES_MAX", 15 * PART_BYTES)
    streams = bench.front_end()
    records = {0: OutgoingRecord("k", b"x")}

    async def scenario() -> None:
        for n in range(40):
            call, shard = PutCall(n.to_bytes(16, "big")), bench.stream.shards[n // 20]
            await streams.put(bench.stream, shard, records, call)

    bench.run(scenario())
    desk = streams._desk
    assert 0 < desk._calls.bytes <= 20 * PART_BYTES  # One shard has its own at least.
    first, second = desk.logs.values()
    assert not held(first.calls, names(0, 20))
    assert held(second.calls, names(20, 20)) == 20
    # A repeated call of the shard that let go is found in the cell.
    again = PutCall((0).to_bytes(16, "big"), repeated=True)
    outcome = bench.run(streams.put(bench.stream, bench.stream.shards[0], records, again))
    assert outcome.stored[0].offset == 1


@pytest.mark.parametrize("repeated", [False, True])
def test_an_attempt_finds_the_other_one_behind_more_calls_than_are_remembered(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    repeated: bool,  # noqa: FBT001
) -> None:
    """Between two looks others append so much that the other attempt is forgotten again."""
    monkeypatch.setattr(held_calls, "PARTS_HELD_MAX", 3)
    bench.cell = cell = LateCell(bench.clock)
    streams, other = bench.front_end(), bench.front_end()

    async def scenario() -> tuple[object, object]:
        await bench.put("a:0", streams=streams)
        overtaking: list[object] = []

        async def overtake() -> None:
            overtaking.append(await bench.put("a:1", "a:2", streams=other, call=FIRST))
            for n in range(10):
                await bench.put("b:0", streams=other, call=PutCall(n.to_bytes(16, "big")))

        cell.meanwhile = overtake
        late = await bench.put("a:1", "a:2", streams=streams, call=AGAIN if repeated else FIRST)
        return late, overtaking[0]

    late, overtaking = bench.run(scenario())
    assert late == overtaking
    texts = bench.run(bench.all_texts(streams=streams))
    assert texts == ["a:0", "a:1", "a:2", *["b:0"] * 10]


def test_who_finds_a_part_of_its_call_looks_for_the_rest(bench: Bench) -> None:
    """The first attempt comes last, to a front end that knows the second one's last slot alone."""
    records = [OutgoingRecord("k", bytes([n]) * SLOT_BYTES_MAX) for n in range(3)]

    async def scenario() -> tuple[object, object]:
        second = await bench.put_records(records, call=AGAIN)
        late = bench.front_end()
        await late.anchor(bench.stream, bench.shard)
        return second, await bench.put_records(records, late, FIRST)

    second, late = bench.run(scenario())
    assert second == late
    assert len(bench.run(bench.read()).records) == 3


def test_own_slots_cost_no_second_look(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that wait together take slot after slot, which push each other out of memory."""
    monkeypatch.setattr(held_calls, "PARTS_HELD_MAX", 3)
    monkeypatch.setattr("data_plane.streams.appending.SLOT_RECORDS_MAX", 2)

    async def puts() -> None:
        calls = [PutCall(n.to_bytes(16, "big")) for n in range(20)]
        await asyncio.gather(*(bench.put("a:1", call=call) for call in calls))

    bench.run(bench.put("a:0"))
    cost = bench.run(bench.cost_of(puts))
    assert set(cost) == {"put"}
    assert len(bench.run(bench.all_texts())) == 21
