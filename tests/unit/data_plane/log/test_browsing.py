"""Browsing a FIFO queue: in the order of the log, each message once, for a bounded cost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.browsing import Browsed
from data_plane.core.errors import RefusedError
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import Generation
from data_plane.ports import Item
from tests.unit.data_plane.log.conftest import HIGH_THROUGHPUT, QUEUE, Bench


async def walk(bench: Bench, count: int = 100) -> list[Browsed]:
    """All pages, by a front end that knows nothing."""
    log = bench.front_end()
    found: list[Browsed] = []
    position = b""
    for _ in range(1_000):
        page = await log.browse(bench.queue, count=count, position=position)
        assert len(page.messages) <= count
        found += page.messages
        position = page.next_position
        if not position:
            return found
    raise AssertionError("the walk does not end")


def bodies(found: Sequence[Browsed]) -> list[str]:
    return [browsed.message.body for browsed in found]


@pytest.mark.parametrize("count", [1, 3, 10, 100])
def test_messages_are_shown_in_order_with_their_states(count: int, bench: Bench) -> None:
    async def story() -> None:
        start_ms = bench.clock.now_us() // 1000
        sent = await bench.send(*(f"g{n % 3}:{n}" for n in range(10)))
        sent += await bench.send(*(f"g{n % 3}:{n}" for n in range(10, 17)))
        held = await bench.receive(2)
        await bench.delete(held[1:])
        found = await walk(bench, count)
        done = {delivery.message.id for delivery in held[1:]}
        left = [one for one in sent if one.id not in done]
        assert [one.message.id for one in found] == [one.id for one in left]
        assert [one.message.sequence for one in found] == [one.sequence for one in left]
        assert [one.state for one in found] == ["inFlight"] + ["visible"] * 15
        assert (found[0].visible_ms, found[0].receive_count) == (start_ms + 30_000, 1)
        assert found[1].message.deduplication_id
        bench.clock.advance(31)
        assert {one.state for one in await walk(bench, count)} == {"visible"}

    bench.run(story())


def test_nothing_is_touched(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("g:1", "g:2")
        await bench.receive(1)
        before = list(bench.cell.items())
        requests, _ = await bench.cost_of(lambda: walk(bench))
        assert requests.keys() <= {"query", "get_many", "get"}
        assert list(bench.cell.items()) == before

    bench.run(story())


def test_the_queues_delay_holds_for_what_waits(bench: Bench) -> None:
    async def story() -> None:
        sent_ms = bench.clock.now_us() // 1000
        await bench.send("g:1")
        bench.queue = replace(QUEUE, delay_s=60)
        (browsed,) = await walk(bench)
        assert browsed.state == "delayed"
        assert browsed.visible_ms == pytest.approx(sent_ms + 60_000, abs=1)
        bench.clock.advance(61)
        assert [one.state for one in await walk(bench)] == ["visible"]

    bench.run(story())


def test_what_is_purged_or_expired_is_not_shown(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("g:1")
        bench.queue = replace(QUEUE, purged_us=await bench.log.purge(bench.queue))
        await bench.send("g:2")
        assert bodies(await walk(bench)) == ["2"]
        bench.clock.advance(QUEUE.retention_s + 1)
        assert await walk(bench) == []

    bench.run(story())


def test_all_partitions_of_all_generations_are_shown(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = replace(QUEUE, generations=HIGH_THROUGHPUT)
        await bench.send(*(f"g{n}:{n}" for n in range(10)))
        bench.clock.advance(1)
        since_s = bench.clock.now_us() // 1_000_000
        bench.queue = replace(QUEUE, generations=(*HIGH_THROUGHPUT, Generation(1, 1, since_s)))
        bench.log = bench.front_end()
        await bench.send(*(f"g{n}:{n}" for n in range(10, 20)))
        for count in (1, 100):
            found = bodies(await walk(bench, count))
            assert sorted(found[:10], key=int) == [str(n) for n in range(10)]
            assert found[10:] == [str(n) for n in range(10, 20)]

    bench.run(story())


def test_what_is_collected_between_two_reads_is_not_taken_for_new(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await bench.send("g:gone")
        bench.clock.advance(3_000)
        query = bench.cell.query

        async def collect_after_the_query(partition: str, **options: Any) -> list[Item]:
            items = await query(partition, **options)
            for item in items:
                await bench.cell.delete(item.key)
            return items

        monkeypatch.setattr(bench.cell, "query", collect_after_the_query)
        assert await walk(bench) == []

    bench.run(story())


def test_a_page_costs_the_same_behind_a_message_that_is_held(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("held:first")
        await bench.receive(visibility_s=43_200)
        for number in range(300):
            await bench.send(*(f"g{n}:{number}-{n}" for n in range(10)))
            await bench.delete(await bench.receive())
            bench.clock.advance(1)
            await bench.log.sweep()
        for number in range(5):
            await bench.send(*(f"h{n}:waiting {number}-{n}" for n in range(10)))
        first = await bench.log.browse(bench.queue, count=10)
        assert bodies(first.messages)[0] == "first"
        assert len(first.messages) == 10
        requests, items = await bench.cost_of(
            lambda: bench.log.browse(bench.queue, count=10, position=first.next_position)
        )
        assert requests == {"get": 1, "query": 1, "get_many": 1}
        assert items <= 20 + 20 + 1

    bench.run(story())


def test_a_page_has_a_mebibyte_or_one_message(bench: Bench) -> None:
    async def story() -> None:
        big = [
            Outgoing(body="x" * 400_000, size=400_000, group="g", deduplication_id=str(number))
            for number in range(3)
        ]
        await bench.log.send(bench.queue, SendCall("1", big[:2]))
        await bench.log.send(bench.queue, SendCall("1", big[2:]))
        first = await bench.log.browse(bench.queue, count=100)
        assert len(first.messages) == 2
        second = await bench.log.browse(bench.queue, count=100, position=first.next_position)
        assert len(second.messages) == 1

    bench.run(story())


@pytest.mark.parametrize("position", [b"x", b"\xc0", b"\x94\x00\x00\xff\x00"])
def test_a_position_that_no_page_has_had_is_refused(position: bytes, bench: Bench) -> None:
    async def story() -> None:
        with pytest.raises(RefusedError, match=r"Invalid or expired next token\."):
            await bench.log.browse(bench.queue, count=1, position=position)

    bench.run(story())


def test_a_queue_that_was_dropped_cannot_be_browsed(bench: Bench) -> None:
    async def story() -> None:
        bench.log.dropped(bench.queue)
        with pytest.raises(RefusedError, match="does not exist"):
            await bench.log.browse(bench.queue, count=1)

    bench.run(story())
