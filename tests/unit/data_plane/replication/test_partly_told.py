"""Copies that were told of deletes, and not of the leases before them."""

import asyncio

import pytest

from data_plane.bag import sending
from data_plane.bag.bounds import COLLECT_AFTER_US
from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery, SendCall
from data_plane.core.receipt_handle import decode
from data_plane.ports import CellUnavailableError, Item
from data_plane.stored import keys
from tests.unit.data_plane.replication.conftest import Group
from tests.unit.data_plane.replication.test_engines import STANDARD, bag_of, message

LATER_S = COLLECT_AFTER_US / 1_000_000 + 1


def segments_in(group: Group, cell: str) -> list[Item]:
    segments = keys.segments(STANDARD.uid, 0, 0)
    return [item for item in group.cells[cell].items() if item.key.partition == segments]


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
            await bag.send(STANDARD, SendCall("s", [message(body)]))
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
        assert len(segments_in(group, "b")) == (0 if told else 2)
        afresh, _, _ = bag_of(group)
        assert await receive(afresh, 10) == []

    asyncio.run(story())


@pytest.mark.parametrize("down", [False, True])
def test_a_block_is_collected_once_all_members_know_that_it_is_deleted(
    group: Group, monkeypatch: pytest.MonkeyPatch, *, down: bool
) -> None:
    """Also by who deleted a message and stopped before it told them."""
    monkeypatch.setattr(sending, "BLOCK_FULL_MESSAGES", 2)
    behind = group.cells["b"]
    # It is out of reach when the others collect, and hears of that as little.
    monkeypatch.setattr(behind, "expire", lambda _keys: None)

    async def story() -> None:
        stopped, told, _ = bag_of(group)
        for body in "ab":
            await stopped.send(STANDARD, SendCall("s", [message(body)]))
        group.clock.advance(4)
        first = await receive(stopped)
        await told.ship()
        await delete(stopped, first)  # and is heard of no more
        bag, cells, at = bag_of(group)
        await delete(bag, await receive(bag, 10))
        await cells.ship()
        group.clock.advance(LATER_S)
        if down:
            behind.down = True
            with pytest.raises(CellUnavailableError):
                await bag.sweep()
            behind.down = False
            group.clock.advance(LATER_S)
            assert segments_in(group, "a")
        await bag.sweep()
        group.clock.advance(LATER_S)
        assert not segments_in(group, "a")
        at.at = group.drop("a")
        assert await receive(bag_of(group)[0], 10) == []

    asyncio.run(story())
