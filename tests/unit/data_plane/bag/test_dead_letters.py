"""Moves to a dead-letter queue: when, what is kept, and once, whatever is cut off."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from data_plane.bag import moving
from data_plane.core.errors import INVALID_PARAMETER_VALUE
from data_plane.core.message import MessageAttribute, Outgoing, SendCall
from data_plane.core.queue import RedrivePolicy
from data_plane.core.receipt_handle import ReceiptHandle, decode
from data_plane.ports import Append, CellUnavailableError, Key
from data_plane.stored import keys
from data_plane.stored.bounds import MOVE_LEASE_MS
from data_plane.stored.segment import number, octets
from tests.unit.data_plane.bag.pipe import DEAD, ORDERS, Pipe

MOVE_S = MOVE_LEASE_MS / 1000 + 0.3
"""By then a move that was cut off is gone on with, by any front end."""


@pytest.fixture
def pipe() -> Pipe:
    return Pipe()


def test_a_message_is_delivered_as_often_as_allowed_and_then_moved(pipe: Pipe) -> None:
    async def story() -> None:
        ids = await pipe.send("poison")
        for count in (1, 2):
            (delivery,) = await pipe.receive(visibility_s=0)
            assert delivery.receive_count == count
        assert await pipe.receive_dead() == []
        assert await pipe.receive() == []
        (dead,) = await pipe.receive_dead()
        assert [dead.message.id] == ids
        assert dead.message.body == "poison"
        assert await pipe.receive() == []

    pipe.run(story())


def test_what_a_dead_letter_keeps(pipe: Pipe) -> None:
    message = Outgoing(
        body="é",
        attributes=(("n", MessageAttribute("Number", b"1")),),
        trace_header="Root=1",
        group="tenant",
        size=99,
    )

    async def story() -> None:
        await pipe.bag.send(ORDERS, SendCall("444455556666", [message]))
        first, second = [(await pipe.receive(visibility_s=0))[0] for _ in range(2)]
        pipe.clock.advance(60)
        assert await pipe.receive() == []
        (dead,) = await pipe.receive_dead()
        assert dead.message == msgspec.structs.replace(
            second.message,
            dead_letter_source=ORDERS.arn,
            received=2,
            first_received_ms=first.first_received_ms,
        )
        assert dead.receive_count == 3
        assert dead.first_received_ms == first.first_received_ms

    pipe.run(story())


def test_others_are_delivered_beside_and_behind_dead_letters(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison(*(f"p{i}" for i in range(10)))
        await pipe.send("a", "b")
        assert [d.message.body for d in await pipe.receive(count=3)] == ["a", "b"]
        assert len(await pipe.receive_dead()) == 10

    pipe.run(story())


def test_a_long_poll_on_the_dead_letter_queue_wakes_up(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("p")
        waiting = asyncio.ensure_future(
            pipe.bag.receive(
                DEAD, count=1, visibility_s=30, until_us=pipe.clock.now_us() + 20_000_000
            )
        )
        await asyncio.sleep(0)
        assert await pipe.receive() == []
        assert len(await waiting) == 1

    pipe.run(story())


def test_a_dead_letter_expires_by_the_time_it_was_first_sent(pipe: Pipe) -> None:
    pipe.dead = replace(DEAD, retention_s=100)
    pipe.queues.by_name["dead"] = pipe.dead

    async def story() -> None:
        await pipe.send("p")
        pipe.clock.advance(60)
        for _ in range(2):
            await pipe.receive(visibility_s=0)
        assert await pipe.receive() == []
        assert (await pipe.bag.counts(pipe.dead)).visible == 1
        pipe.clock.advance(39)
        assert len(await pipe.receive_dead(visibility_s=0)) == 1
        pipe.clock.advance(2)
        assert await pipe.receive_dead() == []
        assert await pipe.receive_dead(bag=pipe.front_end()) == []

    pipe.run(story())


def test_a_raised_retention_holds_for_dead_letters(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.bury("p")
        (before_s,) = [number(item.attributes, "x") for item in pipe.copies()]
        await pipe.bag.restamp(replace(DEAD, retention_s=2 * DEAD.retention_s))
        (after_s,) = [number(item.attributes, "x") for item in pipe.copies()]
        assert after_s >= pipe.clock.now_us() // 1_000_000 + 2 * DEAD.retention_s
        assert after_s > before_s

    pipe.run(story())


def test_a_purge_before_the_move_does_not_take_an_older_message(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("p")
        pipe.clock.advance(1)
        pipe.dead = replace(DEAD, purged_us=await pipe.bag.purge(DEAD))
        pipe.queues.by_name["dead"] = pipe.dead
        pipe.clock.advance(1)
        assert await pipe.receive() == []
        assert (await pipe.bag.counts(pipe.dead)).visible == 1
        (dead,) = await pipe.receive_dead()
        await pipe.bag.delete(pipe.dead, [_handle(pipe, dead.receipt_handle)])
        counts = await pipe.bag.counts(pipe.dead)
        assert (counts.visible, counts.in_flight) == (0, 0)

    pipe.run(story())


def test_a_purge_after_the_move_takes_it(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.bury("p")
        pipe.clock.advance(1)
        pipe.dead = replace(DEAD, purged_us=await pipe.bag.purge(DEAD))
        assert await pipe.receive_dead() == []
        assert await pipe.receive_dead(bag=pipe.front_end()) == []

    pipe.run(story())


def test_counts_follow_the_move(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.bury("p", "q")
        counts = await pipe.bag.counts(ORDERS)
        assert (counts.visible, counts.in_flight, counts.oldest_sent_ms) == (0, 0, 0)
        assert (await pipe.bag.counts(DEAD)).visible == 2
        deliveries = await pipe.receive_dead()
        counts = await pipe.bag.counts(DEAD)
        assert (counts.visible, counts.in_flight) == (0, 2)
        for delivery in deliveries:
            await pipe.bag.delete(DEAD, [_handle(pipe, delivery.receipt_handle)])
        counts = await pipe.bag.counts(DEAD)
        assert (counts.visible, counts.in_flight) == (0, 0)

    pipe.run(story())


@pytest.mark.parametrize("gone", ["never there", "deleted", "of the other type"])
def test_without_a_dead_letter_queue_messages_are_delivered_on(pipe: Pipe, gone: str) -> None:
    async def story() -> None:
        await pipe.poison("p")
        if gone == "of the other type":
            pipe.queues.by_name["dead"] = replace(DEAD, fifo=True)
        else:
            del pipe.queues.by_name["dead"]
        if gone == "deleted":
            pipe.bag.dropped(DEAD)
        (delivery,) = await pipe.receive()
        assert delivery.receive_count == 3

    pipe.run(story())


def test_a_queue_that_is_its_own_dead_letter_queue_delivers_on(pipe: Pipe) -> None:
    pipe.queue = replace(ORDERS, redrive=replace(_policy(), dead_letter_queue=ORDERS.name))

    async def story() -> None:
        ids = await pipe.send("p", "q")
        for count in range(1, 6):
            deliveries = await pipe.receive(visibility_s=0)
            assert sorted(d.message.id for d in deliveries) == sorted(ids)
            assert {d.receive_count for d in deliveries} == {count}
            assert {d.message.dead_letter_source for d in deliveries} == {""}
        appended = [item for item in pipe.cell.items() if item.attributes.get("k") == "s"]
        assert len(appended) == 1
        counts = await pipe.bag.counts(pipe.queue)
        assert (counts.visible, counts.in_flight) == (2, 0)
        assert len(await pipe.drain()) == 2

    pipe.run(story())


def test_the_policy_of_now_decides(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("p")
        pipe.queue = replace(ORDERS, redrive=replace(_policy(), receive_count_max=4))
        assert [d.receive_count for d in await pipe.receive(visibility_s=0)] == [3]
        pipe.queue = replace(ORDERS, redrive=None)
        assert [d.receive_count for d in await pipe.receive(visibility_s=0)] == [4]
        assert [d.receive_count for d in await pipe.receive(visibility_s=0)] == [5]
        pipe.queue = ORDERS
        assert await pipe.receive() == []
        assert [d.receive_count for d in await pipe.receive_dead()] == [6]

    pipe.run(story())


def test_a_dead_letter_queue_counts_its_own_receives(pipe: Pipe) -> None:
    deeper = replace(DEAD, name="deeper", uid="eeee112233445566")
    policy = RedrivePolicy(DEAD.account, DEAD.region, "deeper", 1)
    pipe.dead = replace(DEAD, redrive=policy)
    pipe.queues.by_name |= {"deeper": deeper, "dead": pipe.dead}

    async def story() -> None:
        ((first),) = await pipe.bury("p")
        assert first.receive_count == 3
        assert await pipe.receive_dead() == []
        (dead,) = await pipe.bag.receive(deeper, count=1, visibility_s=30, until_us=0)
        assert (dead.receive_count, dead.message.dead_letter_source) == (4, DEAD.arn)
        assert dead.message.sent_ms == first.message.sent_ms

    pipe.run(story())


@pytest.mark.parametrize("write", ["lease", "append", "delete"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("policy", ["kept", "removed"])
def test_a_move_that_is_cut_off_is_finished_once(
    pipe: Pipe, write: str, policy: str, *, after: bool, elsewhere: bool
) -> None:
    """Stopped before or after any of its writes, then gone on with here or by a new front end."""

    async def story() -> None:
        await pipe.poison("p")
        stopping = pipe.dead_cell if write == "append" else pipe.cell
        stopping.stops, stopping.after = (lambda made: made == write), after
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        stopping.stops = lambda _made: False
        bag = pipe.front_end() if elsewhere else pipe.bag
        if policy == "removed":
            pipe.queue = replace(ORDERS, redrive=None)
        begun = (write, after) != ("lease", False)
        if begun:
            assert await pipe.receive(bag=bag) == []
        pipe.clock.advance(MOVE_S)
        delivered = await pipe.receive(bag=bag)
        dead = await pipe.receive_dead(bag=bag)
        if policy == "removed" and not begun:
            assert (len(delivered), len(dead)) == (1, 0)
            return
        assert (len(delivered), len(dead)) == (0, 1)
        assert await pipe.receive_dead(bag=bag) == []
        await pipe.bag.delete(DEAD, [_handle(pipe, dead[0].receipt_handle)])
        pipe.clock.advance(60)
        for one in (bag, pipe.front_end()):
            assert await pipe.receive_dead(bag=one) == []
            assert await pipe.receive(bag=one) == []

    pipe.run(story())


def test_copies_of_one_move_are_one_message(pipe: Pipe) -> None:
    """A copy that comes late, after the first was deleted and collected, is deleted, too."""

    async def story() -> None:
        await pipe.poison("p")
        pipe.cell.stops = lambda made: made == "delete"
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        (dead,) = await pipe.receive_dead()
        pipe.cell.stops = lambda _made: False
        await pipe.bag.delete(DEAD, [_handle(pipe, dead.receipt_handle)])
        pipe.clock.advance(30)
        await pipe.bag.sweep()
        assert pipe.copies() == []
        assert await pipe.receive() == []
        assert len(pipe.copies()) == 1
        for bag in (pipe.bag, pipe.front_end()):
            assert await pipe.receive_dead(bag=bag) == []
        state = await pipe.dead_cell.get(
            Key(keys.states(DEAD.uid, 0, 0), octets(pipe.copies()[0].attributes, "b"))
        )
        assert state is not None

    pipe.run(story())


def test_a_move_that_is_gone_on_with_finds_its_copy(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("p")
        pipe.cell.stops = lambda made: made == "delete"
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        pipe.cell.stops = lambda _made: False
        await pipe.bag.send(
            DEAD, SendCall(DEAD.account, [Outgoing(body=f"m{i}") for i in range(3)])
        )
        pipe.clock.advance(MOVE_S)
        assert await pipe.receive(bag=pipe.front_end()) == []
        assert len(pipe.copies()) == 2
        counts = await pipe.bag.counts(DEAD)
        assert (counts.visible, counts.in_flight) == (4, 0)

    pipe.run(story())


def test_a_copy_that_came_late_is_read_by_those_who_had_passed_it(pipe: Pipe) -> None:
    """Its writer gave up, and stopped; then readers passed the copy's place, then it arrived."""
    pipe.take_proposed_stamps()
    late: list[Append] = []

    def hold(record: Append) -> None:
        late.append(record)
        raise CellUnavailableError("no answer in time")

    async def story() -> None:
        await pipe.poison("p")
        pipe.dead_cell.meets = hold
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        pipe.dead_cell.meets = lambda _record: None
        reader, mover = pipe.front_end(), pipe.front_end()
        pipe.clock.advance(MOVE_S)
        await pipe.bag.send(DEAD, SendCall(DEAD.account, [Outgoing(body="sent later")]))
        (later,) = await pipe.receive_dead(bag=reader)
        assert later.message.body == "sent later"
        pipe.clock.advance(60)
        await reader.sweep()
        await pipe.dead_cell.append(late.pop())
        assert await pipe.receive(bag=mover) == []
        for _ in range(2):
            bodies = [d.message.body for d in await pipe.receive_dead(bag=reader, visibility_s=0)]
            assert "p" in bodies

    pipe.run(story())


def test_two_copies_are_delivered_once_at_a_time(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "COPY_LOOKBACK_SEGMENTS_MAX", 0)

    async def story() -> None:
        await pipe.poison("p")
        pipe.cell.stops = lambda made: made == "delete"
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        pipe.cell.stops = lambda _made: False
        pipe.clock.advance(MOVE_S)
        assert await pipe.receive() == []
        assert len(pipe.copies()) == 2
        other = pipe.front_end()
        assert len(await pipe.receive_dead()) == 1
        assert await pipe.receive_dead(bag=other) == []
        pipe.clock.advance(30.3)
        (again,) = await pipe.receive_dead(bag=other)
        assert again.receive_count == 4
        assert await pipe.receive_dead() == []

    pipe.run(story())


def test_a_move_goes_on_to_the_queue_it_began_with(pipe: Pipe) -> None:
    other = replace(DEAD, name="other", uid="eeee112233445566")
    pipe.queues.by_name["other"] = other

    async def story() -> None:
        await pipe.poison("p")
        pipe.dead_cell.stops, pipe.dead_cell.after = (lambda _made: True), True
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        pipe.dead_cell.stops = lambda _made: False
        pipe.queue = replace(ORDERS, redrive=replace(_policy(), dead_letter_queue="other"))
        pipe.clock.advance(MOVE_S)
        assert await pipe.receive() == []
        assert len(await pipe.receive_dead()) == 1
        assert await pipe.bag.receive(other, count=1, visibility_s=1, until_us=0) == []

    pipe.run(story())


@pytest.mark.parametrize("again", ["deleted", "created anew"])
def test_a_move_to_a_queue_that_was_deleted_is_given_up(pipe: Pipe, again: str) -> None:
    async def story() -> None:
        await pipe.poison("p")
        pipe.dead_cell.stops = lambda _made: True
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        pipe.dead_cell.stops = lambda _made: False
        pipe.bag.dropped(DEAD)
        del pipe.queues.by_name["dead"]
        pipe.clock.advance(MOVE_S)
        if again == "deleted":
            (delivery,) = await pipe.receive(visibility_s=0)
            assert delivery.receive_count == 3
        pipe.dead = replace(DEAD, uid="eeee112233445566")
        pipe.queues.by_name["dead"] = pipe.dead
        assert await pipe.receive() == []
        assert len(await pipe.receive_dead()) == 1

    pipe.run(story())


def test_a_handle_of_before_cannot_change_a_moving_message(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.send("p")
        await pipe.receive(visibility_s=0)
        (delivery,) = await pipe.receive(visibility_s=0)
        pipe.dead_cell.stops = lambda _made: True
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        handle = pipe.handle(delivery)
        (refusal,) = await pipe.bag.change_visibility(ORDERS, [(handle, 600)])
        assert refusal is not None
        assert refusal.fault is INVALID_PARAMETER_VALUE

    pipe.run(story())


def test_a_delete_before_the_move_prevents_it(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.send("p")
        await pipe.receive(visibility_s=0)
        (delivery,) = await pipe.receive(visibility_s=0)
        other = pipe.front_end()
        await pipe.delete([delivery], bag=other)
        assert await pipe.receive() == []
        assert pipe.copies() == []

    pipe.run(story())


def test_what_is_delivered_is_not_lost_with_a_failing_move(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("p")
        await pipe.send("a")
        pipe.dead_cell.stops = lambda _made: True
        assert [d.message.body for d in await pipe.receive()] == ["a"]

    pipe.run(story())


def test_without_the_registry_nothing_is_lost(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("p")
        pipe.queues.answering = False
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        pipe.queues.answering = True
        assert await pipe.receive() == []
        assert len(await pipe.receive_dead()) == 1

    pipe.run(story())


def test_what_a_move_costs(pipe: Pipe) -> None:
    """Ten dead letters of one block: a lease, ten copies side by side, a delete."""

    async def story() -> None:
        await pipe.poison(*"abcdefghij")
        dead = pipe.dead_cell.requests.copy()
        requests, _ = await pipe.cost_of(pipe.receive)
        assert {name: n for name, n in requests.items() if name != "query"} == {"update": 2}
        assert dict(pipe.dead_cell.requests - dead) == {"append": 10}

    pipe.run(story())


def _policy() -> RedrivePolicy:
    assert ORDERS.redrive is not None
    return ORDERS.redrive


def _handle(pipe: Pipe, text: str) -> ReceiptHandle:
    return decode(text, pipe.dead)
