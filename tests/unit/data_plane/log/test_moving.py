"""Moves between FIFO queues: in order, once, whatever is cut off; groups go on behind them."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from data_plane.core.errors import RefusedError, queue_does_not_exist
from data_plane.core.identifiers import uuid_text
from data_plane.core.message import Delivery, Message, Outgoing, SendCall
from data_plane.core.queue import Generation, Queue, RedrivePolicy
from data_plane.core.receipt_handle import decode
from data_plane.log import appending, attempts, moving, reader
from data_plane.ports import CellUnavailableError
from data_plane.stored.bounds import MOVE_LEASE_MS
from tests.unit.data_plane.log.pipe import DEAD, ORDERS, Pipe, bodies

MOVE_S = MOVE_LEASE_MS / 1000 + 0.3
HOUR_S = 3600


@pytest.fixture
def pipe() -> Pipe:
    return Pipe()


def test_a_message_is_delivered_as_often_as_allowed_and_then_moved(pipe: Pipe) -> None:
    async def story() -> None:
        (sent,) = await pipe.send("g:poison")
        for count in (1, 2):
            (delivery,) = await pipe.receive(visibility_s=0)
            assert delivery.receive_count == count
        pipe.clock.advance(100)
        assert await pipe.receive() == []
        (dead,) = await pipe.receive_dead()
        assert dead.message == msgspec.structs.replace(
            delivery.message,
            sent_ms=pipe.clock.now_us() // 1000,
            sequence=dead.message.sequence,
            deduplication_id=uuid_text(sent.id),
            dead_letter_source=ORDERS.arn,
            received=2,
            first_received_ms=delivery.first_received_ms,
        )
        assert dead.message.id == sent.id
        assert dead.receive_count == 3
        assert dead.first_received_ms == delivery.first_received_ms
        assert await pipe.receive() == []

    pipe.run(story())


def test_a_group_goes_on_behind_its_dead_letter(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.send("g:poison", "g:second", "g:third")
        for _ in range(2):
            (first, *_) = await pipe.receive(count=1, visibility_s=0)
            assert first.message.body == "poison"
        await pipe.send("h:other")
        assert sorted(bodies(await pipe.receive())) == ["other", "second", "third"]
        assert bodies(await pipe.receive_dead()) == ["poison"]

    pipe.run(story())


def test_what_is_behind_a_moving_message_waits_for_it(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.send("g:poison", "g:second")
        for _ in range(2):
            await pipe.receive(count=1, visibility_s=0)
        pipe.dead_cell.stops = lambda made: made == "append"
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        assert await pipe.receive() == []
        pipe.dead_cell.stops = lambda _made: False
        pipe.clock.advance(MOVE_S)
        assert bodies(await pipe.receive()) == ["second"]

    pipe.run(story())


def test_nothing_is_delivered_again_behind_a_dead_letter(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("h:poison")
        await pipe.send("g:1", "h:2")
        deliveries = await pipe.receive(visibility_s=0)
        assert bodies(deliveries) == ["1", "2"]
        assert [delivery.receive_count for delivery in deliveries] == [1, 1]

    pipe.run(story())


async def attempt(pipe: Pipe) -> list[Delivery]:
    return await pipe.log.receive(pipe.queue, count=2, visibility_s=30, until_us=0, attempt="a")


def test_a_repeated_attempt_gets_again_what_may_be_delivered_no_more(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.send("g:poison")
        await pipe.receive(visibility_s=0)
        (first,), (again,) = await attempt(pipe), await attempt(pipe)
        assert again.receipt_handle == first.receipt_handle
        assert (first.receive_count, again.receive_count) == (2, 3)
        pipe.clock.advance(31)
        assert await pipe.receive() == []
        (dead,) = await pipe.receive_dead()
        assert dead.receive_count == 4

    pipe.run(story())


def test_nothing_moves_past_what_the_same_receive_delivers(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated attempt may have counted more receives of a message than of one before it.

    So it is where the visibility of that one is changed while the repetition is under way.
    """
    monkeypatch.setattr(attempts, "_is_changed", lambda *_: False)
    for module in (appending, reader):
        monkeypatch.setattr(module, "BLOCK_FULL_MESSAGES", 1)

    async def story() -> None:
        await pipe.send("g:first")
        await pipe.send("g:second")

        first, _ = await attempt(pipe)
        assert await pipe.log.change_visibility(pipe.queue, [(pipe.handle(first), 0)]) == [None]
        assert bodies(await attempt(pipe)) == ["second"]
        pipe.clock.advance(31)
        assert bodies(await pipe.receive(visibility_s=0)) == ["first"]
        for _ in range(2):
            await pipe.receive(visibility_s=0)
        assert bodies(await pipe.receive_dead()) == ["first", "second"]

    pipe.run(story())


def test_other_groups_do_not_wait_for_a_move_that_fails(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("g:poison")
        await pipe.send("h:other")
        pipe.dead_cell.stops = lambda made: made == "append"
        assert bodies(await pipe.receive()) == ["other"]

    pipe.run(story())


def test_dead_letters_of_a_group_keep_their_order(pipe: Pipe) -> None:
    async def story() -> None:
        for start in range(0, 40, 10):
            await pipe.send(*(f"g:{n}:{n}" for n in range(start, start + 10)))
        for _ in range(2):
            for _ in range(4):
                await pipe.receive(visibility_s=5)
            pipe.clock.advance(6)
            while await pipe.receive(visibility_s=0, count=10):
                break
        pipe.clock.advance(6)
        for _ in range(60):
            await pipe.receive(visibility_s=0)
        moved: list[str] = []
        while deliveries := await pipe.receive_dead():
            moved += bodies(deliveries)
            await _delete_dead(pipe, deliveries)
        assert moved == [str(n) for n in range(40)]
        assert await pipe.receive() == []

    pipe.run(story())


def test_big_messages_are_moved_in_slots_that_hold_them(pipe: Pipe) -> None:
    big = "x" * 200_000

    async def story() -> None:
        messages = [
            Outgoing(body=big + str(n), size=200_001, group="g", deduplication_id=str(n))
            for n in range(5)
        ]
        await pipe.log.send(ORDERS, SendCall(ORDERS.account, messages))
        for _ in range(2):
            assert len(await pipe.receive(visibility_s=0)) == 5
        assert await pipe.receive() == []
        assert pipe.copies() == 5
        assert [body[-1] for body in bodies(await pipe.receive_dead())] == list("01234")

    pipe.run(story())


@pytest.mark.parametrize("write", ["lease", "append", "delete"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("pause_s", [MOVE_S, HOUR_S], ids=["soon", "beyond the window"])
@pytest.mark.parametrize("policy", ["kept", "removed"])
def test_a_move_that_is_cut_off_is_finished_once(
    pipe: Pipe, write: str, policy: str, pause_s: float, *, after: bool
) -> None:
    """Stopped before or after any of its writes, then gone on with by a new front end.

    Also when the copy is no duplicate any more, was received, deleted and passed by the
    low-water mark meanwhile.
    """

    async def story() -> None:
        await pipe.poison("g:p")
        await pipe.send("g:behind")
        stopping = pipe.dead_cell if write == "append" else pipe.cell
        stopping.stops, stopping.after = (lambda made: made == write), after
        with pytest.raises(CellUnavailableError):
            await pipe.receive(count=1)
        stopping.stops = lambda _made: False
        early = await pipe.receive_dead()
        await _delete_dead(pipe, early)
        await pipe.log.sweep()
        begun = (write, after) != ("lease", False)
        if policy == "removed":
            pipe.queue = replace(ORDERS, redrive=None)
        pipe.clock.advance(pause_s)
        log = pipe.front_end()
        delivered = bodies(await pipe.receive(log=log))
        late = await pipe.receive_dead(log=log)
        if policy == "removed" and not begun:
            assert (delivered, late) == (["p", "behind"], [])
            return
        assert delivered == ["behind"]
        assert bodies(early + late) == ["p"]
        await _delete_dead(pipe, late)
        pipe.clock.advance(60)
        assert await pipe.receive_dead(log=pipe.front_end()) == []
        assert (await pipe.log.counts(DEAD)).visible == 0

    pipe.run(story())


def test_the_search_for_a_copy_passes_other_messages_and_generations(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("g:p")
        pipe.cell.stops = lambda made: made == "delete"
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        pipe.cell.stops = lambda _made: False
        for n in range(150):
            message = Outgoing(body="m", size=1, group=f"g{n}", deduplication_id=str(n))
            await pipe.log.send(DEAD, SendCall(DEAD.account, [message]))
        pipe.dead = replace(DEAD, generations=(Generation(0, 1, 0), Generation(1, 8, 1)))
        pipe.queues.by_name["dead.fifo"] = pipe.dead
        pipe.clock.advance(HOUR_S)
        assert await pipe.receive(log=pipe.front_end()) == []
        found = []
        log = pipe.front_end()
        while deliveries := await pipe.receive_dead(log=log):
            found += bodies(deliveries)
        assert found.count("p") == 1

    pipe.run(story())


@pytest.mark.parametrize("begun_in", [0, 1], ids=["the old generation", "the new generation"])
def test_a_copy_is_found_where_the_target_went_on_meanwhile(pipe: Pipe, begun_in: int) -> None:
    """Whoever goes on with the move has an old definition of the target."""
    changed = replace(DEAD, generations=(Generation(0, 1, 0), Generation(1, 8, 1)))

    async def story() -> None:
        await pipe.poison("g:p")
        message = Outgoing(body="m", size=1, group="other", deduplication_id="m")
        await pipe.front_end().send(changed, SendCall(DEAD.account, [message]))
        pipe.queues.by_name["dead.fifo"] = changed if begun_in == 1 else DEAD
        pipe.cell.stops = lambda made: made == "delete"
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        pipe.cell.stops = lambda _made: False
        pipe.queues.by_name["dead.fifo"] = DEAD
        pipe.clock.advance(HOUR_S)
        log = pipe.front_end()
        if begun_in == 1:
            with pytest.raises(CellUnavailableError):
                await pipe.receive(log=log)
            pipe.queues.by_name["dead.fifo"] = changed
            pipe.clock.advance(MOVE_S)
        assert await pipe.receive(log=log) == []
        pipe.dead = changed
        assert sorted(bodies(await pipe.receive_dead())) == ["m", "p"]

    pipe.run(story())


@pytest.mark.parametrize("begun", [False, True], ids=["begun now", "gone on with"])
def test_who_stops_for_long_within_a_move_stores_no_copy(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, *, begun: bool
) -> None:
    """Others have stored one meanwhile, and it is too old to be known for a duplicate."""
    step = "_is_stored" if begun else "finish"
    taken = getattr(moving, step)

    async def stop() -> None:
        pipe.clock.advance(MOVE_S)
        assert await pipe.receive(log=pipe.front_end()) == []
        pipe.clock.advance(HOUR_S)

    async def searched(*move: Any) -> bool:
        found: bool = await taken(*move)
        monkeypatch.undo()
        await stop()
        return found

    async def decided(*move: Any) -> None:
        monkeypatch.undo()
        await stop()
        await taken(*move)

    async def story() -> None:
        await pipe.poison("g:p")
        if begun:
            pipe.dead_cell.stops = lambda made: made == "append"
            with pytest.raises(CellUnavailableError):
                await pipe.receive()
            pipe.dead_cell.stops = lambda _made: False
            pipe.clock.advance(MOVE_S)
        monkeypatch.setattr(moving, step, searched if begun else decided)
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        assert pipe.copies() == 1
        assert await pipe.receive() == []
        assert bodies(await pipe.receive_dead()) == ["p"]

    pipe.run(story())


def test_blocks_that_messages_were_moved_to_are_not_collected(pipe: Pipe) -> None:
    async def story() -> None:
        for n in range(65):
            await pipe.bury(f"g:{n}:{n}")
            await _delete_dead(pipe, await pipe.receive_dead())
        pipe.clock.advance(700)
        for log in (pipe.log, pipe.front_end()):
            await pipe.receive_dead(log=log)
            await log.sweep()
        assert pipe.copies() == 65

    pipe.run(story())


def test_without_a_dead_letter_queue_messages_are_delivered_on(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("g:p")
        pipe.queues.by_name["dead.fifo"] = replace(DEAD, fifo=False)
        assert [d.receive_count for d in await pipe.receive(visibility_s=0)] == [3]
        del pipe.queues.by_name["dead.fifo"]
        assert [d.receive_count for d in await pipe.receive(visibility_s=0)] == [4]
        pipe.queues.by_name["dead.fifo"] = DEAD
        pipe.log.dropped(DEAD)
        assert [d.receive_count for d in await pipe.receive(visibility_s=0)] == [5]

    pipe.run(story())


def test_a_queue_that_is_its_own_dead_letter_queue_keeps_its_order(pipe: Pipe) -> None:
    own = RedrivePolicy(ORDERS.account, ORDERS.region, ORDERS.name, 2)
    pipe.queue = replace(ORDERS, redrive=own)

    async def story() -> None:
        sent = await pipe.send("g:poison", "g:second")
        for count in range(1, 6):
            deliveries = await pipe.receive(visibility_s=0)
            assert [d.message.id for d in deliveries] == [one.id for one in sent]
            assert {d.receive_count for d in deliveries} == {count}
        assert await pipe.drain() == ["poison", "second"]

    pipe.run(story())


def test_a_move_to_a_queue_that_was_deleted_is_given_up(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.poison("g:p")
        pipe.dead_cell.stops = lambda made: made == "append"
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        del pipe.queues.by_name["dead.fifo"]
        pipe.clock.advance(MOVE_S)
        (delivery,) = await pipe.receive()
        assert delivery.receive_count == 3
        assert await pipe.delete([delivery]) == []

    pipe.run(story())


def test_counts_follow_the_move(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.bury("g:p", "h:q")
        for queue, expected in ((ORDERS, 0), (DEAD, 2)):
            counts = await pipe.log.counts(queue)
            assert (counts.visible, counts.in_flight) == (expected, 0)
        await _delete_dead(pipe, await pipe.receive_dead())
        assert (await pipe.log.counts(DEAD)).visible == 0

    pipe.run(story())


def test_an_old_handle_neither_deletes_nor_changes_a_moving_message(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.send("g:p")
        await pipe.receive(visibility_s=0)
        (delivery,) = await pipe.receive(visibility_s=0)
        pipe.dead_cell.stops = lambda made: made == "append"
        with pytest.raises(CellUnavailableError):
            await pipe.receive()
        (refusal,) = await pipe.delete([delivery])
        assert refusal.endswith("The receipt handle has expired.")
        (changed,) = await pipe.log.change_visibility(ORDERS, [(pipe.handle(delivery), 600)])
        assert changed is not None

    pipe.run(story())


def test_a_redriven_message_is_a_new_one_in_the_order_of_its_group(pipe: Pipe) -> None:
    async def story() -> None:
        buried = await pipe.bury(*(f"g:{n}:{n}" for n in range(9)))
        pipe.clock.advance(100)
        assert await pipe.log.redrive(DEAD, count=4, target=pipe.back) == (4, True, None)
        assert await pipe.log.redrive(DEAD, count=40, target=pipe.back) == (5, False, None)
        again = await pipe.receive()
        assert bodies(again) == [str(n) for n in range(9)]
        assert {d.message.id for d in again}.isdisjoint(d.message.id for d in buried)
        for delivery in again:
            message = delivery.message
            assert (delivery.receive_count, message.dead_letter_source) == (1, "")
            assert message.sent_ms == pipe.clock.now_us() // 1000
            assert message.deduplication_id == uuid_text(message.id)
        assert await pipe.receive_dead() == []

    pipe.run(story())


def test_what_is_refused_holds_its_group_and_no_other(pipe: Pipe) -> None:
    async def nowhere(message: Message) -> Queue:
        if message.body == "b":
            raise queue_does_not_exist()
        return ORDERS

    async def story() -> None:
        await pipe.bury("g:a", "g:b", "g:c", "h:d")
        moved, more, failure = await pipe.log.redrive(DEAD, count=10, target=nowhere)
        assert (moved, more) == (2, False)
        assert isinstance(failure, RefusedError)
        assert bodies(await pipe.receive_dead()) == ["b", "c"]
        assert sorted(bodies(await pipe.receive())) == ["a", "d"]

    pipe.run(story())


@pytest.mark.parametrize("write", ["lease", "append", "delete"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_redrive_that_is_cut_off_is_finished_once(pipe: Pipe, write: str, *, after: bool) -> None:
    async def story() -> None:
        await pipe.bury("g:p", "g:q")
        stopping = pipe.cell if write == "append" else pipe.dead_cell
        stopping.stops, stopping.after = (lambda made: made == write), after
        moved, _, failure = await pipe.log.redrive(DEAD, count=10, target=pipe.back)
        assert moved == 0
        assert isinstance(failure, CellUnavailableError)
        stopping.stops = lambda _made: False
        pipe.clock.advance(HOUR_S)
        log = pipe.front_end()
        await log.redrive(DEAD, count=10, target=pipe.back)
        assert bodies(await pipe.receive(log=log)) == ["p", "q"]
        assert await pipe.receive_dead(log=log) == []

    pipe.run(story())


async def _delete_dead(pipe: Pipe, deliveries: list[Any]) -> None:
    handles = [decode(delivery.receipt_handle, pipe.dead) for delivery in deliveries]
    assert await pipe.log.delete(pipe.dead, handles) == [None] * len(handles)
