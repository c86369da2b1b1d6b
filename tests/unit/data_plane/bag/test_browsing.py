"""Browsing shows each message once, with its state, for a bounded cost, and changes nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from data_plane.core.browsing import Browsed
from data_plane.core.errors import RefusedError
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.ports import CellUnavailableError, Item, Key, Update
from data_plane.stored import keys
from data_plane.stored.segment import FORMAT_VERSION, octets
from tests.unit.data_plane.bag.apart import ApartBench, text
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

LOW_WATER = keys.low_water(QUEUE.uid, 0, 0)
SEGMENTS = keys.segments(QUEUE.uid, 0, 0)
STATES = keys.states(QUEUE.uid, 0, 0)


async def walk(bench: Bench, count: int = 100) -> list[Browsed]:
    """All pages, by a front end that knows nothing."""
    bag = bench.front_end()
    found: list[Browsed] = []
    position = b""
    for _ in range(1_000):
        page = await bag.browse(bench.queue, count=count, position=position)
        assert len(page.messages) <= count
        found += page.messages
        position = page.next_position
        if not position:
            return found
    raise AssertionError("the walk does not end")


def shown(found: Sequence[Browsed]) -> list[tuple[str, str]]:
    return [(browsed.message.body, browsed.state) for browsed in found]


def test_messages_are_visible_delayed_or_in_flight(bench: Bench) -> None:
    async def story() -> None:
        start_ms = bench.clock.now_us() // 1000
        await bench.send("held", "back")
        first, second = await bench.receive()
        bench.clock.advance(1)
        await bench.bag.change_visibility(bench.queue, [(bench.handle(second), 0)])
        await bench.send("waiting")
        await bench.send("later", delay_s=60)
        held, back, waiting, later = await walk(bench)
        assert shown([held, back]) == [("held", "inFlight"), ("back", "visible")]
        assert (held.visible_ms, held.receive_count) == (start_ms + 30_000, 1)
        assert held.first_received_ms == first.first_received_ms == start_ms
        assert (back.visible_ms, back.receive_count) == (0, 1)
        assert shown([waiting, later]) == [("waiting", "visible"), ("later", "delayed")]
        assert (waiting.visible_ms, waiting.receive_count, waiting.first_received_ms) == (0, 0, 0)
        assert later.visible_ms == pytest.approx(start_ms + 61_000, abs=1)
        bench.clock.advance(61)
        assert {state for _, state in shown(await walk(bench))} == {"visible"}

    bench.run(story())


def test_the_messages_are_whole(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        (browsed,) = await walk(bench)
        (delivery,) = await bench.receive()
        assert browsed.message == delivery.message

    bench.run(story())


def test_nothing_is_touched(bench: Bench) -> None:
    async def story() -> None:
        await bench.send(*"abc")
        await bench.receive(count=1)
        await bench.send("later", delay_s=5)
        before = list(bench.cell.items())
        requests, _ = await bench.cost_of(lambda: walk(bench))
        assert requests.keys() <= {"query", "get_many", "get"}
        assert list(bench.cell.items()) == before
        counts = await bench.bag.counts(bench.queue)
        assert (counts.visible, counts.in_flight, counts.delayed) == (2, 1, 1)
        bench.clock.advance(31)
        assert sorted(d.receive_count for d in await bench.receive()) == [1, 1, 1, 2]

    bench.run(story())


def test_what_is_deleted_expired_or_purged_is_not_shown(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("expires")
        bench.clock.advance(QUEUE.retention_s - 10)
        await bench.send("deleted", "stays")
        deliveries = await bench.receive()
        await bench.delete([d for d in deliveries if d.message.body == "deleted"])
        bench.clock.advance(20)
        assert shown(await walk(bench)) == [("stays", "inFlight")]
        bench.queue = replace(QUEUE, purged_us=await bench.bag.purge(bench.queue))
        await bench.send("new")
        assert shown(await walk(bench)) == [("new", "visible")]

    bench.run(story())


@pytest.mark.parametrize("count", [1, 3, 10, 100])
def test_pages_of_every_size_show_each_message_once(count: int, bench: Bench) -> None:
    async def story() -> None:
        sent: list[str] = []
        for batch in range(23):
            bodies = [f"{batch}-{number}" for number in range(1 + batch % 10)]
            sent += bodies
            await bench.send(*bodies)
        await bench.receive()
        assert [body for body, _ in shown(await walk(bench, count))] == sent

    bench.run(story())


@pytest.mark.parametrize("count", [1, 10])
def test_all_lanes_are_shown(count: int, bench: Bench) -> None:
    async def story() -> None:
        for start in range(0, 600, 10):
            messages = [
                Outgoing(body=f"noisy {number}", size=9, group="noisy")
                for number in range(start, start + 10)
            ]
            await bench.bag.send(bench.queue, SendCall("1", messages))
        await bench.bag.send(
            bench.queue, SendCall("1", [Outgoing(body="quiet", size=5, group="quiet")])
        )
        assert await bench.cell.query(keys.segments(QUEUE.uid, 2, 0), limit=1)
        found = await walk(bench, count)
        assert len(found) == 601
        assert len({browsed.message.body for browsed in found}) == 601

    bench.run(story())


async def hold_below_the_mark(bench: Bench, count: int) -> list[Delivery]:
    """Messages in flight that the low-water mark has passed."""
    held: list[Delivery] = []
    for start in range(0, count, 10):
        await bench.send(*(f"held {n}" for n in range(start, min(start + 10, count))))
        held += await bench.receive(visibility_s=3_600)
    assert len(held) == count
    for _ in range(15):
        await bench.send(*"abcdefghij")
        await bench.delete(await bench.receive(visibility_s=600))
    bench.clock.advance(60)
    for _ in range(10):
        await bench.bag.sweep()
    mark = await bench.cell.get(LOW_WATER)
    first = (await bench.cell.query(SEGMENTS, limit=1))[0]
    assert mark is not None
    assert octets(mark, "w") >= first.key.sort
    return held


def sorted_bodies(messages: Sequence[Browsed | Delivery]) -> list[str]:
    return sorted(one.message.body for one in messages)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_what_is_in_flight_below_the_low_water_mark_is_shown_once(count: int, bench: Bench) -> None:
    async def story() -> None:
        held = await hold_below_the_mark(bench, 47)
        found = await walk(bench, count)
        assert sorted_bodies(found) == sorted_bodies(held)
        assert {browsed.state for browsed in found} == {"inFlight"}
        await bench.send("new")
        assert len(await walk(bench, count)) == 48

    bench.run(story())


def test_several_markers_of_a_block_show_its_messages_once(bench: Bench) -> None:
    async def story() -> None:
        held = await hold_below_the_mark(bench, 20)
        # Each change that shortens a visibility leaves one more marker ahead.
        for number, seconds in enumerate((3_000, 2_000, 1_000)):
            change = (bench.handle(held[number]), seconds)
            assert await bench.bag.change_visibility(bench.queue, [change]) == [None]
        for count in (1, 7, 100):
            assert sorted_bodies(await walk(bench, count)) == sorted_bodies(held)

    bench.run(story())


def test_what_came_late_is_shown_once() -> None:
    async def story() -> None:
        bench = ApartBench()
        bench.cell.append_takes_s = [0, 5]
        await bench.send("late")
        assert shown(await walk(bench)) == [("late", "visible")]
        # A mark that has passed the segment, and not the late marker that leads to it.
        segment, marker = await bench.cell.query(SEGMENTS, limit=3)
        assert (segment.attributes["k"], marker.attributes["k"]) == ("s", "l")
        await bench.cell.put(LOW_WATER, {"v": FORMAT_VERSION, "w": segment.key.sort})
        again = Key(SEGMENTS, keys.be64(keys.slice_of(marker.key.sort) + 9) + marker.key.sort[8:])
        await bench.cell.put(again, marker.attributes)
        for count in (1, 100):
            assert shown(await walk(bench, count)) == [("late", "visible")]

    Bench().run(story())


def test_bodies_apart_are_shown_and_those_that_are_gone_are_not() -> None:
    async def story() -> None:
        bench = ApartBench()
        bodies = [text(20_000), text(20_000)]
        for body in bodies:
            await bench.send(body)
        assert [body for body, _ in shown(await walk(bench))] == bodies
        names = await bench.names()
        await bench.blobs.delete(names[:1])
        assert [body for body, _ in shown(await walk(bench))] == bodies[1:]
        bench.blobs.failing = {"get"}
        with pytest.raises(CellUnavailableError):
            await walk(bench)

    Bench().run(story())


def test_a_page_has_a_mebibyte_or_one_message(bench: Bench) -> None:
    async def story() -> None:
        big = Outgoing(body="x" * 400_000, size=400_000)
        await bench.bag.send(bench.queue, SendCall("1", [big, big]))
        await bench.bag.send(
            bench.queue, SendCall("1", [msgspec.structs.replace(big, body="y" * 1_048_576)])
        )
        await bench.bag.send(bench.queue, SendCall("1", [big]))
        sizes: list[list[int]] = []
        position = b""
        while True:
            page = await bench.bag.browse(bench.queue, count=100, position=position)
            sizes.append([len(browsed.message.body) for browsed in page.messages])
            position = page.next_position
            if not position:
                break
        assert [page_sizes for page_sizes in sizes if page_sizes] == [
            [400_000, 400_000],
            [1_048_576],
            [400_000],
        ]

    bench.run(story())


def test_what_is_collected_between_two_reads_is_not_taken_for_new(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await bench.send("gone")
        bench.clock.advance(60)
        query = bench.cell.query

        async def collect_after_the_query(partition: str, **options: Any) -> list[Item]:
            items = await query(partition, **options)
            for item in items:
                if item.key.partition == SEGMENTS:
                    await bench.cell.delete(item.key)
            return items

        monkeypatch.setattr(bench.cell, "query", collect_after_the_query)
        assert await walk(bench) == []

    bench.run(story())


def test_a_message_on_its_way_to_another_queue_says_so(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("dead")
        await bench.receive()
        (state,) = await bench.cell.query(STATES, limit=2)
        await bench.cell.update(state.key, Update(assign={"q0": "d|1|us-east-1|dead|00"}))
        assert shown(await walk(bench)) == [("dead", "moving")]

    bench.run(story())


@pytest.mark.parametrize("position", [b"x", b"\xc0", b"\x93\x01\x02\x03"])
def test_a_position_that_no_page_has_had_is_refused(position: bytes, bench: Bench) -> None:
    async def story() -> None:
        with pytest.raises(RefusedError, match=r"Invalid or expired next token\."):
            await bench.bag.browse(bench.queue, count=1, position=position)

    bench.run(story())


def test_a_queue_that_was_dropped_cannot_be_browsed(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        bench.bag.dropped(bench.queue)
        with pytest.raises(RefusedError, match="does not exist"):
            await bench.bag.browse(bench.queue, count=1)

    bench.run(story())


@pytest.mark.parametrize("past_messages", [0, 3_000])
def test_a_page_costs_the_same_whatever_waits_and_whatever_was_deleted(
    past_messages: int, bench: Bench
) -> None:
    async def story() -> None:
        for _ in range(past_messages // 10):
            await bench.send(*"abcdefghij")
        await bench.drain()
        bench.clock.advance(60)
        for _ in range(60):
            await bench.bag.sweep()
        for _ in range(200):
            await bench.send(*"abcdefghij")
        bench.clock.advance(60)
        page = await bench.bag.browse(bench.queue, count=10)
        requests, items = await bench.cost_of(
            lambda: bench.bag.browse(bench.queue, count=10, position=page.next_position)
        )
        # A range, the states of the blocks in it, and one segment of each block without a state.
        assert requests == {"query": 1, "get_many": 2}
        assert items <= 20 + 20

    bench.run(story())


def test_a_page_reads_at_most_four_ranges(bench: Bench) -> None:
    async def story() -> None:
        for _ in range(200):
            await bench.send("a", "b")
        for _ in range(40):
            await bench.delete([d for d in await bench.receive() if d.message.body == "a"])
        rest = await bench.receive()
        await bench.delete([delivery for delivery in rest if delivery.message.body == "b"])
        bag = bench.front_end()
        position, pages = b"", 0
        while True:
            before, read = bench.cell.requests.copy(), bench.cell.items_read
            page = await bag.browse(bench.queue, count=10, position=position)
            cost = bench.cell.requests - before
            assert cost["query"] <= 4 + (not position)
            assert cost["get_many"] <= 4 * 3
            assert bench.cell.items_read - read <= 4 * (20 + 20 + 127 + 100)
            position, pages = page.next_position, pages + 1
            if not position:
                break
        assert pages >= 5

    bench.run(story())
