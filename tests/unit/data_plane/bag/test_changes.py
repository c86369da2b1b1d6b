"""Deletes, changes of visibility, purges, counts, repeated calls."""

import asyncio
from dataclasses import replace

import pytest

from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    RECEIPT_HANDLE_IS_INVALID,
    RefusedError,
)
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.receipt_handle import decode
from data_plane.stored import keys
from data_plane.stored.segment import number
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

CALL = bytes(range(16))


def _faults(outcomes: list[RefusedError | None]) -> list[object]:
    return [None if outcome is None else outcome.fault for outcome in outcomes]


def test_visibility_set_to_zero_makes_a_message_visible_to_every_front_end(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        await bench.send("a")
        (delivery,) = await bench.receive(visibility_s=43_200)
        assert await bench.receive(bag=other) == []
        outcome = await bench.bag.change_visibility(QUEUE, [(bench.handle(delivery), 0)])
        assert outcome == [None]
        (again,) = await bench.receive(bag=other)
        assert again.receive_count == 2

    bench.run(story())


def test_visibility_can_be_extended(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        (delivery,) = await bench.receive()
        await bench.bag.change_visibility(QUEUE, [(bench.handle(delivery), 100)])
        bench.clock.advance(99)
        assert await bench.receive() == []
        bench.clock.advance(2)
        assert len(await bench.receive()) == 1

    bench.run(story())


def test_refused_changes_of_visibility(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("deleted", "ended", "too long")
        deliveries = await bench.receive(visibility_s=30)
        deleted, ended, too_long = (bench.handle(d) for d in deliveries)
        await bench.bag.delete(QUEUE, [deleted])
        bench.clock.advance(5)
        await bench.bag.change_visibility(QUEUE, [(ended, 1)])
        bench.clock.advance(2)
        outcomes = await bench.bag.change_visibility(
            QUEUE, [(deleted, 10), (ended, 10), (too_long, 43_200), (too_long, 43_200)]
        )
        assert _faults(outcomes) == [
            INVALID_PARAMETER_VALUE,
            None,
            INVALID_PARAMETER_VALUE,
            INVALID_PARAMETER_VALUE,
        ]
        assert "beyond the limit [43200 seconds]" in str(outcomes[2])
        # What was refused, or came after the visibility had ended, changed nothing.
        bench.clock.advance(24)
        assert sorted([d.message.body for d in await bench.receive()]) == ["ended", "too long"]

    bench.run(story())


def test_visibility_can_be_changed_until_it_ends_to_the_millisecond(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("in time", "late")
        in_time, late = await bench.receive(visibility_s=30)
        bench.clock.advance(29.999)
        outcome = await bench.bag.change_visibility(QUEUE, [(bench.handle(in_time), 60)])
        assert outcome == [None]
        bench.clock.advance(0.001)
        # It has ended: that succeeds, and leaves the message visible.
        assert await bench.bag.change_visibility(QUEUE, [(bench.handle(late), 60)]) == [None]
        assert [d.message.body for d in await bench.receive()] == ["late"]

    bench.run(story())


def test_an_old_handle_changes_the_lease_that_is_in_force(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        (old,) = await bench.receive()
        bench.clock.advance(31)
        await bench.receive()
        assert await bench.bag.change_visibility(QUEUE, [(bench.handle(old), 0)]) == [None]
        assert len(await bench.receive()) == 1

    bench.run(story())


@pytest.mark.parametrize("text", ["", "garbage", "A" * 68, "A" * 72, "é" * 72, "A" * 71])
def test_garbage_is_no_receipt_handle(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        decode(text, QUEUE)
    assert refused.value.fault == RECEIPT_HANDLE_IS_INVALID
    assert str(refused.value) == (
        f'The input receipt handle "{text}" is not a valid receipt handle.'
    )


def test_a_handle_does_not_work_on_another_queue(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a")
        (delivery,) = await bench.receive()
        with pytest.raises(RefusedError):
            decode(delivery.receipt_handle, replace(QUEUE, uid="ffffffffffffffff"))
        for place in range(68):
            letter = "B" if delivery.receipt_handle[place] != "B" else "C"
            changed = (
                delivery.receipt_handle[:place] + letter + delivery.receipt_handle[place + 1 :]
            )
            with pytest.raises(RefusedError):
                decode(changed, QUEUE)

    bench.run(story())


def test_a_purge_takes_what_was_sent_before_and_nothing_else(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("waiting", "in flight")
        await bench.send("delayed", delay_s=5)
        (held,) = await bench.receive(count=1)
        stamp_us = await bench.bag.purge(QUEUE)
        await bench.send("after")
        bench.queue = replace(QUEUE, purged_us=stamp_us)
        assert await bench.drain() == ["after"]
        bench.clock.advance(31)
        assert await bench.drain() == []
        assert await bench.drain(bag=bench.front_end()) == []
        await bench.delete([held])
        counts = await bench.bag.counts(bench.queue)
        assert (counts.visible, counts.in_flight, counts.delayed) == (0, 0, 0)

    bench.run(story())


def test_counts_follow_a_message_through_its_life(bench: Bench) -> None:
    async def story() -> None:
        async def seen() -> tuple[int, int, int]:
            counts = await bench.bag.counts(QUEUE)
            return counts.visible, counts.in_flight, counts.delayed

        await bench.send("a", "b", "c")
        await bench.send("d", delay_s=60)
        assert await seen() == (3, 0, 1)
        deliveries = await bench.receive(count=2)
        assert await seen() == (1, 2, 1)
        await bench.delete(deliveries[:1])
        await bench.delete(deliveries[:1])
        assert await seen() == (1, 1, 1)
        await bench.bag.change_visibility(QUEUE, [(bench.handle(deliveries[1]), 0)])
        assert await seen() == (2, 0, 1)
        bench.clock.advance(61)
        assert await seen() == (3, 0, 0)
        await bench.bag.drop_past_counters(QUEUE)
        assert await seen() == (3, 0, 0)
        assert sorted(await bench.drain(bag=bench.front_end())) == ["b", "c", "d"]
        assert await seen() == (0, 0, 0)

    bench.run(story())


def test_a_repeated_call_is_answered_with_the_ids_of_then(bench: Bench) -> None:
    async def story() -> None:
        ids = await bench.send("a", "b", call=CALL)
        assert await bench.send("a", "b", call=CALL, repeated=True) == ids
        restarted = bench.front_end()
        assert await bench.send("a", "b", bag=restarted, call=CALL, repeated=True) == ids
        assert await bench.drain() == ["a", "b"]
        # Also when it was consumed meanwhile.
        assert await bench.send("a", "b", bag=restarted, call=CALL, repeated=True) == ids
        assert await bench.drain() == []

    bench.run(story())


def test_a_repeated_call_that_never_arrived_is_stored(bench: Bench) -> None:
    async def story() -> None:
        for i in range(300):
            await bench.send(f"m{i}", call=i.to_bytes(16, "big"))
        await bench.send("a", call=CALL, repeated=True, bag=bench.front_end())
        assert (await bench.drain())[-1] == "a"

    bench.run(story())


def test_an_attempt_beside_the_first_one_waits_for_it(bench: Bench) -> None:
    async def story() -> None:
        first, second = await asyncio.gather(
            bench.send("a", call=CALL), bench.send("a", call=CALL, repeated=True)
        )
        assert first == second
        assert await bench.drain() == ["a"]

    bench.run(story())


def test_a_batch_with_several_delays_is_repeated_as_a_whole(bench: Bench) -> None:
    async def story() -> None:
        messages = [Outgoing(body=str(delay), delay_s=delay, size=1) for delay in (0, 5, 0, 9)]
        ids = await bench.bag.send(QUEUE, SendCall("1", messages, name=CALL))
        assert len(set(ids)) == 4
        again = await bench.front_end().send(
            QUEUE, SendCall("1", messages, name=CALL, repeated=True)
        )
        assert again == ids
        bench.clock.advance(10)
        assert sorted(await bench.drain()) == ["0", "0", "5", "9"]

    bench.run(story())


def test_message_ids_are_version_4_uuids(bench: Bench) -> None:
    async def story() -> None:
        (message_id,) = await bench.send("a")
        assert message_id[6] >> 4 == 4
        assert message_id[8] >> 6 == 2

    bench.run(story())


def test_a_raised_retention_keeps_what_is_stored(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = replace(QUEUE, retention_s=60)
        await bench.send("kept", "deleted")
        await bench.delete((await bench.receive())[1:])
        raised = replace(QUEUE, retention_s=1_209_600)
        await bench.bag.restamp(raised)
        now_s = bench.clock.now_us() // 1_000_000
        for partition in (keys.segments(QUEUE.uid, 0, 0), keys.states(QUEUE.uid, 0, 0)):
            for item in await bench.cell.query(partition, limit=10):
                assert int(item.attributes["x"]) > now_s + raised.retention_s  # type: ignore[arg-type]

    bench.run(story())


def test_a_state_that_is_written_by_the_old_retention_outlives_the_messages(bench: Bench) -> None:
    async def story() -> None:
        old = replace(QUEUE, retention_s=60)
        await bench.send("kept", "deleted")
        await bench.bag.restamp(replace(QUEUE, retention_s=1_209_600))
        bench.queue = old  # As another front end has it for some seconds more.
        await bench.delete((await bench.receive())[1:])
        (segment,) = await bench.cell.query(keys.segments(QUEUE.uid, 0, 0), limit=10)
        (state,) = await bench.cell.query(keys.states(QUEUE.uid, 0, 0), limit=10)
        assert number(state.attributes, "x") > number(segment.attributes, "x")

    bench.run(story())
