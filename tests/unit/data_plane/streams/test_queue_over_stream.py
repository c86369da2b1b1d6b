"""A queue over a stream: what it stores and asks for, and what it goes by."""

from dataclasses import replace

import pytest

from data_plane.core.message import Delivery, MessageAttribute
from data_plane.core.receipt_handle import decode
from data_plane.core.record import OutgoingRecord, PutCall
from data_plane.core.stream import HASH_KEY_MAX, Shard, Stream
from data_plane.ports import Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys, shelf
from tests.unit.data_plane.streams.queue_bench import QueueBench

DAY_S = 86_400
TEXTS = [f"ann:{number}" for number in range(1, 101)]


@pytest.fixture
def bench() -> QueueBench:
    return QueueBench()


def test_a_queue_costs_the_stream_nothing(bench: QueueBench) -> None:
    async def costs() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        await bench.put("ann:0")
        alone = await bench.cost_of(lambda: bench.put("ann:1"))
        for number in range(3):
            queue = bench.over(f"q{number}", f"{number:016x}")
            await bench.drain(queue=queue)
        read = await bench.cost_of(lambda: bench.put("ann:2"))
        slots = await bench.cell.query(bench.streams._desk.log(bench.stream, 0).slots, limit=100)
        return alone, read, {"slots": len(slots)}

    alone, read, stored = bench.run(costs())
    assert alone == read == {"put": 1}
    assert stored == {"slots": 3}


def test_a_receive_writes_leases_and_a_delete_marks_and_nothing_else(bench: QueueBench) -> None:
    async def costs() -> list[dict[str, int]]:
        await bench.put(*TEXTS[:20])
        await bench.receive(1)  # It opens the shards.
        bench.clock.advance(31)
        await bench.drain()
        await bench.put(*TEXTS[20:40])
        spent = []
        deliveries: list[Delivery] = []

        async def receive() -> None:
            deliveries[:] = await bench.receive()

        async def delete() -> None:
            await bench.delete(deliveries)

        for _ in range(2):
            spent += [await bench.cost_of(receive), await bench.cost_of(delete)]
        return spent

    first, deleted, second, deleted_too = bench.run(costs())
    # A page of each shard, and the state of the block that begins; then one write for 10 leases.
    assert first["update"] == second["update"] == 1
    assert first["query"] == 2
    assert "query" not in second
    assert "get" not in {**first, **second}
    assert deleted == deleted_too == {"update": 1}


def test_nothing_is_written_into_the_log(bench: QueueBench) -> None:
    async def kinds() -> set[str]:
        await bench.put(*TEXTS)
        bench.cell.written.clear()
        await bench.drain()
        bench.clock.advance(3_600)
        await bench.log.sweep()
        return set(bench.cell.written)

    assert bench.run(kinds()) == {"F", "H"}


def test_what_is_done_stays_done_for_who_begins_anew(bench: QueueBench) -> None:
    async def found() -> tuple[list[str], list[str]]:
        await bench.put(*TEXTS)
        held = await bench.receive(1)
        rest: list[str] = []
        await bench.put(*(f"bob:{number}" for number in range(300)))
        while deliveries := await bench.receive():
            rest += await bench.delete(deliveries)
        assert len(held) == 1
        bench.clock.advance(3_600)
        await bench.log.sweep()
        return rest, await bench.drain(bench.consumer())

    rest, again = bench.run(found())
    assert rest == [f"bob:{number}" for number in range(300)]
    assert again == TEXTS


def test_states_outlive_the_records_whatever_they_are_kept_for(bench: QueueBench) -> None:
    async def lasts_s() -> int:
        await bench.put("ann:1")
        await bench.delete(await bench.receive())
        state = await bench.cell.get(Key(keys.reader_states(bench.queue.uid, 0), keys.be64(1)))
        assert state is not None
        assert state["k"] == 1
        expires_s = state["x"]
        assert isinstance(expires_s, int)
        return expires_s - bench.clock.now_us() // 1_000_000

    assert bench.run(lasts_s()) == 21 * DAY_S
    other = QueueBench()
    other.keep_for(365 * DAY_S)
    bench = other
    assert bench.run(lasts_s()) == 372 * DAY_S


@pytest.mark.parametrize("number", [0, 255, 256, 70_000, 2**24 + 5, 2**32 - 1])
def test_a_handle_names_any_shard(bench: QueueBench, number: int) -> None:
    made_s = bench.clock.now_us() // 1_000_000
    bench.stream = replace(bench.stream, shards=(Shard(number, 0, HASH_KEY_MAX, made_s),))

    async def done() -> list[str]:
        await bench.put("ann:1", "ann:2")
        deliveries = await bench.receive(1)
        decode(deliveries[0].receipt_handle, bench.queue)
        fresh = bench.consumer()
        return [*await bench.delete(deliveries, fresh), *await bench.drain(fresh)]

    assert bench.run(done()) == ["ann:1", "ann:2"]


def test_the_records_of_a_long_slot_have_leases_in_its_blocks(bench: QueueBench) -> None:
    async def blocks() -> list[int]:
        await bench.put("ann:0")
        await bench.put(*TEXTS, *TEXTS)
        assert len(await bench.drain()) == 201
        states = await bench.cell.query(keys.reader_states(bench.queue.uid, 0), limit=100)
        return [keys.slot_of(item.key.sort) for item in states]

    assert bench.run(blocks()) == [1, 65, 129, 193]


def test_a_record_without_a_key_waits_for_none(bench: QueueBench) -> None:
    async def found() -> list[bytes]:
        records = [OutgoingRecord(None, data) for data in (b"one", b"\xff")]
        await bench.put_records(records, call=PutCall())
        first, second = [*await bench.receive(1), *await bench.receive(1)]
        assert second.message.attributes == (
            ("TidegateEncoding", MessageAttribute("String", b"base64")),
        )
        assert first.message.group == first.message.deduplication_id
        return [first.message.body.encode(), second.message.body.encode()]

    assert bench.run(found()) == [b"one", b"/w=="]


def test_a_damaged_slot_is_passed_over(bench: QueueBench) -> None:
    async def found() -> list[str]:
        await bench.put("ann:1")
        await bench.put("ann:2")
        await bench.put("ann:3")
        slots = bench.streams._desk.log(bench.stream, 0).slots
        (item,) = await bench.cell.query(slots, after=keys.be64(1), limit=1)
        await bench.cell.put(item.key, {**item.attributes, "z": b"\0" * 40})
        return await bench.drain()

    assert bench.run(found()) == ["ann:1", "ann:3"]


def test_a_reader_that_was_away_begins_at_what_is_left(bench: QueueBench) -> None:
    async def cost() -> tuple[list[str], int]:
        for number in range(300):
            await bench.put(f"ann:{number}")
        bench.clock.advance(2 * DAY_S)
        await bench.put("ann:new")
        fresh = bench.consumer()
        before = bench.cell.items_read
        return await bench.drain(fresh), bench.cell.items_read - before

    found, items = bench.run(cost())
    assert found == ["ann:new"]
    assert items < 100


def test_what_had_expired_before_the_retention_was_raised_stays_away(bench: QueueBench) -> None:
    """Also where nobody has asked while the retention was low: as it is now it was before."""

    async def found() -> list[str]:
        await bench.put("ann:1")
        await bench.put("ann:2")
        assert [one.message.body for one in await bench.receive(1)] == ["ann:1"]
        bench.clock.advance(60)
        bench.stream = replace(bench.stream, expired_us=bench.clock.now_us() - 1)
        await bench.put("ann:new")
        return await bench.drain()

    assert bench.run(found()) == ["ann:new"]


def test_who_begins_anew_in_the_middle_of_a_slot_misses_nothing(bench: QueueBench) -> None:
    async def found() -> list[str]:
        await bench.put(*TEXTS)
        for _ in range(8):
            await bench.delete(await bench.receive())
        await bench.log.sweep()
        mark = await bench.cell.get(keys.reader_low_water(bench.queue.uid, 0))
        assert mark is not None
        assert mark["w"] == keys.be64(64)
        return await bench.drain(bench.consumer())

    assert bench.run(found()) == TEXTS[80:]


def test_many_queues_over_a_stream_have_no_more_at_hand_than_a_few(
    bench: QueueBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "SEGMENTS_HELD_TOGETHER_BYTES_MAX", 100_000)

    async def story() -> None:
        texts = [f"{n} ".ljust(10_000, "b") for n in range(4)]
        await bench.put_for("ann", *texts)
        queues = [bench.over(f"q{n}", f"{n:016x}") for n in range(10)]
        for _ in range(2):
            for queue in queues:
                bodies = [one.message.body for one in await bench.receive(queue=queue)]
                assert sorted(bodies) == sorted(texts)
                at_hand = [
                    segment.size_bytes
                    for partition in bench.log._desk.partitions.values()
                    for segment in partition.reader.held._held.values()
                ]
                assert 40_000 <= sum(at_hand) <= 100_000
            bench.clock.advance(31)

    bench.run(story())


def test_a_purge_passes_over_nothing_that_is_put_after_it(
    bench: QueueBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stamps of shards that were just made are some seconds ahead of those of others."""

    async def sleep_until(_waits: EventLoopWaits, time_us: int) -> None:
        bench.clock.time_us = time_us

    monkeypatch.setattr(EventLoopWaits, "sleep_until", sleep_until)

    async def found() -> list[str]:
        await bench.put("before")
        await bench.split(0)
        first = bench.stream.open_shards[0]
        records = {0: OutgoingRecord("k", b"before, too")}
        await bench.streams.put(bench.stream, first, records, PutCall())
        purged_us = await bench.log.purge(bench.queue)
        bench.queue = replace(bench.queue, purged_us=purged_us)
        other = bench.stream.open_shards[-1]
        records = {0: OutgoingRecord("k", b"after")}
        await bench.streams.put(bench.stream, other, records, PutCall())
        return await bench.drain()

    assert bench.run(found()) == ["after"]


def test_a_purge_takes_what_is_in_a_shard_that_another_server_has_just_made(
    bench: QueueBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep_until(_waits: EventLoopWaits, time_us: int) -> None:
        bench.clock.time_us = time_us

    monkeypatch.setattr(EventLoopWaits, "sleep_until", sleep_until)
    before = bench.stream

    async def known_of_before(*_name: str) -> Stream:
        return before

    async def found() -> list[str]:
        await bench.split(0)
        first = bench.stream.open_shards[0]
        records = {0: OutgoingRecord("k", b"acknowledged")}
        await bench.streams.put(bench.stream, first, records, PutCall())
        with monkeypatch.context() as patch:
            patch.setattr(bench, "find", known_of_before)
            purged_us = await bench.log.purge(bench.queue)
        bench.queue = replace(bench.queue, purged_us=purged_us)
        return await bench.drain()

    assert bench.run(found()) == []
