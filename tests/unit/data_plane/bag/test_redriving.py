"""Redriving: whatever is visible goes to the queue that the task says, once, as a new message."""

import pytest
from msgspec.structs import replace

from data_plane.bag.bounds import BLOCK_FULL_MESSAGES
from data_plane.core.errors import RefusedError, queue_does_not_exist
from data_plane.core.limits import RETENTION_S_MAX
from data_plane.core.message import Message, Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.ports import CellUnavailableError
from data_plane.stored import keys
from data_plane.stored.bounds import MOVE_LEASE_MS, STATE_TTL_SLACK_S
from data_plane.stored.superfluous import stripped
from tests.unit.data_plane.bag.pipe import DEAD, ORDERS, Pipe
from tests.unit.data_plane.bag.standing_still import collect_before_next_update

MOVE_S = MOVE_LEASE_MS / 1000 + 0.3


@pytest.fixture
def pipe() -> Pipe:
    return Pipe()


def test_a_redriven_message_is_a_new_one(pipe: Pipe) -> None:
    async def story() -> None:
        (dead,) = await pipe.bury("p")
        pipe.clock.advance(100)
        assert await pipe.bag.redrive(DEAD, count=10, target=pipe.back) == (1, False, None)
        assert await pipe.receive_dead() == []
        (again,) = await pipe.receive(visibility_s=0)
        assert again.message.id != dead.message.id
        assert again.message.id[6] >> 4 == 4
        assert again.message == replace(
            dead.message,
            id=again.message.id,
            sent_ms=pipe.clock.now_us() // 1000,
            dead_letter_source="",
            received=0,
            first_received_ms=0,
        )
        assert (again.receive_count, again.first_received_ms) == (1, again.message.sent_ms)

    pipe.run(story())


def test_what_a_purge_has_emptied_is_passed_over(pipe: Pipe) -> None:
    """By whoever goes by the definition of before the purge still."""

    async def story() -> None:
        await pipe.bury("p")
        (copy,) = pipe.copies()
        await pipe.dead_cell.put(copy.key, stripped(copy.attributes))
        pipe.bag = pipe.front_end()
        assert await pipe.bag.redrive(DEAD, count=10, target=pipe.back) == (0, False, None)
        assert await pipe.receive_dead() == []

    pipe.run(story())


def test_it_is_moved_again_and_redriven_again(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.send("p")
        ids = set()
        for _ in range(3):
            for _ in range(2):
                (delivery,) = await pipe.receive(visibility_s=0)
            ids.add(delivery.message.id)
            assert await pipe.receive() == []
            (dead,) = await pipe.receive_dead(visibility_s=0)
            assert dead.message.id == delivery.message.id
            assert await pipe.bag.redrive(DEAD, count=10, target=pipe.back) == (1, False, None)
        assert len(ids) == 3
        counts = await pipe.bag.counts(ORDERS)
        assert (counts.visible, counts.in_flight) == (1, 0)
        assert (await pipe.bag.counts(DEAD)).visible == 0

    pipe.run(story())


def test_redriven_messages_of_a_group_do_not_keep_others_waiting(pipe: Pipe) -> None:
    async def story() -> None:
        loud = [Outgoing(body=f"loud {number}", group="loud", size=6) for number in range(1_000)]
        for start in range(0, len(loud), 50):
            await pipe.bag.send(DEAD, SendCall(DEAD.account, loud[start : start + 50]))
        moved = 0
        while moved < len(loud):
            redriven = await pipe.bag.redrive(DEAD, count=100, target=pipe.back)
            assert redriven.failure is None
            moved += redriven.moved
        await pipe.bag.send(
            ORDERS, SendCall(ORDERS.account, [Outgoing(body="quiet", group="q", size=5)])
        )
        reader = pipe.front_end()
        (first,) = await pipe.receive(1, bag=reader)
        assert first.message.body == "quiet"
        await pipe.delete([first])
        assert sorted(await pipe.drain(bag=reader)) == sorted(message.body for message in loud)

    pipe.run(story())


def test_no_more_are_moved_than_asked_for(pipe: Pipe) -> None:
    async def story() -> None:
        for start in range(0, 100, 10):
            await pipe.bag.send(DEAD, SendCall(DEAD.account, _messages(start)))
        for count in (1, 7, 30):
            before = (await pipe.bag.counts(DEAD)).visible
            assert await pipe.bag.redrive(DEAD, count=count, target=pipe.back) == (
                count,
                True,
                None,
            )
            assert (await pipe.bag.counts(DEAD)).visible == before - count
        assert await pipe.bag.redrive(DEAD, count=100, target=pipe.back) == (62, False, None)
        assert await pipe.bag.redrive(DEAD, count=100, target=pipe.back) == (0, False, None)

    pipe.run(story())


def test_what_is_in_flight_stays(pipe: Pipe) -> None:
    async def story() -> None:
        await pipe.bury("p", "q")
        (held,) = await pipe.receive_dead(count=1)
        assert await pipe.bag.redrive(DEAD, count=10, target=pipe.back) == (1, False, None)
        (again,) = await pipe.receive()
        assert again.message.body != held.message.body
        pipe.clock.advance(31)
        assert len(await pipe.receive_dead()) == 1

    pipe.run(story())


def test_a_target_that_is_refused_leaves_the_message_where_it_is(pipe: Pipe) -> None:
    async def nowhere(message: Message) -> Queue:
        if message.body == "p":
            raise queue_does_not_exist()
        return ORDERS

    async def story() -> None:
        await pipe.bury("q", "p")
        pipe.clock.advance(1)
        for expected in (1, 0):
            moved, _, failure = await pipe.bag.redrive(DEAD, count=10, target=nowhere)
            assert moved == expected
            assert isinstance(failure, RefusedError)
        (left,) = await pipe.receive_dead()
        assert left.message.body == "p"

    pipe.run(story())


@pytest.mark.parametrize("write", ["lease", "append", "delete"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("by", ["redrive", "receive"])
def test_a_redrive_that_is_cut_off_is_finished_once(
    pipe: Pipe, write: str, by: str, *, after: bool
) -> None:
    """Stopped before or after any of its writes; gone on with by a new front end."""

    async def story() -> None:
        await pipe.bury("p")
        stopping = pipe.cell if write == "append" else pipe.dead_cell
        stopping.stops, stopping.after = (lambda made: made == write), after
        moved, _, failure = await pipe.bag.redrive(DEAD, count=10, target=pipe.back)
        assert moved == 0
        assert isinstance(failure, CellUnavailableError)
        stopping.stops = lambda _made: False
        pipe.clock.advance(MOVE_S)
        bag = pipe.front_end()
        begun = (write, after) != ("lease", False)
        if by == "redrive":
            done = (write, after) == ("delete", True)
            assert await pipe.bag.redrive(DEAD, count=10, target=pipe.back) == (
                not done,
                False,
                None,
            )
        else:
            assert len(await pipe.receive_dead(bag=bag)) == (not begun)
        if begun or by == "redrive":
            delivered = await pipe.receive(bag=bag)
            assert [d.message.body for d in delivered] == ["p"]
            await pipe.delete(delivered)
            pipe.clock.advance(60)
            assert await pipe.receive(bag=pipe.front_end()) == []
            assert await pipe.receive_dead(bag=pipe.front_end()) == []

    pipe.run(story())


def test_states_of_moved_messages_outlive_every_copy(pipe: Pipe) -> None:
    """A move may be gone on with as long as the message is kept where it was: 14 days at most."""

    async def story() -> None:
        await pipe.bury("p")
        await pipe.bag.redrive(DEAD, count=10, target=pipe.back)
        await pipe.delete(await pipe.receive())
        now_s = pipe.clock.now_us() // 1_000_000
        partition = keys.states(ORDERS.uid, 0, 0)
        moved = [
            item.attributes["x"]
            for item in pipe.cell.items()
            if item.key.partition == partition and keys.is_moved_block(item.key.sort)
        ]
        assert moved == [now_s + 2 * RETENTION_S_MAX + STATE_TTL_SLACK_S]

    pipe.run(story())


def _messages(start: int) -> list[Outgoing]:
    return [Outgoing(body=f"m{i}", size=3) for i in range(start, start + 10)]


def test_nothing_is_moved_that_was_deleted_and_collected_before_the_move_began(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever moves stood still with a message that was never received."""
    late = pipe.front_end()

    async def to_dead(_message: Message) -> Queue:
        return DEAD

    async def story() -> None:
        await pipe.send(*("work" for _ in range(BLOCK_FULL_MESSAGES)))
        collect_before_next_update(pipe, monkeypatch)
        assert (await late.redrive(pipe.queue, count=10, target=to_dead)).moved == 0
        assert pipe.copies() == []

    pipe.run(story())
