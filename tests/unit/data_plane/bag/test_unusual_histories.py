"""What a front end believes of a queue after things that seldom happen before a call."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from data_plane.bag.engine import Bag
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, Item
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.bag.tenancy import NOISY, Tenancy, groups_of
from tests.unit.data_plane.room_asked_for import let_others_run

T = TypeVar("T")


class ImpatientWaits(EventLoopWaits):
    """Cancels, once, whoever has several calls made side by side, before the first begins."""

    cancelling = True

    async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        caller = asyncio.current_task()
        if self.cancelling and len(calls) > 1 and caller is not None:
            self.cancelling = False
            caller.cancel()
        return await super().all_of(calls)


def test_a_receive_whose_client_has_gone_before_it_leased_keeps_nothing(bench: Bench) -> None:
    async def story() -> None:
        for body in ("a", "b"):
            await bench.send(body, bag=bench.front_end())
        waits = ImpatientWaits(bench.clock)
        bag = Bag({"a": bench.cell}, bench.clock, bench.entropy, waits)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(bench.receive(bag=bag))
        assert not waits.cancelling
        assert sorted(d.message.body for d in await bench.receive(bag=bag)) == ["a", "b"]

    bench.run(story())


class AwayOnce(MemoryCell):
    """Fails the first query of the partition `away`."""

    away = ""

    async def query(self, partition: str, **range_: Any) -> list[Item]:
        if partition == self.away:
            self.away = ""
            raise CellUnavailableError("away")
        return await super().query(partition, **range_)


def test_a_reader_whose_first_look_failed_finds_lanes_that_are_announced_unread(
    bench: Bench,
) -> None:
    """What a purge, or the retention, lets it skip may have told of them."""

    async def story() -> None:
        cell = bench.cell = AwayOnce(bench.clock)
        bench.bag, reader = bench.front_end(), bench.front_end()
        tenancy = Tenancy(bench)
        cell.away = keys.segments(QUEUE.uid, 0, 0)
        with pytest.raises(CellUnavailableError):
            await bench.receive(bag=reader)
        await tenancy.send(NOISY, 100)
        bench.clock.advance(1)
        bench.queue = replace(QUEUE, purged_us=await bench.bag.purge(QUEUE))
        bench.clock.advance(1)
        sent = await tenancy.send(NOISY, 60)
        assert sorted(await bench.drain(bag=reader)) == sorted(sent)

    bench.run(story())


def test_a_group_that_is_noisy_no_more_has_its_turn_though_others_always_wait(
    bench: Bench,
) -> None:
    """At a server that only receives: nothing but its receives tells it what time it is."""

    async def story() -> None:
        tenancy, sender = Tenancy(bench), bench.front_end()
        await tenancy.send(NOISY, 4, bag=sender)
        for takes_s in (5, 0):  # All of the consumers' time: the second one is noticed.
            bench.clock.advance(2)
            deliveries = await bench.receive(1)
            bench.clock.advance(takes_s)
            await bench.delete(deliveries)
        received = list[str]()
        for number in range(40):
            await bench.send(f"quiet {number}", f"another {number}", bag=sender)
            bench.clock.advance(1)
            deliveries = await bench.receive(1)
            received += groups_of(deliveries)
            await bench.delete(deliveries)
        assert len(received) == 40
        assert received[:5] == [""] * 5
        assert received.count(NOISY) == 2

    bench.run(story())


def test_what_a_receive_gets_that_has_waited_since_before_a_purge_is_in_flight(
    bench: Bench,
) -> None:
    async def story() -> None:
        until_us = bench.clock.now_us() + 20_000_000
        waiting = asyncio.create_task(
            bench.bag.receive(QUEUE, count=1, visibility_s=600, until_us=until_us)
        )
        await let_others_run()
        bench.queue = replace(QUEUE, version=2, purged_us=await bench.bag.purge(QUEUE))
        bench.bag.changed(bench.queue)
        await bench.send("sent after it")
        await waiting
        counts = await bench.bag.counts(bench.queue)
        assert (counts.visible, counts.in_flight) == (0, 1)

    bench.run(story())


def test_a_message_that_came_back_often_is_not_taken_for_the_end_of_its_lane(bench: Bench) -> None:
    """It stands behind what is still to be read: what a group has there goes on to wait."""

    async def story() -> None:
        tenancy = Tenancy(bench)
        for _ in range(60):
            await tenancy.send(NOISY)
        for _ in range(3):
            await bench.delete(await bench.receive())
        assert len(await bench.receive(visibility_s=0)) == 10
        bench.clock.advance(2)
        for _ in range(2):
            assert len(await bench.receive(visibility_s=0)) == 10
        before = tenancy.messages_in_lanes()
        assert before == {0: 30, 1: 30}
        await tenancy.send(NOISY)
        assert tenancy.messages_in_lanes() == {0: 30, 1: 31}

    bench.run(story())
