"""What a front end believes of a queue after things that seldom happen before a call."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

import pytest

from data_plane.bag.engine import Bag
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.bag.conftest import Bench

T = TypeVar("T")


class ImpatientWaits(EventLoopWaits):
    """Cancels, once, whoever has several calls made side by side, before the first begins."""

    cancelling = True

    async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        caller = asyncio.current_task()
        if self.cancelling and len(calls) > 1 and caller is not None:
            self.cancelling = False
            caller.cancel()
        return await super().all_of(calls)


def test_a_receive_whose_client_has_gone_before_it_leased_keeps_nothing(bench: Bench) -> None:
    async def story() -> None:
        for body in ("a", "b"):
            await bench.send(body, bag=bench.front_end())
        waits = ImpatientWaits(bench.clock)
        bag = Bag({"a": bench.cell}, bench.clock, bench.entropy, waits)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(bench.receive(bag=bag))
        assert not waits.cancelling
        assert sorted(d.message.body for d in await bench.receive(bag=bag)) == ["a", "b"]

    bench.run(story())
