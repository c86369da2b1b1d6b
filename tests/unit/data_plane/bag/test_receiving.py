"""Visibility, redelivery, receive counts, several front ends, waiting."""

import asyncio
from unittest.mock import AsyncMock, patch

import pytest

from data_plane.bag import bounds
from data_plane.core.errors import QUEUE_DOES_NOT_EXIST, RefusedError
from data_plane.ports import Append, Appended, CellUnavailableError, Key, Update
from data_plane.stored import keys
from data_plane.stored.segment import octets
from tests.unit.data_plane.bag.conftest import QUEUE, Bench


def test_messages_are_invisible_until_their_visibility_ends(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a", "b")
        first = await bench.receive()
        assert [d.receive_count for d in first] == [1, 1]
        assert await bench.receive() == []
        bench.clock.advance(29)
        assert await bench.receive() == []
        bench.clock.advance(1.001)
        second = await bench.receive()
        assert [d.message.body for d in second] == ["a", "b"]
        assert [d.receive_count for d in second] == [2, 2]
        assert [d.first_received_ms for d in second] == [d.first_received_ms for d in first]
        assert {d.receipt_handle for d in first}.isdisjoint(d.receipt_handle for d in second)

    bench.run(story())


def test_a_visibility_of_zero_leaves_a_message_visible(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        for count in (1, 2, 3):
            (delivery,) = await bench.receive(visibility_s=0)
            assert delivery.receive_count == count

    bench.run(story())


def test_leases_and_receive_counts_survive_a_restart(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        await bench.receive()
        assert await bench.receive(bag=bench.front_end()) == []
        bench.clock.advance(31)
        (delivery,) = await bench.receive(bag=bench.front_end())
        assert delivery.receive_count == 2

    bench.run(story())


def test_deleted_messages_stay_deleted_for_every_front_end(bench: Bench) -> None:
    async def story() -> None:
        await bench.send(*"abcdefghij")
        deliveries = await bench.receive()
        await bench.delete(deliveries[:9])
        bench.clock.advance(31)
        (left,) = await bench.receive(bag=bench.front_end())
        assert left.message.body == "j"
        # An old handle still deletes.
        await bench.delete([deliveries[9]])
        bench.clock.advance(31)
        assert await bench.receive(bag=bench.front_end()) == []

    bench.run(story())


def test_two_front_ends_share_the_messages(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        for start in range(0, 200, 10):
            await bench.send(*(f"m{i}" for i in range(start, start + 10)))
        received: list[str] = []
        while True:
            mine, theirs = await bench.receive(), await bench.receive(bag=other)
            if not mine and not theirs:
                break
            received += [d.message.body for d in mine + theirs]
        assert sorted(received) == sorted(f"m{i}" for i in range(200))

    bench.run(story())


def test_concurrent_receives_take_different_messages(bench: Bench) -> None:
    async def story() -> None:
        for start in range(0, 100, 10):
            await bench.send(*(f"m{i}" for i in range(start, start + 10)))
        batches = await asyncio.gather(*(bench.receive() for _ in range(20)))
        bodies = [d.message.body for batch in batches for d in batch]
        assert len(bodies) == len(set(bodies))
        assert sorted(bodies + [d.message.body for d in await bench.receive()]) == sorted(
            f"m{i}" for i in range(100)
        )

    bench.run(story())


def test_a_message_in_flight_is_found_again_after_the_window_has_passed_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_plane.bag.lane.WINDOW_ENTRIES_MAX", 4)

    async def story() -> None:
        await bench.send("held")
        (held,) = await bench.receive(visibility_s=600)
        for _ in range(60):
            await bench.send(*"abcdefghij")
            await bench.receive(visibility_s=300)
        await bench.bag.sweep()
        low = await bench.cell.get(keys.low_water(QUEUE.uid, 0, 0))
        assert low is not None
        assert keys.slice_of(octets(low, "w")) > held.message.sent_ms * 1000
        restarted = bench.front_end()
        assert await bench.receive(bag=restarted) == []
        bench.clock.advance(601)
        counts = [(d.message.body, d.receive_count) for d in await _all(bench, restarted)]
        assert sorted(counts) == sorted([("held", 2), *((c, 2) for c in "abcdefghij" * 60)])

    async def _all(bench: Bench, bag: object) -> list:  # type: ignore[type-arg]
        found = []
        while deliveries := await bench.receive(bag=bag, visibility_s=3600):  # type: ignore[arg-type]
            found += deliveries
        return found

    bench.run(story())


def test_expired_messages_are_not_delivered(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("old")
        bench.clock.advance(QUEUE.retention_s)
        await bench.send("new")
        assert await bench.drain() == ["new"]
        bench.clock.advance(60)
        assert (await bench.bag.counts(QUEUE)).visible == 0

    bench.run(story())


def test_delayed_messages_come_when_they_are_due(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("late", delay_s=10)
        await bench.send("now")
        counts = await bench.bag.counts(QUEUE)
        assert (counts.visible, counts.delayed) == (1, 1)
        assert await bench.drain() == ["now"]
        bench.clock.advance(10.001)
        assert await bench.drain() == ["late"]

    bench.run(story())


def test_a_failed_lease_gives_the_messages_back(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        failing = AsyncMock(side_effect=CellUnavailableError("gone"))
        with patch.object(bench.cell, "update", failing), pytest.raises(CellUnavailableError):
            await bench.receive()
        assert failing.await_count == 1
        assert [d.message.body for d in await bench.receive()] == ["a"]

    bench.run(story())


def test_a_damaged_segment_does_not_hold_up_the_others(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("broken")
        (item,) = await bench.cell.query(keys.segments(QUEUE.uid, 0, 0), limit=10)
        await bench.cell.update(item.key, Update(assign={"z": b"\xc1not messagepack"}))
        await bench.send("whole")
        assert await bench.drain() == ["whole"]
        assert bench.bag.damaged_segments == 1

    bench.run(story())


def test_a_long_poll_wakes_for_a_send(bench: Bench) -> None:
    async def story() -> None:
        waiting = asyncio.create_task(
            bench.bag.receive(
                QUEUE, count=1, visibility_s=30, until_us=bench.clock.now_us() + 20_000_000
            )
        )
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        await bench.send("a")
        (delivery,) = await waiting
        assert delivery.message.body == "a"

    bench.run(story())


def test_a_long_poll_ends_when_the_queue_is_dropped(bench: Bench) -> None:
    async def story() -> None:
        waiting = asyncio.create_task(
            bench.bag.receive(
                QUEUE, count=1, visibility_s=30, until_us=bench.clock.now_us() + 20_000_000
            )
        )
        for _ in range(10):
            await asyncio.sleep(0)
        bench.bag.dropped(QUEUE)
        with pytest.raises(RefusedError) as refused:
            await waiting
        assert refused.value.fault == QUEUE_DOES_NOT_EXIST

    bench.run(story())


def test_what_is_finished_is_collected_and_nothing_else(bench: Bench) -> None:
    async def story() -> None:
        for _ in range(20):
            await bench.send(*"abcdefghij")
        await bench.send("kept")
        bodies: list[str] = []
        for _ in range(21):
            got = await bench.receive(visibility_s=3600)
            bodies += [d.message.body for d in got]
            await bench.delete([d for d in got if d.message.body != "kept"])
        assert "kept" in bodies
        bench.clock.advance(bounds.COLLECT_AFTER_US / 1_000_000 + 1)
        for _ in range(5):
            await bench.bag.sweep()
        left = await bench.cell.query(keys.segments(QUEUE.uid, 0, 0), limit=100)
        assert 1 <= len(left) <= 7
        bench.clock.advance(3600)
        assert [d.message.body for d in await bench.receive(bag=bench.front_end())] == ["kept"]

    bench.run(story())


def test_a_message_of_a_collected_block_is_not_deleted_again(bench: Bench) -> None:
    async def story() -> None:
        await bench.send(*"abcdefghij" * 7)
        got = [delivery for _ in range(7) for delivery in await bench.receive()]
        await bench.delete(got)
        bench.clock.advance(bounds.COLLECT_AFTER_US / 1_000_000 + 1)
        await bench.bag.sweep()
        states = keys.states(QUEUE.uid, 0, 0)
        assert await bench.cell.query(states, limit=10) == []
        await bench.delete(got[:1])
        assert await bench.cell.query(states, limit=10) == []
        await bench.send("new")
        assert (await bench.bag.counts(QUEUE)).visible == 1

    bench.run(story())


def test_an_item_of_a_later_format_is_refused(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        (item,) = await bench.cell.query(keys.segments(QUEUE.uid, 0, 0), limit=10)
        await bench.cell.update(Key(*item.key), Update(assign={"v": 3}))
        with pytest.raises(Exception, match="version 3"):
            await bench.receive()

    bench.run(story())


def test_concurrent_receives_write_each_marker_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_plane.bag.lane.WINDOW_ENTRIES_MAX", 4)
    append = bench.cell.append

    async def take_a_while(record: Append) -> Appended:
        await asyncio.sleep(0)
        return await append(record)

    monkeypatch.setattr(bench.cell, "append", take_a_while)

    async def story() -> None:
        for _ in range(70):
            await bench.send(*"abcdefghij")
        before = bench.cell.requests["append"]
        for _ in range(7):
            await asyncio.gather(*(bench.receive(visibility_s=300) for _ in range(10)))
        assert bench.cell.requests["append"] - before <= 700 // 64 + 1

    bench.run(story())


def test_a_receive_gets_past_items_that_hold_nothing_to_deliver(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        await bench.send("held")
        (held,) = await bench.receive(visibility_s=43_200)
        for visibility_s in range(300, 0, -1):
            # Each one shortens it, and leaves a marker.
            await bench.bag.change_visibility(QUEUE, [(bench.handle(held), visibility_s)])
        await bench.bag.change_visibility(QUEUE, [(bench.handle(held), 43_200)])
        bench.clock.advance(301)
        await bench.send("behind")
        assert [d.message.body for d in await bench.receive(bag=other)] == ["behind"]

    bench.run(story())


def test_messages_that_come_back_let_those_pass_that_were_sent_with_them(bench: Bench) -> None:
    async def story() -> None:
        await bench.send(*(str(number) for number in range(40)))
        seen = []
        for _ in range(4):
            seen += [d.message.body for d in await bench.receive(visibility_s=1)]
            bench.clock.advance(1.5)
        assert sorted(seen, key=int) == [str(number) for number in range(40)]

    bench.run(story())


def test_messages_that_come_back_are_before_those_that_were_sent_later(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("early")
        await bench.receive(visibility_s=1)
        bench.clock.advance(2)
        await bench.send("late")
        assert [d.message.body for d in await bench.receive(count=1)] == ["early"]

    bench.run(story())


def test_a_receive_that_lost_its_messages_to_others_goes_on(bench: Bench) -> None:
    async def story() -> None:
        await bench.send(*(str(number) for number in range(60)))
        other = bench.front_end()
        assert len(await bench.receive(1, bag=other)) == 1  # and has read on
        taken = len(await bench.receive()) + len(await bench.receive())
        for _ in range(60 - 1 - taken):
            assert len(await bench.receive(1, bag=other)) == 1
        assert await bench.receive(1, bag=other) == []

    bench.run(story())


def test_what_comes_back_is_offered_before_what_is_newer_but_not_for_ever(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("old")
        for count in (1, 2, 3):
            (delivery,) = await bench.receive(count=1, visibility_s=1)
            assert (delivery.message.body, delivery.receive_count) == ("old", count)
            await bench.send(f"new {count}")
            bench.clock.advance(2)
        # By now it was received three times.
        assert await bench.drain() == ["new 1", "new 2", "new 3", "old"]

    bench.run(story())


def test_its_place_is_known_to_front_ends_that_start_afresh(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        await bench.send("b")
        assert len(await bench.receive(count=2, visibility_s=1)) == 2
        await bench.send("c")
        bench.clock.advance(2)
        assert await bench.drain(bench.front_end()) == ["a", "b", "c"]

    bench.run(story())


def test_what_comes_back_is_offered_without_a_look_for_more(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        await bench.receive(visibility_s=1)
        await bench.send("b")
        bench.clock.advance(2)
        spent, _ = await bench.cost_of(lambda: bench.receive(count=1, visibility_s=1))
        assert spent == {"get_many": 1, "update": 1}

    bench.run(story())
