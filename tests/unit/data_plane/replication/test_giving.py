"""What was collected does not come back by way of who gives it to members that lack it.

A send failed in one member, and is looked for by another front end, which stands still between its
read of the first member and what it writes to the others; meanwhile the message is received,
deleted and collected.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from data_plane.bag import bounds, sending
from data_plane.bag.engine import Bag
from data_plane.ports import Attributes, CellUnavailableError, Item, Key, Update
from data_plane.replication import copying, giving, member_cell
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Member
from data_plane.stored.merging import is_needed, lacking
from tests.unit.data_plane.replication.conftest import CellThatFails, Group
from tests.unit.data_plane.replication.test_engines import bag_of
from tests.unit.data_plane.replication.test_repeated_sends import consume, segments_in, send

COLLECT_S = bounds.COLLECT_AFTER_US / 1_000_000

Meanwhile = Callable[[], Awaitable[None]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment fills a block, which is collected when it is deleted."""
    monkeypatch.setattr(sending, "BLOCK_FULL_MESSAGES", 1)


async def send_in_part(group: Group, bag: Bag) -> None:
    """A send that all members but c take."""
    group.cells["c"].down = True
    with pytest.raises(CellUnavailableError):
        await send(bag, repeated=False)
    group.cells["c"].down = False
    group.clock.advance(4)


async def collect(group: Group, bag: Bag, cells: Fanout) -> None:
    """Receive and delete what is there, and let the members collect it."""
    assert len(await consume(bag)) == 1
    assert await cells.ship() == 0
    group.clock.advance(COLLECT_S)
    await bag.sweep()
    assert segments_in(group.cells["a"]) == []


def once_read(cell: CellThatFails, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile) -> None:
    """Let this happen once, between a read of two items and its answer."""
    get_many, left = cell.get_many, [meanwhile]

    async def late(keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        found = await get_many(keys, strong=strong)
        if left and len(keys) == 2:
            await left.pop()()
        return found

    monkeypatch.setattr(cell, "get_many", late)


def before_it_gives(monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile) -> None:
    """Let this happen before a segment that was found is read once more and given to others."""
    complete = Fanout.complete

    async def late(self: Fanout, key: Key, state: Key, needed: giving.IsNeeded) -> bool:
        await meanwhile()
        return await complete(self, key, state, needed)

    monkeypatch.setattr(Fanout, "complete", late)


@pytest.mark.parametrize("in_time", [True, False], ids=["in time", "planted: whenever it is done"])
def test_who_stands_still_after_the_read_gives_nothing_back(
    group: Group, monkeypatch: pytest.MonkeyPatch, *, in_time: bool
) -> None:
    if not in_time:
        monkeypatch.setattr(giving, "GIVE_US_MAX", 3600 * 1_000_000)
    failed, _, _ = bag_of(group)
    consumer, cells, at = bag_of(group)
    other, _, _ = bag_of(group)

    async def story() -> None:
        await send_in_part(group, failed)
        once_read(group.cells["a"], monkeypatch, lambda: collect(group, consumer, cells))
        if in_time:
            with pytest.raises(CellUnavailableError):
                await send(other, repeated=True)
        else:
            await send(other, repeated=True)
        came_back = segments_in(group.cells["b"])
        at.at = group.drop("a")
        group.clock.advance(31)
        assert bool(came_back) is bool(await consume(consumer)) is not in_time

    asyncio.run(story())


def test_what_is_collected_between_the_query_and_the_read_is_not_found(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, _, _ = bag_of(group)
    consumer, cells, _ = bag_of(group)
    other, _, _ = bag_of(group)
    before_it_gives(monkeypatch, lambda: collect(group, consumer, cells))

    async def story() -> None:
        await send_in_part(group, failed)
        (old,) = segments_in(group.cells["b"])
        await send(other, repeated=True)
        monkeypatch.undo()
        stored = [segments_in(group.cells[name]) for name in "abc"]
        assert stored[0] == stored[1] == stored[2]
        assert len(stored[0]) == 1
        assert old not in stored[0]

    asyncio.run(story())


def test_what_is_deleted_and_not_collected_yet_is_given_to_nobody(group: Group) -> None:
    failed, _, _ = bag_of(group)
    consumer, _, _ = bag_of(group)
    other, _, _ = bag_of(group)

    async def story() -> None:
        await send_in_part(group, failed)
        deleted = await consume(consumer)
        assert await send(other, repeated=True) == deleted
        assert segments_in(group.cells["c"]) == []

    asyncio.run(story())


def test_what_only_a_member_had_that_is_dropped_meanwhile_is_stored_again(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would count as sent, and the member that serves now lack it."""
    failed, _, _ = bag_of(group)
    other, _, at = bag_of(group)

    async def drop() -> None:
        at.at = group.drop("a")

    async def story() -> None:
        group.cells["b"].down = True
        await send_in_part(group, failed)
        group.cells["b"].down = False
        before_it_gives(monkeypatch, drop)
        sent = await send(other, repeated=True)
        group.clock.advance(4)
        assert await consume(other) == sent

    asyncio.run(story())


def test_an_item_is_given_well_before_anybody_collects_it() -> None:
    assert member_cell.GIVE_US_MAX * 4 <= bounds.COLLECT_AFTER_US


def test_a_state_that_is_collected_while_it_is_merged_does_not_come_back_in_part(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Key("S|u|00|0", b"block")
    cell = group.cells["b"]
    target = MemberCell(cell, Member("b"))
    update = cell.update

    async def late(key: Key, *call: object) -> object:
        cell.expire([key])
        return await update(key, *call)

    async def story() -> None:
        await cell.update(state, Update({"v": 1}, {"d": frozenset({0})}))
        monkeypatch.setattr(cell, "update", late)
        known: Attributes = {"v": 1, "d": frozenset({0, 1}), "m2": b"lease"}
        await copying.copy_item(
            MemberCell(group.cells["a"], Member("a")), target, Item(state, known), lacking
        )
        assert cell.items() == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("deleted", "needed"), [(None, True), ({3}, True), ({4, 5}, True), ({3, 4, 5, 9}, False)]
)
def test_a_segment_is_needed_until_all_its_messages_are_deleted(
    deleted: set[int] | None, *, needed: bool
) -> None:
    segment: Attributes = {"v": 1, "k": "s", "i": 3, "n": 3}
    state: Attributes | None = None if deleted is None else {"v": 1, "d": frozenset(deleted)}
    assert is_needed(segment, state) is needed
    assert is_needed({"v": 1, "k": "m"}, state)
