"""Engines of front ends whose map of the cells is old, as the simulator found them."""

import asyncio

from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import Members, fifo_cells
from control_plane.places.items import StoredPlacement
from control_plane.places.stored import PlaceMap
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.receipt_handle import decode
from data_plane.log.engine import Log
from tests.unit.data_plane.replication.conftest import Group
from tests.unit.data_plane.replication.test_engines import FIFO
from tests.unit.repeatable import SeededEntropy


def front_end(group: Group) -> tuple[Log, CachedMap]:
    async def read() -> PlaceMap:
        stored = StoredPlacement(group.at, 3, b"")
        return PlaceMap({"g3.00": stored}, {}, group.clock.now_us())

    known = CachedMap(read, group.clock)
    cells = fifo_cells(Members(group.cells, known, group.clock, group.waits))
    log = Log({"g3.00": cells["g3.00"]}, group.clock, SeededEntropy(), group.waits)
    return log, known


async def send_without(group: Group, member: str) -> tuple[Log, Log]:
    """Drop the member and send a message: who sent it, and who has not heard of the drop."""
    log, known = front_end(group)
    old, old_map = front_end(group)
    await old_map.refresh()
    group.drop(member)
    await known.refresh()
    await log.send(
        FIFO, SendCall("s", [Outgoing(body="1", size=1, group="g", deduplication_id="1")])
    )
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
