"""Calls while the store is slow: each is answered by its deadline, and nothing is stored twice."""

import asyncio
from collections.abc import Awaitable

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.deadline import deadline
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.ports import DeadlinePassedError
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run
from tests.unit.data_plane.slow_store import SlowCell, took
from tests.unit.repeatable import SeededEntropy

DEADLINE_S = 15
CALL = bytes(range(16))


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


@pytest.fixture
def cell(loop: VirtualLoop) -> SlowCell:
    return SlowCell(loop, 32)


@pytest.fixture
def bag(loop: VirtualLoop, cell: SlowCell) -> Bag:
    return Bag({"a": cell}, loop, SeededEntropy(), EventLoopWaits(loop))


async def receive(bag: Bag, loop: VirtualLoop, wait_s: int = 0) -> list[Delivery]:
    with deadline(loop.now_us() + (DEADLINE_S + wait_s) * 1_000_000):
        until_us = loop.now_us() + wait_s * 1_000_000
        return await bag.receive(QUEUE, count=10, visibility_s=30, until_us=until_us)


def send(
    bag: Bag, loop: VirtualLoop, *, left_s: float = DEADLINE_S, repeated: bool = False
) -> Awaitable[list[bytes]]:
    message = Outgoing(body="m", size=1)
    with deadline(loop.now_us() + round(left_s * 1_000_000)):
        call = bag.send(QUEUE, SendCall("1", [message], name=CALL, repeated=repeated))
        return asyncio.ensure_future(call)


def test_a_receive_does_not_wait_for_the_long_polls_that_it_shares_a_page_with(
    loop: VirtualLoop, cell: SlowCell, bag: Bag
) -> None:
    async def main() -> None:
        await receive(bag, loop)
        cell.threads.takes_s = 9.0
        first = asyncio.create_task(receive(bag, loop))
        await asyncio.sleep(1)  # until its page is under way: what comes now shares the next one
        polls = [asyncio.create_task(receive(bag, loop, 20)) for _ in range(3)]
        seconds, outcome = await took(receive(bag, loop))
        assert isinstance(outcome, DeadlinePassedError)
        assert seconds == pytest.approx(DEADLINE_S, abs=0.01)
        await asyncio.gather(first, *polls, return_exceptions=True)

    run(main(), loop)


def test_a_repetition_waits_for_what_its_first_attempt_may_still_store(
    loop: VirtualLoop, cell: SlowCell, bag: Bag
) -> None:
    async def main() -> None:
        cell.threads.takes_s = 1.9
        other = asyncio.ensure_future(bag.send(QUEUE, SendCall("1", [Outgoing(body="o", size=1)])))
        first = send(bag, loop, left_s=1)
        with pytest.raises(DeadlinePassedError):
            await first
        cell.threads.takes_s = 0.005
        again = await send(bag, loop, repeated=True)
        await other
        ids = [one.message.id for one in await receive(bag, loop)]
        assert ids.count(again[0]) == 1
        assert len(ids) == 2, "what was let go is stored once, under the ids that are answered"

    run(main(), loop)


def test_a_repetition_is_let_go_at_its_own_deadline(
    loop: VirtualLoop, cell: SlowCell, bag: Bag
) -> None:
    async def main() -> None:
        cell.threads.takes_s = 40.0
        other = asyncio.ensure_future(bag.send(QUEUE, SendCall("1", [Outgoing(body="o", size=1)])))
        with pytest.raises(DeadlinePassedError):
            await send(bag, loop, left_s=3)
        seconds, outcome = await took(send(bag, loop, left_s=2, repeated=True))
        assert isinstance(outcome, DeadlinePassedError)
        assert seconds == pytest.approx(2, abs=0.01)
        await asyncio.gather(other, return_exceptions=True)

    run(main(), loop)
