"""What is held for long answers until they are encoded: bounded for each account, in its turn."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from data_plane.core.caller import Caller
from data_plane.core.deadline import deadline
from data_plane.core.limits import SMALL_BODY_BYTES_MAX
from data_plane.core.long_answers import room_for, use_room
from data_plane.frontend.exchange import Exchange
from data_plane.frontend.making import Making
from data_plane.ports import DeadlinePassedError
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.wire_protocols import AWS_JSON
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.frontend.tenants import NOISY, QUIET
from tests.unit.data_plane.runtime.virtual_loop import START_US, VirtualLoop, run

BYTES_MAX = 100_000
PATIENCE_S = 30


class Answers:
    """Answers that take a second each to be encoded once their messages are read."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.waits = EventLoopWaits(loop)
        self.making = Making(loop, self.waits, BYTES_MAX)
        self.loop = loop
        self.held: dict[str, int] = {NOISY: 0, QUIET: 0}
        self.most: dict[str, int] = {NOISY: 0, QUIET: 0}

    async def make(self, account: str, *sizes: int, taking_s: float = 1.0) -> float:
        """When the answer was there, in seconds from the beginning."""
        exchange = Exchange(HttpRequest("POST", "/", "", {}, b""), "id", START_US, AWS_JSON)
        exchange.caller = Caller(account)
        room = self.making.room(exchange)
        use_room(room)
        taken = 0
        try:
            with deadline(self.loop.now_us() + PATIENCE_S * 1_000_000):
                for size in sizes:
                    await room_for(size)
                    self.held[account] += size
                    taken += size
                    self.most[account] = max(self.most[account], self.held[account])
                    await asyncio.sleep(0)
                await asyncio.sleep(taking_s)
        finally:
            self.held[account] -= taken
            room.leave()
        return self.loop.time()


def tell(story: Callable[[Answers], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()

    async def told() -> None:
        answers = Answers(loop)
        await story(answers)
        assert not answers.making._held
        assert not answers.making._waiting

    run(told(), loop)
    use_room(None)


def test_an_account_holds_so_much_at_a_time_and_the_rest_waits() -> None:
    async def story(answers: Answers) -> None:
        ends_s = await asyncio.gather(*[answers.make(NOISY, 40_000) for _ in range(5)])
        assert answers.most[NOISY] == 80_000
        assert [round(end_s) for end_s in ends_s] == [1, 1, 2, 2, 3]

    tell(story)


def test_an_account_does_not_wait_for_another() -> None:
    async def story(answers: Answers) -> None:
        noisy = [answers.make(NOISY, BYTES_MAX) for _ in range(9)]
        ends_s = await asyncio.gather(*noisy, answers.make(QUIET, 40_000))
        assert round(ends_s[-1]) == 1
        assert round(max(ends_s)) == 9

    tell(story)


def test_one_answer_may_be_as_long_as_it_likes_alone() -> None:
    async def story(answers: Answers) -> None:
        ends_s = await asyncio.gather(*[answers.make(NOISY, 2 * BYTES_MAX) for _ in range(3)])
        assert answers.most[NOISY] == 2 * BYTES_MAX
        assert [round(end_s) for end_s in ends_s] == [1, 2, 3]

    tell(story)


def test_who_holds_something_waits_no_more() -> None:
    """Else two that each hold half would wait for each other."""

    async def story(answers: Answers) -> None:
        both = [answers.make(NOISY, 50_000, 50_000) for _ in range(2)]
        assert [round(end_s) for end_s in await asyncio.gather(*both)] == [1, 1]

    tell(story)


def test_short_answers_are_not_counted() -> None:
    async def story(answers: Answers) -> None:
        long = asyncio.create_task(answers.make(NOISY, BYTES_MAX, taking_s=5))
        await asyncio.sleep(0)
        assert round(await answers.make(NOISY, SMALL_BODY_BYTES_MAX)) == 1
        await long

    tell(story)


def test_who_waits_too_long_is_told_and_holds_nothing() -> None:
    async def story(answers: Answers) -> None:
        long = asyncio.create_task(answers.make(NOISY, BYTES_MAX, taking_s=2 * PATIENCE_S))
        await asyncio.sleep(0)
        with pytest.raises(DeadlinePassedError):
            await answers.make(NOISY, 40_000)
        assert answers.loop.time() == pytest.approx(PATIENCE_S)
        await long

    tell(story)


def test_who_goes_away_while_waiting_leaves_the_turn_to_the_next() -> None:
    async def story(answers: Answers) -> None:
        long = asyncio.create_task(answers.make(NOISY, BYTES_MAX))
        await asyncio.sleep(0)
        gone = asyncio.create_task(answers.make(NOISY, BYTES_MAX))
        next_one = asyncio.create_task(answers.make(NOISY, BYTES_MAX))
        await long  # which has woken the first of them
        gone.cancel()
        assert round(await next_one) == 2

    tell(story)


def test_a_stop_lets_nobody_wait() -> None:
    async def story(answers: Answers) -> None:
        both = asyncio.gather(*[answers.make(NOISY, BYTES_MAX) for _ in range(2)])
        await asyncio.sleep(0)
        answers.waits.stop_waiting()
        assert [round(end_s) for end_s in await both] == [1, 1]

    tell(story)
