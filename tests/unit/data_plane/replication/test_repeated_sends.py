"""Sends that failed in one of the copies, and are repeated when their messages may be long gone."""

import asyncio
from collections.abc import Sequence

import pytest

from data_plane.bag import sending
from data_plane.bag.bounds import COLLECT_AFTER_US, SAME_KEY_US_MAX
from data_plane.bag.engine import Bag
from data_plane.core.message import SendCall
from data_plane.core.receipt_handle import decode
from data_plane.ports import CellUnavailableError, Key
from data_plane.stored import keys
from tests.unit.data_plane.replication.conftest import CellThatFails, Group
from tests.unit.data_plane.replication.test_engines import STANDARD, bag_of, message

CALL = b"c" * 16
SEGMENTS = keys.segments(STANDARD.uid, 0, 0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment fills a block, which is collected when it is deleted."""
    monkeypatch.setattr(sending, "BLOCK_FULL_MESSAGES", 1)


async def send(bag: Bag, *, repeated: bool) -> list[bytes]:
    return await bag.send(STANDARD, SendCall("s", [message("once")], name=CALL, repeated=repeated))


async def consume(bag: Bag) -> list[bytes]:
    """Receive and delete what is there: the ids."""
    found = await bag.receive(STANDARD, count=10, visibility_s=30, until_us=0)
    await bag.delete(STANDARD, [decode(one.receipt_handle, STANDARD) for one in found])
    return [one.message.id for one in found]


def segments_in(cell: CellThatFails) -> list[Key]:
    stored = [item for item in cell.items() if item.key.partition == SEGMENTS]
    return [item.key for item in stored if item.attributes["k"] == "s"]


def keep(_keys: Sequence[Key]) -> None:
    """Collect nothing, as a cell may."""


@pytest.mark.parametrize("all_collect", [True, False])
def test_what_was_deleted_does_not_come_back_with_a_repeated_send(
    group: Group, monkeypatch: pytest.MonkeyPatch, *, all_collect: bool
) -> None:
    bag, cells, at = bag_of(group)
    if not all_collect:
        monkeypatch.setattr(group.cells["a"], "expire", keep)

    async def story() -> None:
        group.cells["c"].down = True
        with pytest.raises(CellUnavailableError):
            await send(bag, repeated=False)
        group.cells["c"].down = False
        group.clock.advance(4)
        deleted = await consume(bag)
        assert len(deleted) == 1
        assert await cells.ship() == 0
        group.clock.advance(COLLECT_AFTER_US / 1_000_000 + 1)
        await bag.sweep()
        assert segments_in(group.cells["b"]) == []
        sent = await send(bag, repeated=True)
        # Who still has the message knows the call; nobody else does.
        assert (sent != deleted) is all_collect
        group.clock.advance(4)
        assert deleted[0] not in await consume(bag)
        at.at = group.drop("a")
        group.clock.advance(31)
        assert deleted[0] not in await consume(bag)

    asyncio.run(story())


def test_a_send_that_is_repeated_soon_is_stored_under_its_key(group: Group) -> None:
    bag, _, _ = bag_of(group)

    async def story() -> None:
        group.cells["a"].down = True
        with pytest.raises(CellUnavailableError):
            await send(bag, repeated=False)
        group.cells["a"].down = False
        group.clock.advance(SAME_KEY_US_MAX / 1_000_000)
        await send(bag, repeated=True)

    asyncio.run(story())
    (key,) = segments_in(group.cells["b"])
    assert all(segments_in(group.cells[name]) == [key] for name in "ac")


def test_cells_that_collect_nothing_take_a_repeated_send_under_its_key_for_long(
    group: Group,
) -> None:
    group.cells = {name: CellThatFails(group.clock, stamps=False) for name in "abcd"}
    bag, _, _ = bag_of(group)

    async def story() -> None:
        group.cells["a"].down = True
        with pytest.raises(CellUnavailableError):
            await send(bag, repeated=False)
        group.cells["a"].down = False
        group.clock.advance(10 * SAME_KEY_US_MAX / 1_000_000)
        await send(bag, repeated=True)

    asyncio.run(story())
    (key,) = segments_in(group.cells["b"])
    assert all(segments_in(group.cells[name]) == [key] for name in "ac")
