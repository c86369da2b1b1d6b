"""Moves to FIFO queues that somebody goes on with late: nothing is lost, and copies are known."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import RedrivePolicy
from data_plane.core.receipt_handle import decode
from data_plane.log import moving
from data_plane.ports import Attributes, CellUnavailableError, Key, Written
from tests.unit.data_plane.log.pipe import DEAD, Pipe, bodies

HOUR_S = 3_600
WINDOW_S = 300
MOVE_S = 6
OTHER = Outgoing(body="other", size=5, group="h", deduplication_id="other")


@pytest.fixture
def pipe() -> Pipe:
    return Pipe()


def keep_for(pipe: Pipe, retention_s: int) -> None:
    """Give the dead-letter queue this retention."""
    pipe.dead = replace(DEAD, retention_s=retention_s)
    pipe.queues.by_name["dead.fifo"] = pipe.dead


async def stop(pipe: Pipe, write: str) -> None:
    """Begin the move of what is to be moved, up to this write."""
    stopping = pipe.dead_cell if write == "append" else pipe.cell
    stopping.stops = lambda made: made == write
    with pytest.raises(CellUnavailableError):
        await pipe.receive()
    stopping.stops = lambda _made: False


@pytest.mark.parametrize("retention_s", [60, HOUR_S], ids=["a minute", "an hour"])
@pytest.mark.parametrize("pauses", [1, 2], ids=["at once", "at the second attempt"])
def test_a_copy_that_was_never_stored_is_stored_after_the_targets_retention(
    pipe: Pipe, retention_s: int, pauses: int
) -> None:
    keep_for(pipe, retention_s)

    async def story() -> None:
        await pipe.poison("g:p")
        for _ in range(pauses):
            await stop(pipe, "append")
            pipe.clock.advance(2 * HOUR_S)
            pipe.dead_cell.expire([item.key for item in pipe.dead_cell.items()])
        log = pipe.front_end()
        assert await pipe.receive(log=log) == []
        assert bodies(await pipe.receive_dead(log=log)) == ["p"]

    pipe.run(story())


def test_a_copy_that_was_never_stored_is_stored_though_the_retention_was_lowered(
    pipe: Pipe,
) -> None:
    async def story() -> None:
        await pipe.poison("g:p")
        await stop(pipe, "append")
        keep_for(pipe, 60)
        pipe.clock.advance(61)
        assert await pipe.receive() == []
        assert bodies(await pipe.receive_dead()) == ["p"]

    pipe.run(story())


def test_a_redriven_message_that_was_never_stored_is_stored_after_the_targets_retention(
    pipe: Pipe,
) -> None:
    pipe.queue = replace(pipe.queue, retention_s=60)
    pipe.queues.by_name["orders.fifo"] = pipe.queue

    async def story() -> None:
        await pipe.bury("g:p")
        pipe.cell.stops = lambda made: made == "append"
        moved, _, failure = await pipe.log.redrive(DEAD, count=10, target=pipe.back)
        assert (moved, isinstance(failure, CellUnavailableError)) == (0, True)
        pipe.cell.stops = lambda _made: False
        pipe.clock.advance(HOUR_S)
        log = pipe.front_end()
        await log.redrive(DEAD, count=10, target=pipe.back)
        assert bodies(await pipe.receive(log=log)) == ["p"]
        assert await pipe.receive_dead(log=log) == []

    pipe.run(story())


@pytest.mark.parametrize("is_there", [True, False], ids=["still stored", "gone with its time"])
def test_a_copy_that_has_expired_counts_for_as_long_as_it_is_stored(
    pipe: Pipe, *, is_there: bool
) -> None:
    """Nobody can tell a copy that has gone from one that never was: it is stored again."""
    keep_for(pipe, 60)

    async def story() -> None:
        await pipe.poison("g:p")
        await stop(pipe, "delete")
        assert pipe.copies() == 1
        pipe.clock.advance(HOUR_S if is_there else 2 * HOUR_S)
        if not is_there:
            pipe.dead_cell.expire([item.key for item in pipe.dead_cell.items()])
        assert await pipe.receive() == []
        assert bodies(await pipe.receive_dead()) == ([] if is_there else ["p"])
        counts = await pipe.log.counts(pipe.queue)
        assert (counts.visible, counts.in_flight) == (0, 0)

    pipe.run(story())


class HeldPut:
    """The first append of messages to the dead-letter queue is under way until it is let go."""

    def __init__(self, pipe: Pipe) -> None:
        self.begun, self.let_go, self.landed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._put = pipe.dead_cell.put
        pipe.dead_cell.put = self.put  # type: ignore[assignment, method-assign]

    async def put(self, key: Key, attributes: Attributes, *call: Any) -> Written:
        """As the cell's."""
        if attributes.get("k") != "s" or self.begun.is_set():
            return await self._put(key, attributes, *call)
        self.begun.set()
        await self.let_go.wait()
        written = await self._put(key, attributes, *call)
        self.landed.set()
        return written


@pytest.mark.parametrize("before", [False, True], ids=["into an empty queue", "behind a message"])
def test_a_copy_that_comes_when_it_was_searched_for_is_the_copy(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    """Its stamp is of before it was under way, so it is no duplicate any more (`redrive-fifo` 79).

    Whoever began the move stood still for as long as duplicates are known.
    """
    is_stored = moving._is_stored

    async def story() -> None:
        if before:
            await pipe.bury("h:before")
        await pipe.poison("g:p")
        held = HeldPut(pipe)

        async def searched(*move: Any) -> bool:
            found = await is_stored(*move)
            held.let_go.set()
            await held.landed.wait()
            return found

        monkeypatch.setattr(moving, "_is_stored", searched)
        first = asyncio.create_task(pipe.receive())
        await held.begun.wait()
        pipe.clock.advance(WINDOW_S + 10)
        log = pipe.front_end()
        assert await pipe.receive(log=log) == []
        await asyncio.gather(first, return_exceptions=True)
        assert sorted(bodies(await pipe.receive_dead(log=log))) == ["before"] * before + ["p"]
        assert await pipe.receive(log=log) == []

    pipe.run(story())


def test_who_was_overtaken_by_others_messages_searches_again(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log was quiet for as long as duplicates are known, and goes on after the search."""
    is_stored = moving._is_stored
    searches: list[bool] = []

    async def searched(*move: Any) -> bool:
        found = await is_stored(*move)
        searches.append(found)
        if len(searches) == 1:
            await pipe.front_end().send(pipe.dead, SendCall(DEAD.account, [OTHER]))
        return found

    async def story() -> None:
        await pipe.poison("g:p")
        await stop(pipe, "append")
        pipe.clock.advance(HOUR_S)
        monkeypatch.setattr(moving, "_is_stored", searched)
        assert await pipe.receive() == []
        assert searches == [False, False]
        assert sorted(bodies(await pipe.receive_dead())) == ["other", "p"]

    pipe.run(story())


def each_other(pipe: Pipe) -> None:
    """Make the queue the dead-letter queue of its own dead-letter queue."""
    policy = RedrivePolicy(DEAD.account, DEAD.region, "orders.fifo", 1)
    pipe.dead = replace(DEAD, redrive=policy)
    pipe.queues.by_name["dead.fifo"] = pipe.dead


def test_the_copy_of_an_earlier_move_is_not_that_of_this_one(pipe: Pipe) -> None:
    """Two queues that are each other's dead-letter queues: a message comes again with its id."""
    each_other(pipe)

    async def story() -> None:
        await pipe.poison("g:p")
        assert await pipe.receive() == []
        assert bodies(await pipe.receive_dead(visibility_s=0)) == ["p"]
        assert await pipe.receive_dead() == []
        pipe.clock.advance(HOUR_S)
        for _ in range(2):
            assert bodies(await pipe.receive(visibility_s=0)) == ["p"]
        await stop(pipe, "append")
        pipe.clock.advance(MOVE_S)
        assert await pipe.receive() == []
        assert bodies(await pipe.receive_dead()) == ["p"]

    pipe.run(story())


@pytest.mark.parametrize("pause_s", [0.5, MOVE_S])
def test_a_dead_letter_that_comes_again_soon_is_no_duplicate(pipe: Pipe, pause_s: float) -> None:
    each_other(pipe)

    async def story() -> None:
        await pipe.send("g:p")
        for _ in range(4):
            for _ in range(2):
                pipe.clock.advance(pause_s)
                assert bodies(await pipe.receive(visibility_s=0)) == ["p"]
            assert await pipe.receive() == []
            pipe.clock.advance(pause_s)
            assert bodies(await pipe.receive_dead(visibility_s=0)) == ["p"]
            assert await pipe.receive_dead() == []

    pipe.run(story())


def test_the_copy_of_an_earlier_move_is_not_that_of_one_that_knew_nothing_of_it(
    pipe: Pipe,
) -> None:
    """Whoever began the second move had last seen the log before the first one's copy came."""
    each_other(pipe)
    away = pipe.front_end()

    async def story() -> None:
        await away.send(pipe.dead, SendCall(DEAD.account, [OTHER]))
        (other,) = await pipe.receive_dead(log=away)
        await away.delete(pipe.dead, [decode(other.receipt_handle, pipe.dead)])
        await pipe.poison("g:p")
        assert await pipe.receive() == []
        assert bodies(await pipe.receive_dead(visibility_s=0)) == ["p"]
        assert await pipe.receive_dead() == []
        for _ in range(2):
            assert bodies(await pipe.receive(visibility_s=0)) == ["p"]
        pipe.dead_cell.stops = lambda made: made == "append"
        with pytest.raises(CellUnavailableError):
            await pipe.receive(log=away)
        pipe.dead_cell.stops = lambda _made: False
        pipe.clock.advance(MOVE_S)
        assert await pipe.receive() == []
        assert bodies(await pipe.receive_dead()) == ["p"]

    pipe.run(story())
