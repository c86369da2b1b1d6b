"""Tenants of one standard queue, on as many front ends as a test opens."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count as numbers

from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.stored import keys
from data_plane.stored.bounds import FAIR_LANES
from data_plane.stored.segment import number
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

NOISY, QUIET = "noisy", "quiet"


class Tenancy:
    """See the module's docstring."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._numbers: Iterator[int] = numbers()

    def message(self, group: str, delay_s: int | None = None) -> Outgoing:
        """A message whose body names its group, and no other message."""
        body = f"{group}.{next(self._numbers)}"
        return Outgoing(body=body, size=len(body), group=group, delay_s=delay_s)

    async def send(
        self, group: str, messages: int = 1, *, bag: Bag | None = None, delay_s: int | None = None
    ) -> list[str]:
        """Send in batches of ten: the bodies."""
        outgoing = [self.message(group, delay_s) for _ in range(messages)]
        for start in range(0, messages, 10):
            await self.send_batch(outgoing[start : start + 10], bag=bag)
        return [message.body for message in outgoing]

    async def send_batch(self, batch: Sequence[Outgoing], *, bag: Bag | None = None) -> None:
        """Send in one call, which takes a moment."""
        self.bench.clock.advance(0.000_01)
        await (bag or self.bench.bag).send(self.bench.queue, SendCall(QUEUE.account, batch))

    async def receive(self, count: int = 10, bag: Bag | None = None) -> list[str]:
        """The groups of what a receive delivers, in order."""
        return groups_of(await self.bench.receive(count, bag=bag))

    def messages_in_lanes(self) -> Counter[int]:
        """How many messages are stored, by lane."""
        lanes = {keys.segments(QUEUE.uid, lane, 0): lane for lane in range(FAIR_LANES)}
        stored = Counter[int]()
        for item in self.bench.cell.items():
            if item.attributes.get("k") == "s":
                stored[lanes[item.key.partition]] += number(item.attributes, "n")
        return stored

    def lanes_used(self) -> set[int]:
        """The lanes that have segments."""
        return set(self.messages_in_lanes())


def groups_of(deliveries: Sequence[Delivery]) -> list[str]:
    """The groups of delivered messages."""
    return [delivery.message.group for delivery in deliveries]
