"""Engines of front ends whose map of the cells is old, as the simulator found them."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import Members, fifo_cells, standard_cells
from control_plane.places.items import StoredPlacement
from control_plane.places.stored import PlaceMap
from control_plane.places.takeover import WaitingCell
from data_plane.bag.engine import Bag
from data_plane.core.deadline import deadline, left_us
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import EXACTLY_ONCE
from data_plane.core.receipt_handle import decode
from data_plane.log.engine import Log
from data_plane.ports import (
    Attributes,
    CellUnavailableError,
    DeadlinePassedError,
    Key,
    Update,
    Written,
    is_replicated,
)
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import StalePlacementError
from tests.unit.control_plane.cluster.test_hanging import LoopClock
from tests.unit.data_plane.replication.conftest import ABC, CellThatFails, Group
from tests.unit.data_plane.replication.test_engines import FIFO, STANDARD
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop
from tests.unit.data_plane.runtime.virtual_loop import run as virtual
from tests.unit.repeatable import HandClock, SeededEntropy


def map_of(group: Group) -> CachedMap:
    async def read() -> PlaceMap:
        stored = StoredPlacement(group.at, 3, b"")
        return PlaceMap({"g3.00": stored}, {}, group.clock.now_us())

    return CachedMap(read, group.clock)


def front_end(group: Group) -> tuple[Log, CachedMap]:
    known = map_of(group)
    cells = fifo_cells(Members(group.cells, known, group.clock, group.waits))
    log = Log({"g3.00": cells["g3.00"]}, group.clock, SeededEntropy(), group.waits)
    return log, known


def standard_front_end(group: Group) -> tuple[Bag, CachedMap]:
    known = map_of(group)
    cells = standard_cells(Members(group.cells, known, group.clock, group.waits))
    bag = Bag({"g3.00": cells["g3.00"]}, group.clock, SeededEntropy(), group.waits)
    return bag, known


def call_of(*bodies: str) -> SendCall:
    return SendCall(
        "s", [Outgoing(body=body, size=1, group=body, deduplication_id=body) for body in bodies]
    )


async def two_front_ends(group: Group) -> tuple[Log, CachedMap, Log]:
    """One, its map, and another one, which will not hear of what changes in that."""
    log, known = front_end(group)
    old, old_map = front_end(group)
    await known.refresh()
    await old_map.refresh()
    return log, known, old


async def send_without(group: Group, member: str) -> tuple[Log, Log]:
    """Drop the member and send a message: who sent it, and who has not heard of the drop."""
    log, known, old = await two_front_ends(group)
    group.drop(member)
    await known.refresh()
    await log.send(FIFO, call_of("1"))
    return log, old


def test_a_member_that_was_dropped_does_not_say_that_a_message_is_deleted() -> None:
    group = Group()

    async def story() -> None:
        log, old = await send_without(group, "c")
        taken = await log.receive(FIFO, count=1, visibility_s=5, until_us=0)
        handle = decode(taken[0].receipt_handle, FIFO)
        # The old map's last member is c, which knows nothing of the block.
        assert await old.delete(FIFO, [handle]) == [None]
        group.clock.advance(6)
        assert await log.receive(FIFO, count=1, visibility_s=5, until_us=0) == []
        # And what was collected is deleted.
        for cell in group.cells.values():
            for item in cell.items():
                if item.key.partition.startswith("F|"):
                    cell.expire([item.key])
        assert await old.delete(FIFO, [handle]) == [None]

    asyncio.run(story())


def test_a_head_that_was_dropped_does_not_say_that_a_block_was_collected() -> None:
    group = Group()

    async def story() -> None:
        log, old = await send_without(group, "a")
        assert await log.receive(FIFO, count=1, visibility_s=5, until_us=0)
        assert await old.receive(FIFO, count=1, visibility_s=5, until_us=0) == []
        group.clock.advance(6)
        # The old map's first member is a, which knows nothing of the lease that all others have.
        (again,) = await old.receive(FIFO, count=1, visibility_s=5, until_us=0)
        assert (again.message.body, again.receive_count) == ("1", 2)

    asyncio.run(story())


def test_a_member_that_was_dropped_does_not_say_that_a_message_is_not_in_flight() -> None:
    group = Group()

    async def story() -> None:
        log, known, old = await two_front_ends(group)
        await log.send(FIFO, call_of("1", "2"))
        (first,) = await log.receive(FIFO, count=1, visibility_s=5, until_us=0)
        group.drop("c")
        await known.refresh()
        (second,) = await log.receive(FIFO, count=1, visibility_s=5, until_us=0)
        # The old map's last member is c: it knows the block, and of one lease.
        for held in (second, first):
            handle = decode(held.receipt_handle, FIFO)
            assert await old.change_visibility(FIFO, [(handle, 30)]) == [None]
        group.clock.advance(6)
        assert await log.receive(FIFO, count=2, visibility_s=5, until_us=0) == []
        assert await old.delete(FIFO, [decode(second.receipt_handle, FIFO)]) == [None]
        group.clock.advance(25)
        (again,) = await log.receive(FIFO, count=2, visibility_s=5, until_us=0)
        assert again.message.body == first.message.body

    asyncio.run(story())


def test_nor_that_a_handle_has_expired() -> None:
    group = Group()

    async def story() -> None:
        log, known, old = await two_front_ends(group)
        await log.send(FIFO, call_of("1", "2"))
        assert await log.receive(FIFO, count=1, visibility_s=5, until_us=0)
        group.drop("c")
        await known.refresh()
        (second,) = await log.receive(FIFO, count=1, visibility_s=5, until_us=0)
        assert await old.delete(FIFO, [decode(second.receipt_handle, FIFO)]) == [None]

    asyncio.run(story())


def test_nor_that_a_message_is_still_as_it_was_given_back() -> None:
    group = Group()

    async def story() -> None:
        log, known, old = await two_front_ends(group)
        await log.send(FIFO, call_of("1"))
        (first,) = await log.receive(FIFO, count=1, visibility_s=5, until_us=0)
        give_back = [(decode(first.receipt_handle, FIFO), 0)]
        assert await log.change_visibility(FIFO, give_back) == [None]
        group.drop("c")
        await known.refresh()
        assert await log.receive(FIFO, count=1, visibility_s=5, until_us=0)
        # The old map's last member is c.
        (refusal,) = await old.change_visibility(FIFO, give_back, repeated=True)
        assert refusal is not None, "it is the next receiver's by now"

    asyncio.run(story())


def test_nor_does_one_of_a_standard_queue() -> None:
    group = Group()
    queue = replace(STANDARD, attributes={"TidegateDeliveryGuarantee": EXACTLY_ONCE})

    async def story() -> None:
        bag, known = standard_front_end(group)
        old, old_map = standard_front_end(group)
        other, other_map = standard_front_end(group)
        await old_map.refresh()
        await other_map.refresh()
        group.drop("a")
        await known.refresh()
        await bag.send(queue, call_of("1"))
        (taken,) = await bag.receive(queue, count=1, visibility_s=5, until_us=0)
        handle = decode(taken.receipt_handle, queue)
        assert await old.change_visibility(queue, [(handle, 30)]) == [None]
        group.clock.advance(6)
        assert await bag.receive(queue, count=1, visibility_s=5, until_us=0) == []
        assert await other.delete(queue, [handle]) == [None]

    asyncio.run(story())


def test_nor_that_an_attempt_took_nothing() -> None:
    group = Group()

    async def story() -> None:
        log, old = await send_without(group, "c")
        taken = await log.receive(FIFO, count=1, visibility_s=30, until_us=0, attempt="x")
        again = await old.receive(FIFO, count=1, visibility_s=30, until_us=0, attempt="x")
        assert [held.message.body for held in (*taken, *again)] == ["1", "1"]

    asyncio.run(story())


def test_who_shares_a_look_at_the_map_has_its_own_time_for_it() -> None:
    """The one who begins it has little left, which says nothing of the others."""
    group = Group()

    async def read() -> PlaceMap:
        left = left_us(group.clock.now_us())
        group.clock.advance(2)
        if left is not None and left < 2_000_000:
            raise DeadlinePassedError("the registry did not answer in time")
        return PlaceMap({"g3.00": StoredPlacement(ABC, 3, b"")}, {}, group.clock.now_us())

    async def story() -> None:
        known = CachedMap(read, group.clock)
        await known.refresh()
        key = Key("F|u|00|0", b"1")
        cell = fifo_cells(Members(group.cells, known, group.clock, group.waits))["g3.00"]
        assert is_replicated(cell)
        await group.chain().put(key, {"v": 1})

        async def look(for_s: int) -> Attributes | None:
            with deadline(group.clock.now_us() + for_s * 1_000_000):
                return await cell.get_now(key)

        _, found = await asyncio.gather(look(1), look(30), return_exceptions=True)
        assert found == {"v": 1}

    asyncio.run(story())


def test_after_a_stop_of_the_process_requests_go_by_a_map_that_is_read_then() -> None:
    """A machine that slept: they are not refused for the map having been old when they came."""
    group = Group()

    async def story() -> None:
        bag, known = standard_front_end(group)
        log, log_known = front_end(group)
        for one in (known, log_known):
            await one.refresh()
        group.clock.advance(3600)
        with deadline(group.clock.now_us() + 30_000_000):
            await bag.send(STANDARD, call_of("1"))
            await log.send(FIFO, call_of("1"))
            group.clock.advance(4)
            for engine, queue in ((bag, STANDARD), (log, FIFO)):
                received = await engine.receive(queue, count=1, visibility_s=5, until_us=0)
                assert [one.message.body for one in received] == ["1"]

    asyncio.run(story())


class SlowCell(CellThatFails):
    """A change takes longer than a map may be kept."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self._hand = clock

    async def update(self, *call: Any, **options: Any) -> Written:
        written = await super().update(*call, **options)
        self._hand.advance(61)
        return written


def test_what_was_done_while_the_map_got_too_old_is_to_be_told() -> None:
    group = Group()
    group.cells["a"] = SlowCell(group.clock)

    async def story() -> None:
        known = map_of(group)
        await known.refresh()
        members = Members(group.cells, known, group.clock, group.waits)
        fanout = members.fanout("g3.00", acknowledge_first=False)
        key = Key("S|0011223344556600|00|0", bytes(10))
        with pytest.raises(StalePlacementError):
            await fanout.update(key, Update({"v": 1}, {"d": frozenset({1})}))
        assert fanout.oldest_us() is not None
        await known.refresh()
        assert await fanout.ship() == 0
        assert await group.cells["b"].get(key) == await group.cells["a"].get(key)

    asyncio.run(story())


def test_a_group_with_a_cell_that_this_server_is_not_told_of_is_refused_as_unavailable() -> None:
    group = Group()

    async def story() -> None:
        known = map_of(group)
        await known.refresh()
        cells = {"b": group.cells["b"]}
        members = Members(cells, known, group.clock, group.waits)
        for cell in (members.chain("g3.00"), members.fanout("g3.00", acknowledge_first=False)):
            for tell in (
                cell.now_us,
                lambda cell=cell: cell.has_room(1),
                lambda cell=cell: cell.eras,
            ):
                with pytest.raises(CellUnavailableError):
                    tell()

    asyncio.run(story())


def test_who_sees_to_it_that_all_is_told_waits_while_others_tell_it() -> None:
    """A server begins to tell it twenty times a second: who gave up then would hardly succeed."""
    loop = VirtualLoop()
    group = Group(LoopClock(loop))

    async def story() -> None:
        known, update = map_of(group), group.cells["b"].update
        await known.refresh()
        cell = standard_cells(Members(group.cells, known, group.clock, group.waits))["g3.00"]
        assert isinstance(cell, WaitingCell)
        assert isinstance(cell.inner, Fanout)

        async def slowly(*call: Any, **options: Any) -> Written:
            await asyncio.sleep(0.02)
            return await update(*call, **options)

        group.cells["b"].update = slowly  # type: ignore[method-assign]
        key = Key("S|0011223344556600|00|0", bytes(10))
        await cell.update(key, Update({"v": 1}, {"d": frozenset({1})}))
        ship = asyncio.create_task(cell.inner.ship())
        await asyncio.sleep(0)
        await cell.tell()
        await ship
        assert await group.cells["b"].get(key) == await group.cells["a"].get(key)

    virtual(story(), loop)
