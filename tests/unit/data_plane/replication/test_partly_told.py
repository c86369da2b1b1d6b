"""Copies that were told of deletes, and not of the leases before them."""

import asyncio

import pytest

from data_plane.bag import sending
from data_plane.bag.bounds import COLLECT_AFTER_US
from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery
from data_plane.core.receipt_handle import decode
from data_plane.stored import keys
from tests.unit.data_plane.replication.conftest import Group
from tests.unit.data_plane.replication.test_engines import STANDARD, bag_of, message

LATER_S = COLLECT_AFTER_US / 1_000_000 + 1


async def receive(bag: Bag, count: int = 1) -> list[Delivery]:
    return await bag.receive(STANDARD, count=count, visibility_s=30, until_us=0)


async def delete(bag: Bag, deliveries: list[Delivery]) -> None:
    await bag.delete(STANDARD, [decode(one.receipt_handle, STANDARD) for one in deliveries])


@pytest.mark.parametrize("told", [True, False])
def test_a_block_is_collected_with_all_of_its_segments_or_not_at_all(
    group: Group, monkeypatch: pytest.MonkeyPatch, *, told: bool
) -> None:
    monkeypatch.setattr(sending, "BLOCK_FULL_MESSAGES", 2)

    async def story() -> None:
        bag, cells, _ = bag_of(group)
        for body in "ab":
            await bag.send(STANDARD, "s", [message(body)])
        group.clock.advance(4)
        first = await receive(bag)
        if told:
            await cells.ship()
        group.drop("a")  # with the one that served, and whoever was to tell of it
        heir, cells, _ = bag_of(group)
        await delete(heir, first)
        await delete(heir, await receive(heir))
        await cells.ship()
        group.clock.advance(LATER_S)
        await heir.sweep()
        group.clock.advance(LATER_S)
        segments = keys.segments(STANDARD.uid, 0, 0)
        left = [item for item in group.cells["b"].items() if item.key.partition == segments]
        assert len(left) == (0 if told else 2)
        afresh, _, _ = bag_of(group)
        assert await receive(afresh, 10) == []

    asyncio.run(story())
