"""Order within groups, groups blocked while a message of theirs is in flight."""

import asyncio
from dataclasses import replace

import pytest

from data_plane.log.bounds import BLOCK_FULL_MESSAGES
from tests.unit.data_plane.log.conftest import HIGH_THROUGHPUT, Bench, bodies


def test_one_receive_returns_several_messages_of_a_group_in_order(bench: Bench) -> None:
    async def story() -> None:
        sent = await bench.send("a:1", "a:2", "b:3", "a:4")
        deliveries = await bench.receive()
        assert bodies(deliveries) == ["1", "2", "4", "3"]
        sequences = [d.message.sequence for d in deliveries]
        assert sequences == [sent[0].sequence, sent[1].sequence, sent[3].sequence, sent[2].sequence]
        assert [s.sequence for s in sent] == sorted({s.sequence for s in sent})
        assert len(str(sent[0].sequence)) <= 20

    bench.run(story())


def test_a_group_in_flight_is_blocked_for_new_messages_too(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1")
        (first,) = await bench.receive()
        await bench.send("a:2", "b:3")
        assert bodies(await bench.receive()) == ["3"]
        assert await bench.receive() == []
        await bench.delete([first])
        assert bodies(await bench.receive()) == ["2"]

    bench.run(story())


def test_messages_before_the_one_in_flight_come_back(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1", "a:2", "a:3")
        one, two, _ = await bench.receive()
        await bench.log.change_visibility(bench.queue, [(bench.handle(two), 100)])
        bench.clock.advance(31)
        assert bodies(await bench.receive(visibility_s=10)) == ["1"]
        assert await bench.receive() == []
        bench.clock.advance(70)
        again = await bench.receive()
        assert bodies(again) == ["1", "2", "3"]
        assert [d.receive_count for d in again] == [3, 2, 2]
        assert again[0].first_received_ms == one.first_received_ms

    bench.run(story())


def test_messages_are_deleted_out_of_order_within_a_receive(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1", "a:2", "a:3", "a:4")
        one, two, three = await bench.receive(3)
        assert await bench.delete([two]) == []
        assert await bench.delete([two]) == []
        assert await bench.receive() == []
        assert await bench.delete([one, three]) == []
        assert bodies(await bench.receive()) == ["4"]

    bench.run(story())


def test_an_expired_handle_neither_deletes_nor_changes(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1")
        (old,) = await bench.receive()
        bench.clock.advance(31)
        for log in (bench.log, bench.front_end()):
            (refusal,) = await bench.delete([old], log)
            assert refusal == (
                f"Value {old.receipt_handle} for parameter ReceiptHandle is invalid. "
                "Reason: The receipt handle has expired."
            )
        (new,) = await bench.receive()
        assert await bench.delete([old])
        (outcome,) = await bench.log.change_visibility(bench.queue, [(bench.handle(old), 0)])
        assert outcome is not None
        assert await bench.delete([new], bench.front_end()) == []
        assert await bench.receive() == []

    bench.run(story())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_repeated_call_finds_that_the_message_was_given_back(
    bench: Bench, *, elsewhere: bool
) -> None:
    async def story() -> None:
        await bench.send("a:1")
        (delivery,) = await bench.receive()
        changes = [(bench.handle(delivery), 0)]
        assert await bench.log.change_visibility(bench.queue, changes) == [None]
        log = bench.front_end() if elsewhere else bench.log
        assert await log.change_visibility(bench.queue, changes, repeated=True) == [None]
        (refusal,) = await log.change_visibility(bench.queue, changes)
        assert refusal is not None
        assert bodies(await bench.receive()) == ["1"]
        (refusal,) = await log.change_visibility(bench.queue, changes, repeated=True)
        assert refusal is not None, "it is the next receiver's by now"

    bench.run(story())


@pytest.mark.parametrize("own", [True, False])
def test_a_handle_is_good_until_its_lease_ends_to_the_millisecond(
    bench: Bench, *, own: bool
) -> None:
    """At the front end that gave it, and at one that reads the lease."""

    async def story() -> None:
        await bench.send("a:1", "b:2", "c:3", "d:4")
        deleted, changed, late, unchanged = await bench.receive(visibility_s=30)
        log = bench.log if own else bench.front_end()
        bench.clock.advance(29.999)
        assert not await bench.delete([deleted], log)
        assert await log.change_visibility(bench.queue, [(bench.handle(changed), 60)]) == [None]
        bench.clock.advance(0.001)
        (refusal,) = await bench.delete([late], log)
        assert refusal.endswith("The receipt handle has expired.")
        (outcome,) = await log.change_visibility(bench.queue, [(bench.handle(unchanged), 60)])
        assert outcome is not None
        assert outcome.message.endswith("The receipt handle has expired.")
        # Neither has changed anything.
        bench.clock.advance(1)
        assert bodies(await bench.receive(log=bench.front_end())) == ["3", "4"]

    bench.run(story())


def test_two_front_ends_never_hold_one_group_at_once(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        await bench.send("a:1", "a:2", "b:3")
        assert bodies(await bench.receive(1)) == ["1"]
        assert bodies(await bench.receive(log=other)) == ["3"]
        assert await bench.receive(log=other) == []

    bench.run(story())


def test_what_one_front_end_deletes_frees_the_group_for_the_other(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        await bench.send("a:1", "a:2")
        (one,) = await bench.receive(1)
        assert await bench.receive(log=other) == []
        await bench.delete([one])
        bench.clock.advance(1)
        assert bodies(await bench.receive(log=other)) == ["2"]
        assert await bench.receive() == []

    bench.run(story())


def test_what_another_front_end_deletes_frees_the_group_where_there_always_is_another(
    bench: Bench,
) -> None:
    """The others lie in later blocks: claims of theirs do not tell of the group's."""

    async def story() -> list[str]:
        await bench.send("a:1", "a:2", *(f"old{n}:old{n}" for n in range(BLOCK_FULL_MESSAGES)))
        (one,) = await bench.receive(1, visibility_s=3600)
        while deliveries := await bench.receive():
            await bench.delete(deliveries)
        await bench.delete([one], log=bench.front_end())
        found: list[str] = []
        for number in range(10):
            await bench.send(f"new{number}:{number}!")
            bench.clock.advance(1)
            found += bodies(await bench.receive())
        return found

    assert "2" in bench.run(story())


def test_a_delay_of_the_queue_holds_all_its_messages_back(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1")
        bench.queue = replace(bench.queue, delay_s=10)
        await bench.send("a:2")
        assert await bench.receive() == []
        bench.clock.advance(10)
        assert bodies(await bench.receive()) == ["1", "2"]

    bench.run(story())


def test_groups_are_spread_over_partitions_and_keep_their_order(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = replace(bench.queue, generations=HIGH_THROUGHPUT)
        for number in range(4):
            await bench.send(*(f"g{group}:{group}.{number}" for group in range(10)))
        used = {item.key.partition for item in bench.cell.items() if item.key.partition[0] == "G"}
        assert len(used) > 2
        found = await bench.drain(bench.front_end())
        assert len(found) == 40
        for group in range(10):
            mine = [body for body in found if body.startswith(f"{group}.")]
            assert mine == sorted(mine)

    bench.run(story())


def test_a_waiting_receive_is_woken_by_a_send_and_by_a_delete(bench: Bench) -> None:
    async def story() -> None:
        later_us = bench.clock.now_us() + 20_000_000
        waiting = asyncio.create_task(bench.receive(until_us=later_us))
        await asyncio.sleep(0)  # lets it begin to wait
        await bench.send("a:1", "a:2")
        (one, two) = await waiting
        waiting = asyncio.create_task(bench.receive(until_us=later_us))
        await bench.send("a:3")
        await bench.delete([one, two])
        assert bodies(await waiting) == ["3"]

    bench.run(story())


def test_expired_messages_are_passed_over(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = replace(bench.queue, retention_s=60)
        await bench.send("a:1")
        await bench.receive(visibility_s=43_200)
        bench.clock.advance(59)
        await bench.send("a:2")
        assert await bench.receive() == []
        bench.clock.advance(2)
        assert bodies(await bench.receive()) == ["2"]

    bench.run(story())


def test_a_purge_takes_what_was_sent_before(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1", "b:2")
        await bench.receive(1)
        stamp_us = await bench.log.purge(bench.queue)
        bench.queue = replace(bench.queue, purged_us=stamp_us)
        await bench.send("a:3")
        assert bodies(await bench.receive()) == ["3"]
        assert await bench.receive(log=bench.front_end()) == []

    bench.run(story())


def test_counts(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1", "a:2", "b:3")
        await bench.receive(1)
        counts = await bench.log.counts(bench.queue)
        assert (counts.visible, counts.in_flight, counts.delayed) == (2, 1, 0)

    bench.run(story())
