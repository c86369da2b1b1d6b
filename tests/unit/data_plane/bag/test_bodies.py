"""Bodies that are too big for a cell's items: laid apart, fetched, let go."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.deadline import left_us
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, CellFullError, CellUnavailableError, DeadlinePassedError
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import bodies, keys
from data_plane.stored.bodies import BodyStore, blob_name, segment_of
from data_plane.stored.segment import UnknownFormatError
from tests.unit.data_plane.bag.apart import HOUR_S, ApartBench, bodies_of, sweep, text
from tests.unit.data_plane.bag.conftest import QUEUE

CALL = b"c" * 16


@pytest.fixture
def bench() -> ApartBench:
    return ApartBench()


# Sending and receiving


@pytest.mark.parametrize("sizes", [[1 << 20], [104_857] * 10], ids=["one of 1 MiB", "ten of 0.1"])
def test_the_greatest_calls_go_through_a_cell_of_small_items(
    bench: ApartBench, sizes: list[int]
) -> None:
    async def story() -> None:
        sent = [text(size) for size in sizes]
        assert await bench.blob_cost_of(lambda: bench.send(*sent)) == {"put": 1}
        assert bench.cell.requests == {"append": 1}
        got = await bench.receive()
        assert bodies_of(got) == sent
        await bench.delete(got)
        bench.clock.advance(40)
        assert await bench.receive(bag=bench.front_end()) == []

    bench.run(story())


def test_a_receive_costs_one_get_for_a_segment_and_as_much_of_the_cell_as_ever(
    bench: ApartBench,
) -> None:
    async def story() -> None:
        await bench.receive()
        sent = [text(100_000) for _ in range(9)]
        await bench.send(*sent[:8])
        await bench.send(sent[8])
        before = bench.blobs.requests.copy()
        requests, _ = await bench.cost_of(bench.receive)
        assert requests == {"query": 1, "get_many": 1, "update": 1}
        assert dict(bench.blobs.requests - before) == {"get": 2}

    bench.run(story())


def test_bodies_are_fetched_side_by_side(bench: ApartBench) -> None:
    async def story() -> None:
        for _ in range(3):
            await bench.send(text(20_000))
        under_way, most = 0, 0
        get = bench.blobs.get

        async def slowly(name: str) -> bytes | None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1
            return await get(name)

        bench.blobs.get = slowly  # type: ignore[method-assign]
        assert len(await bench.receive()) == 3
        assert most == 3

    bench.run(story())


def test_a_body_is_fetched_once_for_receives_that_follow_each_other(bench: ApartBench) -> None:
    async def story() -> None:
        sent = [text(100_000) for _ in range(10)]
        await bench.send(*sent)
        before = bench.blobs.requests.copy()
        got = [await bench.receive(count=1) for _ in range(10)]
        assert [bodies_of(one)[0] for one in got] == sent
        assert dict(bench.blobs.requests - before) == {"get": 1}

    bench.run(story())


def test_bodies_kept_in_memory_are_bounded_by_what_they_are_unpacked(
    bench: ApartBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES_HELD_MAX", 2_500_000)
    bench.threshold_bytes = 0

    async def story() -> None:
        bag = bench.front_end()
        for letter in "abcdefgh":
            await bench.send(letter * 1_000_000, bag=bag)
        got = await bench.receive(bag=bag)
        assert len(got) == 8
        (store,) = bag._desk.bodies.values()
        assert len(store._held) == 2
        (lanes,) = bag._desk.lanes.values()
        lane = lanes.lane(0)
        assert all("z" not in s.item for b in lane.blocks.values() for s in b.segments.values())
        bench.clock.advance(31)
        assert sorted(bodies_of(await bench.receive(bag=bag))) == sorted(bodies_of(got))

    bench.run(story())


def test_small_bodies_stay_in_the_item(bench: ApartBench) -> None:
    async def story() -> None:
        await bench.send(*"abcdefghij")
        await bench.send("compresses well" * 10_000)
        assert len(await bench.drain()) == 11
        assert bench.blobs.requests == {}

    bench.run(story())


@pytest.mark.parametrize(("size", "apart"), [(1000, False), (1001, True)])
def test_the_threshold_is_the_greatest_body_in_an_item(
    bench: ApartBench, size: int, *, apart: bool
) -> None:
    async def story() -> None:
        store = BodyStore(bench.blobs, threshold_bytes=1000)
        partition = keys.segments(QUEUE.uid, 0, 0)
        record = Append(partition, bytes(11), {"z": bytes(size)}, 1_000_000, 5)
        stored = await store.put_apart(record, [b"i" * 16], 0)
        assert ("o" in stored.attributes, "z" in stored.attributes) == (apart, not apart)
        assert len(await bench.names()) == apart

    bench.run(story())


def test_delayed_bodies_have_the_names_of_their_segments(bench: ApartBench) -> None:
    async def story() -> None:
        body = text(20_000)
        await bench.send(body, delay_s=60)
        (segment,) = bench.segments()
        assert await bench.names() == [blob_name(segment.key)]
        assert segment_of(blob_name(segment.key)) == segment.key
        assert await bench.receive() == []
        bench.clock.advance(61)
        assert bodies_of(await bench.receive()) == [body]

    bench.run(story())


def test_visibility_and_redelivery_work_with_bodies_apart(bench: ApartBench) -> None:
    async def story() -> None:
        body = text(20_000)
        await bench.send(body)
        (first,) = await bench.receive(visibility_s=30)
        await bench.bag.change_visibility(QUEUE, [(bench.handle(first), 0)])
        (second,) = await bench.receive(bag=bench.front_end())
        assert (second.message.body, second.receive_count) == (body, 2)
        bench.clock.advance(31)
        (third,) = await bench.receive()
        assert (third.message.body, third.receive_count) == (body, 3)

    bench.run(story())


def test_a_repeated_call_is_answered_without_the_body(bench: ApartBench) -> None:
    async def story() -> None:
        sent = [text(50_000) for _ in range(3)]
        ids = await bench.send(*sent, call=CALL)
        other = bench.front_end()
        costs = bench.blobs.requests.copy()
        assert await bench.send(*sent, call=CALL, repeated=True, bag=other) == ids
        assert bench.blobs.requests == costs
        bench.clock.advance(5)
        assert [d.message.id for d in await bench.receive()] == ids

    bench.run(story())


def test_purge_and_restamp_take_bodies_apart_as_any(bench: ApartBench) -> None:
    async def story() -> None:
        await bench.send(text(20_000))
        purged_us = await bench.bag.purge(bench.queue)
        bench.queue = replace(bench.queue, purged_us=purged_us)
        bench.clock.advance(1)
        body = text(20_000)
        await bench.send(body)
        kept = [item.key for item in bench.segments() if item.attributes["k"] == "s"]
        before = [item.attributes["x"] for item in bench.segments() if item.key in kept]
        bench.queue = replace(bench.queue, retention_s=1_209_600)
        await bench.bag.restamp(bench.queue)
        after = [item.attributes["x"] for item in bench.segments() if item.key in kept]
        assert all(a > b for a, b in zip(after, before, strict=True))  # type: ignore[operator]
        bench.clock.advance(5)
        assert await bench.drain() == [body]

    bench.run(story())


# What fails


def test_a_lost_append_leaves_an_orphan_that_the_sweep_removes_in_time(bench: ApartBench) -> None:
    async def story() -> None:
        body = text(20_000)
        bench.cell.failing = 1
        with pytest.raises(CellUnavailableError):
            await bench.send(body)
        (orphan,) = await bench.names()
        assert await bench.receive() == []
        await bench.send(body)
        bench.clock.advance(HOUR_S - 1)
        await sweep(bench, bag=bench.front_end())
        assert len(await bench.names()) == 2
        bench.clock.advance(2)
        await sweep(bench, bag=bench.front_end())
        (left,) = await bench.names()
        assert left != orphan
        assert await bench.drain() == [body]

    bench.run(story())


def test_no_segment_without_its_body(bench: ApartBench) -> None:
    async def story() -> None:
        bench.blobs.failing = {"put"}
        with pytest.raises(CellUnavailableError):
            await bench.send(text(1_000_000))
        assert bench.segments() == []

    bench.run(story())


def test_while_the_blob_store_is_away_a_body_stays_in_the_item_if_it_can(
    bench: ApartBench,
) -> None:
    async def story() -> None:
        bodies = [text(20_000), text(200_000)]
        bench.blobs.failing = {"put"}
        for body in bodies:
            await bench.send(body)
        assert await bench.names() == []
        bench.blobs.failing = set()
        await bench.send(text(20_000))
        assert [("o" in item.attributes) for item in bench.segments()] == [False, False, True]
        assert set(bodies) < set(await bench.drain())

    bench.run(story())


def test_a_full_blob_store_is_not_passed_over(
    bench: ApartBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async def put(_name: str, _body: bytes) -> None:
            raise CellFullError("no room")

        monkeypatch.setattr(bench.blobs, "put", put)
        with pytest.raises(CellFullError):
            await bench.send(text(20_000))
        assert bench.segments() == []

    bench.run(story())


def test_a_blob_store_that_hangs_is_waited_for_a_second(
    bench: ApartBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async def put(_name: str, _body: bytes) -> None:
            left = left_us(bench.clock.now_us())
            assert left is not None, "it would wait for ever"
            bench.clock.advance(left / 1_000_000)
            raise DeadlinePassedError("no answer")

        monkeypatch.setattr(bench.blobs, "put", put)
        began_us = bench.clock.now_us()
        await bench.send(text(20_000))
        assert bench.clock.now_us() == began_us + 1_000_000

    bench.run(story())


@pytest.mark.parametrize(("minutes", "acknowledged"), [(29, True), (31, False)])
def test_a_send_whose_body_may_have_been_swept_is_not_acknowledged(
    bench: ApartBench, minutes: int, *, acknowledged: bool
) -> None:
    async def story() -> None:
        bench.cell.append_takes_s = [minutes * 60]
        body = text(20_000)
        if acknowledged:
            await bench.send(body)
            assert await bench.drain() == [body]
        else:
            with pytest.raises(CellUnavailableError, match="too long after its body"):
                await bench.send(body)

    bench.run(story())


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "truncated": lambda body: body[:-1],
    "flipped": lambda body: body[:500] + bytes((body[500] ^ 1,)) + body[501:],
    "another": lambda _: b"another",
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_damaged_body_is_never_delivered_and_costs_no_other(bench: ApartBench, kind: str) -> None:
    async def story() -> None:
        await bench.send(text(20_000))
        (name,) = await bench.names()
        body = await bench.blobs.get(name)
        assert body is not None
        await bench.blobs.put(name, SPOILT[kind](body))
        others = [text(20_000), "small"]
        for other in others:
            await bench.send(other)
        assert await bench.drain() == others
        assert bench.bag.damaged_segments == 1
        assert name in await bench.names()

    bench.run(story())


def test_a_missing_body_is_a_damage_where_it_was_not_deleted(bench: ApartBench) -> None:
    async def story() -> None:
        await bench.send(text(20_000))
        await bench.blobs.delete(await bench.names())
        await bench.send("other")
        assert await bench.drain() == ["other"]
        assert bench.bag.damaged_segments == 1
        assert len(bench.segments()) == 2

    bench.run(story())


def test_a_missing_body_is_none_where_others_have_deleted_it(bench: ApartBench) -> None:
    async def story() -> None:
        other = bench.front_end()
        await bench.send(text(20_000), text(20_000))
        (first,) = await bench.receive(count=1)
        bench.clock.advance(31)
        got = await bench.receive(bag=other)
        await bench.delete([*got, first], bag=other)
        await bench.blobs.delete(await bench.names())
        # As after a long freeze between the look at the block and the fetch.
        (lanes,) = bench.bag._desk.lanes.values()
        lane = lanes.lane(0)
        (block,) = lane.blocks.values()
        block.checked_us = bench.clock.now_us()
        (store,) = bench.bag._desk.bodies.values()
        store._held.clear()
        assert await bench.receive() == []
        assert bench.bag.damaged_segments == 0

    bench.run(story())


def test_a_body_that_cannot_be_fetched_now_is_delivered_later(bench: ApartBench) -> None:
    async def story() -> None:
        sent = [text(20_000), text(20_000)]
        await bench.send(sent[0])
        bench.blobs.failing_names = set(await bench.names())
        await bench.send(sent[1])
        await bench.send("small")
        assert bodies_of(await bench.receive()) == [sent[1], "small"]
        with pytest.raises(CellUnavailableError):
            await bench.receive()
        bench.blobs.failing_names = set()
        (got,) = await bench.receive()
        assert (got.message.body, got.receive_count) == (sent[0], 1)
        assert bench.bag.damaged_segments == 0

    bench.run(story())


def test_a_cell_without_blobs_refuses_to_guess(bench: ApartBench) -> None:
    async def story() -> None:
        await bench.send(text(20_000))
        plain = Bag({"a": bench.cell}, bench.clock, bench.entropy, EventLoopWaits(bench.clock))
        with pytest.raises(UnknownFormatError, match="no blobs"):
            await bench.receive(bag=plain)

    bench.run(story())


def test_bodies_do_not_lie_apart_where_the_cell_chooses_stamps(bench: ApartBench) -> None:
    with pytest.raises(ValueError, match="cell a"):
        Bag(
            {"a": MemoryCell(bench.clock)},
            bench.clock,
            bench.entropy,
            EventLoopWaits(bench.clock),
            {"a": BodyStore(bench.blobs)},
        )
