"""Queues that promise more than at least once: only the latest receiver may delete a message."""

from dataclasses import replace

import pytest

from data_plane.bag.bounds import BLOCK_FULL_MESSAGES
from data_plane.core.errors import MESSAGE_NOT_INFLIGHT
from data_plane.core.queue import AT_MOST_ONCE, EXACTLY_ONCE
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import Attributes, Key
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.bag.standing_still import collect_before_next_update

FENCED = replace(QUEUE, attributes={"TidegateDeliveryGuarantee": EXACTLY_ONCE})


@pytest.fixture
def bench() -> Bench:
    return Bench(queue=FENCED)


async def receive_one(bench: Bench, visibility_s: int = 30) -> ReceiptHandle:
    (delivery,) = await bench.receive(visibility_s=visibility_s)
    return bench.handle(delivery)


async def delete(bench: Bench, *handles: ReceiptHandle) -> list[str]:
    outcomes = await bench.bag.delete(bench.queue, handles)
    return ["" if outcome is None else outcome.message for outcome in outcomes]


def expired(handle: ReceiptHandle) -> str:
    return (
        f"Value {handle.text} for parameter ReceiptHandle is invalid. "
        "Reason: The receipt handle has expired."
    )


async def counts(bench: Bench) -> tuple[int, int]:
    found = await bench.bag.counts(bench.queue)
    return found.visible, found.in_flight


def test_the_latest_receiver_alone_may_delete(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("work")
        old = await receive_one(bench)
        bench.clock.advance(31)
        new = await receive_one(bench)
        assert await delete(bench, old, new, old) == [expired(old), "", expired(old)]
        assert await counts(bench) == (0, 0)
        bench.clock.advance(31)
        assert await bench.receive() == []

    bench.run(story())


def test_a_lease_that_has_ended_serves_while_nobody_has_taken_the_message(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("work")
        handle = await receive_one(bench)
        bench.clock.advance(3_000)
        assert await delete(bench, handle) == [""]
        assert await bench.receive() == []

    bench.run(story())


def test_the_same_handle_may_delete_again(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("one", "two")
        first, second = [bench.handle(delivery) for delivery in await bench.receive()]
        for _ in range(2):
            assert await delete(bench, first) == [""]
            assert await counts(bench) == (0, 1)
        assert await delete(bench, second, first) == ["", ""]
        assert await counts(bench) == (0, 0)

    bench.run(story())


def test_another_front_end_sees_the_fence(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        await bench.send("work")
        old = await receive_one(bench)
        bench.clock.advance(31)
        (delivery,) = await bench.receive(bag=other)
        assert await delete(bench, old) == [expired(old)]
        assert await other.delete(bench.queue, [bench.handle(delivery)]) == [None]
        assert await delete(bench, old) == [expired(old)]
        assert await bench.receive() == []

    bench.run(story())


def test_visibility_is_changed_by_the_latest_receiver_alone(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("work")
        old = await receive_one(bench)
        bench.clock.advance(31)
        new = await receive_one(bench)
        (refusal,) = await bench.bag.change_visibility(bench.queue, [(old, 0)])
        assert refusal is not None
        assert refusal.message == expired(old)
        assert await bench.bag.change_visibility(bench.queue, [(new, 100)]) == [None]
        bench.clock.advance(50)
        assert await bench.receive() == []

    bench.run(story())


@pytest.mark.parametrize("order", [1, -1], ids=["the old one first", "the new one first"])
def test_a_batch_may_have_the_handles_of_two_receives(bench: Bench, order: int) -> None:
    """As that of a heartbeat, while the work of the receive before still goes on."""

    async def story() -> None:
        await bench.send("work")
        old = await receive_one(bench)
        bench.clock.advance(31)
        new = await receive_one(bench)
        changes = [(old, 60), (new, 60)][::order]
        outcomes = (await bench.bag.change_visibility(bench.queue, changes))[::order]
        assert [one and one.message for one in outcomes] == [expired(old), None]
        bench.clock.advance(31)
        assert await bench.receive() == []

    bench.run(story())


def test_visibility_is_changed_while_the_message_is_in_flight_to_the_millisecond(
    bench: Bench,
) -> None:
    async def story() -> None:
        await bench.send("in time", "late")
        in_time, late = [bench.handle(delivery) for delivery in await bench.receive()]
        bench.clock.advance(29.999)
        assert await bench.bag.change_visibility(bench.queue, [(in_time, 60)]) == [None]
        bench.clock.advance(0.001)
        (refusal,) = await bench.bag.change_visibility(bench.queue, [(late, 60)])
        assert refusal is not None
        assert refusal.fault == MESSAGE_NOT_INFLIGHT
        assert [d.message.body for d in await bench.receive()] == ["late"]

    bench.run(story())


def test_a_repeated_call_finds_that_the_message_was_given_back(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("work")
        changes = [(await receive_one(bench), 0)]
        assert await bench.bag.change_visibility(bench.queue, changes) == [None]
        repeated = await bench.bag.change_visibility(bench.queue, changes, repeated=True)
        assert repeated == [None]
        (refusal,) = await bench.bag.change_visibility(bench.queue, changes)
        assert refusal is not None
        assert await bench.receive()
        (refusal,) = await bench.bag.change_visibility(bench.queue, changes, repeated=True)
        assert refusal is not None, "it is the next receiver's by now"

    bench.run(story())


def test_a_deleted_message_has_no_visibility_to_change(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("work")
        handle = await receive_one(bench)
        await delete(bench, handle)
        (refusal,) = await bench.bag.change_visibility(bench.queue, [(handle, 60)])
        assert refusal is not None
        assert "Message does not exist" in refusal.message

    bench.run(story())


def test_a_receive_between_a_deletes_read_and_write_wins(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await bench.send("work")
        old = await receive_one(bench)
        bench.clock.advance(31)
        read = bench.cell.get

        async def read_before_a_receive(key: Key, *, strong: bool = True) -> Attributes | None:
            monkeypatch.undo()
            state = await read(key, strong=strong)
            await receive_one(bench)
            return state

        monkeypatch.setattr(bench.cell, "get", read_before_a_receive)
        assert await delete(bench, old) == [expired(old)]
        bench.clock.advance(31)
        assert len(await bench.receive()) == 1

    bench.run(story())


def test_what_was_deleted_is_collected(bench: Bench) -> None:
    async def story() -> None:
        for _ in range(7):
            await bench.send(*"abcdefghij")
        await bench.drain()
        bench.clock.advance(60)
        for _ in range(3):
            await bench.bag.sweep()
        for partition in ("S", "B"):
            assert await bench.cell.query(f"{partition}|{FENCED.uid}|00|0", limit=1) == []

    bench.run(story())


def test_a_delete_is_one_read_and_one_write_for_each_block(bench: Bench) -> None:
    async def story() -> None:
        await bench.send(*"abcdefghij")
        handles = [bench.handle(delivery) for delivery in await bench.receive()]
        requests, _ = await bench.cost_of(lambda: delete(bench, *handles))
        assert requests == {"get": 1, "update": 1}

    bench.run(story())


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_MOST_ONCE])
def test_a_lease_that_comes_when_all_is_deleted_and_collected_delivers_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    """Where there is no state of the block any more nobody tells that it had one."""
    bench.queue = replace(QUEUE, attributes={"TidegateDeliveryGuarantee": guarantee})
    late = bench.front_end()

    async def story() -> None:
        await bench.send(*("work" for _ in range(BLOCK_FULL_MESSAGES)))
        collect_before_next_update(bench, monkeypatch)
        assert await bench.receive(bag=late) == []
        bench.clock.advance(31)
        assert await bench.receive(bag=late) == []

    bench.run(story())
