"""The engines over groups: what they keep when a cell is lost, and what their calls cost."""

import asyncio
from dataclasses import replace

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.receipt_handle import decode
from data_plane.log.engine import Log
from data_plane.ports import CellUnavailableError
from data_plane.replication.chain import Chain
from data_plane.replication.copying import Position, copy_some
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Member, Placement
from data_plane.stored import counting, keys
from data_plane.stored.merging import lacking
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.log.conftest import QUEUE as FIFO_QUEUE
from tests.unit.data_plane.replication.conftest import Group, Map
from tests.unit.repeatable import SeededEntropy

STANDARD = replace(QUEUE, cell="g3.00")
FIFO = replace(FIFO_QUEUE, cell="g3.00")


def message(body: str, group: str = "") -> Outgoing:
    return Outgoing(body=body, size=len(body), group=group, deduplication_id=body if group else "")


def bag_of(group: Group) -> tuple[Bag, Fanout, Map]:
    at = Map(group.at)
    cells = Fanout(at, group.cells, group.waits, lacking)
    return Bag({"g3.00": cells}, group.clock, SeededEntropy(), group.waits), cells, at


def log_of(group: Group) -> tuple[Log, Map]:
    at = Map(group.at)
    cells = {"g3.00": Chain(at, group.cells, group.waits)}
    return Log(cells, group.clock, SeededEntropy(), group.waits), at


def test_a_standard_send_is_one_write_in_each_member(group: Group) -> None:
    bag, _, _ = bag_of(group)

    async def story() -> None:
        await bag.receive(STANDARD, count=1, visibility_s=30, until_us=0)
        group.forget()
        await bag.send(STANDARD, SendCall("s", [message(str(n)) for n in range(10)]))

    asyncio.run(story())
    assert group.writes() == {"a": 1, "b": 1, "c": 1, "d": 0}
    assert sum(sum(cell.requests.values()) for cell in group.cells.values()) == 3


def test_a_fifo_send_is_one_write_in_each_member(group: Group) -> None:
    log, _ = log_of(group)

    async def story() -> None:
        await log.send(FIFO, SendCall("s", [message("0", "g")]))
        group.forget()
        await log.send(FIFO, SendCall("s", [message(str(n), "g") for n in range(1, 11)]))

    asyncio.run(story())
    assert group.writes() == {"a": 1, "b": 1, "c": 1, "d": 0}
    assert sum(sum(cell.requests.values()) for cell in group.cells.values()) == 3


def test_standard_messages_outlive_the_cell_that_served_them(group: Group) -> None:
    bag, cells, at = bag_of(group)

    async def story() -> None:
        await bag.send(STANDARD, SendCall("s", [message(str(n)) for n in range(10)]))
        group.clock.advance(5)
        first = await bag.receive(STANDARD, count=3, visibility_s=30, until_us=0)
        await bag.delete(STANDARD, [decode(one.receipt_handle, STANDARD) for one in first])
        await cells.ship()
        group.cells["a"].down = True
        with pytest.raises(CellUnavailableError):
            await bag.send(STANDARD, SendCall("s", [message("x")]))
        at.at = group.drop("a")
        left = await bag.receive(STANDARD, count=10, visibility_s=30, until_us=0)
        bodies = {one.message.body for one in (*first, *left)}
        assert bodies >= {str(n) for n in range(10)}
        assert not {one.message.body for one in first} & {one.message.body for one in left}

    asyncio.run(story())


def test_a_raised_retention_is_in_force_once_all_members_know_it(group: Group) -> None:
    bag, cells, _ = bag_of(group)
    raised = replace(STANDARD, retention_s=1_209_600)

    async def story() -> None:
        await bag.send(STANDARD, SendCall("s", [message("0")]))
        await cells.ship()
        group.cells["c"].down = True
        with pytest.raises(CellUnavailableError):
            await bag.restamp(raised)
        group.cells["c"].down = False
        await bag.restamp(raised)
        (stored,) = {
            item.attributes["x"]
            for cell in (group.cells[name] for name in "abc")
            for item in cell.items()
            if item.key.partition.startswith("B|")
        }
        assert stored == group.clock.now_us() // 1_000_000 + 1_209_600 + 3600

    asyncio.run(story())


def test_fifo_order_and_deduplication_outlive_the_head(group: Group) -> None:
    log, at = log_of(group)
    other, at_other = log_of(group)

    async def story() -> None:
        first = await log.send(FIFO, SendCall("s", [message("1", "g")]))
        await log.send(FIFO, SendCall("s", [message("2", "g")]))
        taken = await log.receive(FIFO, count=1, visibility_s=30, until_us=0)
        group.cells["a"].down = True
        with pytest.raises(CellUnavailableError):
            await log.send(FIFO, SendCall("s", [message("3", "g")]))
        at.at = at_other.at = group.drop("a")
        # The other front end knows nothing: it reads what the survivors have.
        again = await other.send(FIFO, SendCall("s", [message("1", "g")]))
        assert again == first
        assert await other.receive(FIFO, count=10, visibility_s=30, until_us=0) == []
        await other.delete(FIFO, [decode(taken[0].receipt_handle, FIFO)])
        await log.send(FIFO, SendCall("s", [message("3", "g")]))
        left = await other.receive(FIFO, count=10, visibility_s=30, until_us=0)
        assert [one.message.body for one in left] == ["2", "3"]

    asyncio.run(story())


JOINING = Member("d", 2, full=False)


def joined(group: Group) -> Placement:
    return replace(group.at, epoch=2, members=(*group.at.members, JOINING))


def alone(group: Group) -> Placement:
    return replace(group.at, epoch=3, members=(JOINING._replace(full=True),))


async def copy_all(group: Group, source: str, partitions: tuple[str, ...]) -> None:
    full, joining = (
        MemberCell(group.cells[member.cell], member) for member in (Member(source), JOINING)
    )
    assert (
        await copy_some(group.waits, full, joining, lacking, partitions, Position(), 10_000) is None
    )


@pytest.mark.parametrize("copies", [1, 2])
def test_who_joins_counts_what_was_there_before(group: Group, copies: int) -> None:
    """Also in the counters that change meanwhile; and copying may be repeated."""
    bag, cells, at = bag_of(group)

    async def story() -> None:
        await bag.send(STANDARD, SendCall("s", [message(str(n)) for n in range(10)]))
        group.clock.advance(5)
        first = await bag.receive(STANDARD, count=5, visibility_s=600, until_us=0)
        at.at = joined(group)
        await bag.delete(STANDARD, [decode(one.receipt_handle, STANDARD) for one in first[:4]])
        await bag.send(STANDARD, SendCall("s", [message("late")]))
        await cells.ship()
        for _ in range(copies):
            await copy_all(group, "a", keys.partitions(STANDARD.uid))
        expected = await bag.counts(STANDARD)
        assert (expected.visible, expected.in_flight) == (6, 1)
        at.at = alone(group)
        assert await bag.counts(STANDARD) == expected

    asyncio.run(story())


def test_who_joins_a_chain_counts_what_was_there_before(group: Group) -> None:
    log, at = log_of(group)

    async def story() -> None:
        await log.send(FIFO, SendCall("s", [message(str(n), str(n)) for n in range(10)]))
        group.clock.advance(5)
        first = await log.receive(FIFO, count=5, visibility_s=600, until_us=0)
        at.at = joined(group)
        await log.delete(FIFO, [decode(one.receipt_handle, FIFO) for one in first[:4]])
        await log.send(FIFO, SendCall("s", [message("late", "late")]))
        await copy_all(group, "c", (keys.counters(FIFO.uid),))
        expected = await log.counts(FIFO)
        assert (expected.visible, expected.in_flight) == (6, 1)
        at.at = alone(group)
        assert await log.counts(FIFO) == expected

    asyncio.run(story())


def test_a_counter_below_0_hides_nothing_of_others(group: Group) -> None:
    """What deleted a message may be known where its send is not."""
    bag, _, _ = bag_of(group)
    minute = group.clock.now_us() // counting.MINUTE_US
    lost = keys.counter(STANDARD.uid, STANDARD.purged_us, counting.ALIVE, minute - 1)

    async def story() -> None:
        await bag.send(STANDARD, SendCall("s", [message(str(n)) for n in range(10)]))
        for name in "abc":
            await group.cells[name].put(lost, {"n": -7})
        assert (await bag.counts(STANDARD)).visible == 10

    asyncio.run(story())
