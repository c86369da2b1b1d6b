"""Fair lanes: a group with much waiting does not keep the others waiting."""

from collections.abc import Iterator
from itertools import count

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery, Outgoing
from data_plane.stored import keys
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

NOISY, QUIET = "noisy", "quiet"


class Tenancy:
    """Tenants of one queue, on as many front ends as a test opens."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._numbers: Iterator[int] = count()

    async def send(
        self, group: str, messages: int = 1, *, bag: Bag | None = None, delay_s: int | None = None
    ) -> list[str]:
        """Send in batches of ten: the bodies, which name the group."""
        bodies = [f"{group}.{next(self._numbers)}" for _ in range(messages)]
        for start in range(0, messages, 10):
            batch = [
                Outgoing(body=body, size=len(body), group=group, delay_s=delay_s)
                for body in bodies[start : start + 10]
            ]
            await (bag or self.bench.bag).send(QUEUE, QUEUE.account, batch)
        return bodies

    async def receive(self, count: int = 10, bag: Bag | None = None) -> list[str]:
        """The groups of what a receive delivers, in order."""
        return groups_of(await self.bench.receive(count, bag=bag))

    def lanes_used(self) -> set[int]:
        """The lanes that have segments."""
        prefixes = {keys.segments(QUEUE.uid, lane, 0): lane for lane in range(3)}
        return {
            prefixes[item.key.partition]
            for item in self.bench.cell.items()
            if item.attributes.get("k") == "s"
        }


def groups_of(deliveries: list[Delivery]) -> list[str]:
    return [delivery.message.group for delivery in deliveries]


@pytest.fixture
def tenancy(bench: Bench) -> Tenancy:
    return Tenancy(bench)


def test_a_quiet_message_passes_a_backlog(tenancy: Tenancy) -> None:
    async def story() -> None:
        await tenancy.send(NOISY, 500)
        await tenancy.send(QUIET)
        assert QUIET in await tenancy.receive()

    tenancy.bench.run(story())


@pytest.mark.parametrize("backlog", [5_000, 50_000])
def test_a_front_end_that_starts_afresh_finds_it_with_two_extra_queries(
    tenancy: Tenancy, backlog: int
) -> None:
    """The benchmark does the same behind 1,000,000 messages."""
    bench = tenancy.bench

    async def story() -> None:
        await tenancy.send(NOISY, backlog)
        await tenancy.send(QUIET)
        bag = bench.front_end()
        received: list[str] = []

        async def receive_one() -> None:
            received.extend(await tenancy.receive(1, bag=bag))

        requests, items = await bench.cost_of(receive_one)
        assert received == [QUIET]
        assert requests["query"] <= 1 + 1 + 2  # opening the queue, the receive, two more
        assert items < 100

    bench.run(story())
