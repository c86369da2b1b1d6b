"""Bugs that simulated universes showed, or that were found beside them, each in a few steps."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from data_plane.bag import fair
from data_plane.bag.desk import open_lane
from data_plane.bag.engine import Bag
from data_plane.ports import (
    ITEM_ABSENT,
    Absent,
    Append,
    Attributes,
    CellUnavailableError,
    Key,
    Replicated,
    Update,
    Written,
)
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import StalePlacementError
from data_plane.replication.placement import Member, Placement
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from data_plane.stored.merging import is_needed, lacking
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.replication.conftest import ABC, Group, Map
from tests.unit.repeatable import SeededEntropy

SLOT = Key("G|u|00|0", b"\x00" * 7 + b"\x01")
STATE = Key("S|u|00|0", b"block")
DELETED = Update(assign={"v": 1}, add={"d": frozenset({3})})


class Shifting:
    """A map that becomes another one once it was asked so often."""

    def __init__(self, before: Placement, after: Placement, asked: int = 1) -> None:
        self._before, self._after, self._left = before, after, asked

    def __call__(self) -> Placement:
        self._left -= 1
        return self._before if self._left >= 0 else self._after


def joined(group: Group, *, epoch: int = 2, full: bool = False) -> Placement:
    return Placement("g3.00", epoch, (*group.at.members, Member("d", epoch, full=full)))


def fanout(group: Group, placement: Shifting) -> Fanout:
    return Fanout(placement, group.cells, EventLoopWaits(group.clock), lacking)


def test_who_serves_next_is_told_what_was_decided_while_the_map_changed(group: Group) -> None:
    before = group.at
    cells = fanout(group, Shifting(before, group.drop("a")))

    async def story() -> None:
        await cells.update(STATE, DELETED)
        await cells.ship()
        assert await group.fanout(group.drop("a")).get(STATE) == {"v": 1, "d": frozenset({3})}

    asyncio.run(story())


def test_who_joined_is_told_what_was_decided_by_the_map_before(group: Group) -> None:
    cells = fanout(group, Shifting(group.at, joined(group)))

    async def story() -> None:
        await cells.update(STATE, DELETED)
        await cells.ship()

    asyncio.run(story())
    assert group.writes() == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_who_joined_is_told_what_others_were_still_to_be_told(group: Group) -> None:
    placement = Map(group.at)
    cells = Fanout(placement, group.cells, group.waits, lacking)

    async def story() -> None:
        await cells.update(STATE, DELETED)
        # Copied to before those that are left heard of the delete, from one of them.
        group.drop("a")
        placement.at = joined(group, epoch=3, full=True)
        await cells.ship()

    asyncio.run(story())
    assert group.writes() == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_who_joins_while_others_are_told_is_told(group: Group) -> None:
    cells = fanout(group, Shifting(group.at, joined(group, full=True), asked=4))

    async def story() -> None:
        await cells.update(STATE, DELETED)
        assert await cells.ship() > 0
        await cells.ship()

    asyncio.run(story())
    assert group.writes()["d"] == 1


def test_who_joins_is_told_also_where_another_change_is_noted_while_others_are_told(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    placement = Map(group.drop("c"))
    cells = Fanout(placement, group.cells, group.waits, lacking)
    update = group.cells["b"].update

    async def slowly(*call: Any, **options: Any) -> Written:
        if placement.at is group.at:
            placement.at = joined(group, epoch=3, full=True)
            await cells.update(STATE._replace(sort=b"other"), DELETED)
        return await update(*call, **options)

    async def story() -> None:
        await cells.update(STATE, DELETED)
        monkeypatch.setattr(group.cells["b"], "update", slowly)
        while await cells.ship():
            pass

    asyncio.run(story())
    assert len(group.cells["d"].items()) == len(group.cells["a"].items()) == 2


class TooOld(Map):
    """A map that is too old the n-th time it is asked."""

    def __init__(self, at: Placement, asked: int) -> None:
        super().__init__(at)
        self.left = asked

    def __call__(self) -> Placement:
        self.left -= 1
        if self.left == 0:
            raise StalePlacementError("the map of cells is 19 s old")
        return self.at


@pytest.mark.parametrize("asked", range(1, 12))
def test_whenever_the_map_grows_too_old_what_is_not_told_is_told_the_next_time(
    group: Group, asked: int
) -> None:
    at = TooOld(group.at, 0)
    cells = Fanout(at, group.cells, group.waits, lacking)

    async def story() -> None:
        for number in range(3):
            await cells.update(STATE, Update(assign={"v": 1}, add={"d": frozenset({number})}))
        at.left = asked
        try:
            left = await cells.ship()
        except StalePlacementError:
            left = 1
        assert left or at.left > 0
        at.left = 0
        assert await cells.ship() == 0
        for name in "bc":
            assert await group.cells[name].get(STATE) == {"v": 1, "d": frozenset(range(3))}

    asyncio.run(story())


def test_what_is_being_told_counts_as_untold_and_is_not_forgotten_where_that_is_cancelled(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = group.fanout()
    is_asked = asyncio.Event()

    async def never(*_call: Any) -> Written:
        is_asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def story() -> None:
        await cells.update(STATE, DELETED)
        decided_us = group.clock.now_us()
        group.clock.advance(2)
        with monkeypatch.context() as patched:
            patched.setattr(group.cells["b"], "update", never)
            shipping = asyncio.create_task(cells.ship())
            await is_asked.wait()
            assert cells.oldest_us() == decided_us
            with pytest.raises(CellUnavailableError):
                await cells.tell()
            shipping.cancel()
            await asyncio.wait({shipping})
        assert cells.oldest_us() == decided_us
        assert await cells.ship() == 0
        assert await group.cells["b"].get(STATE) == {"v": 1, "d": frozenset({3})}

    asyncio.run(story())


def test_an_append_that_took_so_long_that_a_member_joined_is_not_acknowledged(
    group: Group,
) -> None:
    record = Append("B|u|00|0", b"1", {"v": 1}, group.clock.now_us())

    async def story() -> None:
        with pytest.raises(StalePlacementError):
            await fanout(group, Shifting(group.at, joined(group))).append(record)

    asyncio.run(story())


WRITES: dict[str, Callable[[Chain], Awaitable[Written]]] = {
    "put": lambda chain: chain.put(SLOT, {"v": 1}),
    "update": lambda chain: chain.update(SLOT, DELETED),
    "delete": lambda chain: chain.delete(SLOT),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_to_a_chain_that_took_so_long_that_a_member_joined_is_not_acknowledged(
    group: Group, write: Callable[[Chain], Awaitable[Written]]
) -> None:
    async def story() -> None:
        await group.chain().put(SLOT, {"v": 1, "w": b"1"})
        with pytest.raises(StalePlacementError):
            await write(Chain(Shifting(group.at, joined(group)), group.cells, group.waits))

    asyncio.run(story())


REFUSED: dict[str, Callable[[Chain], Awaitable[Written]]] = {
    "put": lambda chain: chain.put(SLOT, {"v": 1, "w": b"2"}, ITEM_ABSENT),
    "update": lambda chain: chain.update(SLOT, DELETED, ((Absent("w"),),)),
    "delete": lambda chain: chain.delete(SLOT, ITEM_ABSENT),
}


@pytest.mark.parametrize("write", REFUSED.values(), ids=REFUSED)
def test_what_a_condition_fails_on_is_no_fact_where_a_member_joined_meanwhile(
    group: Group, write: Callable[[Chain], Awaitable[Written]]
) -> None:
    async def story() -> None:
        await group.chain().put(SLOT, {"v": 1, "w": b"1"})
        with pytest.raises(StalePlacementError):
            await write(Chain(Shifting(group.at, joined(group)), group.cells, group.waits))
        refused = await write(group.chain())
        assert (refused.applied, refused.before) == (False, {"v": 1, "w": b"1"})

    asyncio.run(story())


def test_what_is_handed_down_when_a_write_is_refused_was_stored_when_the_last_member_got_it(
    group: Group,
) -> None:
    slow = group.cells["c"]
    put = slow.put

    async def late(*call: Any, **options: Any) -> Written:
        group.clock.advance(400)
        return await put(*call, **options)

    async def story() -> None:
        slow.down = True
        with pytest.raises(CellUnavailableError):
            await group.chain().put(SLOT, {"v": 1, "w": b"1"}, ITEM_ABSENT)
        slow.down = False
        slow.put = late  # type: ignore[method-assign]
        refused = await group.chain().put(SLOT, {"v": 1, "w": b"2"}, ITEM_ABSENT)
        assert (refused.applied, refused.before) == (False, {"v": 1, "w": b"1"})
        assert refused.time_ms == group.clock.now_us() // 1000

    asyncio.run(story())


READS: dict[str, Callable[[Chain], Awaitable[object]]] = {
    "get": lambda chain: chain.get(SLOT),
    "get_many": lambda chain: chain.get_many([SLOT]),
    "query": lambda chain: chain.query(SLOT.partition, limit=9),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_takes_so_long_to_read_that_a_member_joined_is_not_shown(
    group: Group, read: Callable[[Chain], Awaitable[object]]
) -> None:
    async def story() -> None:
        await group.chain().put(SLOT, {"v": 1, "w": b"1"})
        with pytest.raises(StalePlacementError):
            await read(Chain(Shifting(group.at, joined(group)), group.cells, group.waits))
        assert await read(group.chain())

    asyncio.run(story())


def test_what_was_read_long_ago_is_given_to_nobody(group: Group) -> None:
    tail = group.cells["c"]
    get = tail.get

    async def late(key: Key, *, strong: bool = True) -> Attributes | None:
        found = await get(key, strong=strong)
        group.clock.advance(3601)
        return found

    async def story() -> None:
        await group.chain().put(SLOT, {"v": 1})
        tail.get = late  # type: ignore[method-assign]
        with pytest.raises(CellUnavailableError):
            await group.chain(joined(group)).get(SLOT)
        assert not group.cells["d"].items()

    asyncio.run(story())


def test_an_append_that_is_found_is_completed_before_anybody_counts_on_it(group: Group) -> None:
    record = Append("B|u|00|0", b"1", {"v": 1}, group.clock.now_us())
    group.cells["c"].down = True

    async def story() -> None:
        with pytest.raises(CellUnavailableError):
            await group.fanout().append(record)
        other = group.fanout()
        (found,) = await other.query("B|u|00|0", limit=9)
        with pytest.raises(CellUnavailableError):
            await other.complete(found.key, STATE, is_needed)
        group.cells["c"].down = False
        assert await other.complete(found.key, STATE, is_needed)
        assert [item.key for item in group.cells["c"].items()] == [found.key]

    asyncio.run(story())


def test_what_is_read_while_a_member_joins_is_in_that_member_before_anybody_acts_on_it(
    group: Group,
) -> None:
    async def story() -> None:
        await group.chain().put(SLOT, {"v": 1, "w": b"1"})
        await group.chain().update(STATE, DELETED)
        chain = group.chain(joined(group))
        assert await chain.query(SLOT.partition, limit=9)
        assert await chain.get_many([STATE])
        assert len(group.cells["d"].items()) == 2
        after = group.chain(joined(group, full=True))
        assert await after.get(SLOT) == {"v": 1, "w": b"1"}
        assert await after.get(STATE) == {"v": 1, "d": frozenset({3})}

    asyncio.run(story())


def test_what_a_member_still_has_past_its_time_does_not_hide_what_comes_after(
    group: Group,
) -> None:
    past_s = group.clock.now_us() // 1_000_000 - 1

    async def story() -> None:
        chain = group.chain()
        await chain.put(SLOT, {"v": 1, "w": b"1", "x": past_s})
        await chain.update(SLOT, Update({"w": b"2"}))
        await group.cells["a"].delete(SLOT)
        assert (await chain.put(SLOT, {"v": 1, "w": b"3"}, ITEM_ABSENT)).applied
        assert await chain.get(SLOT) == {"v": 1, "w": b"3"}

    asyncio.run(story())


def test_what_the_first_member_knows_is_shared_although_who_did_it_told_nobody(
    group: Group,
) -> None:
    async def story() -> None:
        await group.fanout().update(STATE, Update({"v": 1, "m0": b"lease", "s0": b"slice"}))
        await group.fanout(group.drop("a")).update(STATE, DELETED)
        other = group.fanout(ABC)
        assert await other.share(STATE) == {"v": 1, "m0": b"lease", "s0": b"slice"}
        after = await group.fanout(group.at).get(STATE)
        assert after == {"v": 1, "m0": b"lease", "s0": b"slice", "d": frozenset({3})}

    asyncio.run(story())


def test_a_front_end_remembers_nothing_that_another_member_granted(group: Group) -> None:
    placement = Map(group.at)
    cell = Fanout(placement, group.cells, EventLoopWaits(group.clock), lacking)
    assert isinstance(cell, Replicated)
    assert cell.decider() == "a@0"
    placement.at = group.drop("a")
    assert cell.decider() == "b@0"


def test_who_serves_next_knows_of_lanes_although_who_opened_them_told_nobody(
    group: Group,
) -> None:
    cells = {"g3.00": group.fanout()}
    bag = Bag(cells, group.clock, SeededEntropy(), group.waits)
    queue = replace(QUEUE, cell="g3.00")

    async def story() -> None:
        await fair._announce(open_lane(bag._desk, queue), 1)
        lane = keys.low_water(queue.uid, 1, 0)
        assert await group.fanout(group.drop("a")).get(lane) is not None

    asyncio.run(story())
