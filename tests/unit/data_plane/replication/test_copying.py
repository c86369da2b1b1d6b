"""What a member that joins is given, beside what it gets as it happens."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from data_plane.ports import Key, Update
from data_plane.replication.copying import Position, copy_some
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Member, Placement
from data_plane.stored.lease import Lease
from data_plane.stored.merging import lacking
from tests.unit.data_plane.replication.conftest import Group, Map

T = TypeVar("T")

STATES, SLOTS = "F|u|00|0", "G|u|00|0"
JOINING = Member("d", 2, full=False)


def joined(group: Group) -> Placement:
    group.at = replace(group.at, epoch=2, members=(*group.at.members, JOINING))
    return group.at


async def copy_all(group: Group, source: str, items_max: int = 10) -> int:
    steps, position = 0, Position()
    while True:
        steps += 1
        on = await copy_some(
            group.waits,
            MemberCell(group.cells[source], Member(source)),
            MemberCell(group.cells["d"], JOINING),
            lacking,
            (SLOTS, STATES),
            position,
            items_max,
        )
        if on is None:
            return steps
        position = on


def test_everything_is_copied_in_bounded_steps(group: Group) -> None:
    async def story() -> None:
        chain = group.chain()
        for number in range(300):
            await chain.put(Key(SLOTS, number.to_bytes(8, "big")), {"v": 1, "n": number})
        await chain.update(Key(STATES, b"0"), Update(assign={"v": 1}))
        at = joined(group)
        assert await copy_all(group, "c") > 4
        group.at = replace(at, epoch=3, members=(*at.members[:3], JOINING._replace(full=True)))
        new = group.chain()
        assert await new.query(SLOTS, limit=500) == await chain.query(SLOTS, limit=500)
        assert await new.get(Key(STATES, b"0")) == {"v": 1}

    asyncio.run(story())


def test_a_copy_takes_the_place_of_nothing_that_was_written_meanwhile(group: Group) -> None:
    state = Key(STATES, b"0")

    async def story() -> None:
        await group.chain().update(state, Update(assign={"v": 1, "m0": b"old"}))
        stale = (await group.cells["c"].query(STATES, limit=1))[0].attributes
        chain = group.chain(joined(group))
        await chain.update(state, Update(assign={"m0": b"new"}))
        await group.cells["c"].put(state, stale)
        await copy_all(group, "c")
        found = await group.cells["d"].get(Key(f"{STATES}@2", b"0"))
        assert found is not None
        assert found["m0"] == b"new"

    asyncio.run(story())


def test_states_of_standard_queues_are_united(group: Group) -> None:
    state = Key(STATES, b"0")

    async def story() -> None:
        cells = group.fanout()
        await cells.update(
            state, Update(assign={"v": 1, "m5": b"lease"}, add={"d": frozenset({1, 2})})
        )
        cells = group.fanout(joined(group))
        await cells.update(state, Update(assign={"v": 1}, add={"d": frozenset({3})}))
        await cells.ship()
        await copy_all(group, "a")
        assert await group.cells["d"].get(Key(f"{STATES}@2", b"0")) == {
            "v": 1,
            "m5": b"lease",
            "d": frozenset({1, 2, 3}),
        }

    asyncio.run(story())


def test_a_member_that_knows_more_is_written_nothing(group: Group) -> None:
    async def story() -> None:
        key = Key(f"{STATES}@2", b"0")
        known = {"v": 1, "d": frozenset({1, 2})}
        await group.cells["a"].put(Key(STATES, b"0"), {"v": 1, "d": frozenset({1})})
        await group.cells["d"].put(key, known)
        group.forget()
        await copy_all(group, "a")
        assert await group.cells["d"].get(key) == known
        assert group.cells["d"].requests["update"] == 0

    asyncio.run(story())


def leased(receive_count: int, until_ms: int) -> bytes:
    return Lease(until_ms, receive_count, 1, 1, 0, bytes(8)).to_bytes()


@pytest.mark.parametrize("shared", [False, True])
def test_who_is_told_of_an_old_lease_gets_the_present_one(group: Group, *, shared: bool) -> None:
    """Whoever took the old one tells of it late; who took the present one told those before."""
    state = Key(STATES, b"0")

    async def story() -> None:
        late, cells = group.fanout(group.at), group.fanout(group.at)
        await late.update(state, Update(assign={"v": 1, "x": 1, "m0": leased(1, 10)}))
        await cells.update(state, Update(assign={"v": 1, "x": 2, "m0": leased(3, 90)}))
        await cells.ship()
        at = joined(group)
        late._placement = Map(at)
        await late.ship()
        joining = MemberCell(group.cells["d"], JOINING)
        assert (await joining.get(state) or {})["m0"] == leased(1, 10)
        if shared:
            await group.fanout(at).share(state)
        else:
            await copy_all(group, "a")
        assert await joining.get(state) == {"v": 1, "x": 2, "m0": leased(3, 90)}

    asyncio.run(story())


def test_no_more_is_put_at_a_time_than_was_asked_for(group: Group) -> None:
    at_a_time: list[int] = []

    class Counting(type(group.waits)):  # type: ignore[misc]
        async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
            at_a_time.append(len(calls))
            return await group.waits.all_of(calls)

    async def story() -> None:
        for number in range(100):
            await group.cells["a"].put(Key(STATES, b"%03d" % number), {"v": 1})
        source = MemberCell(group.cells["a"], Member("a"))
        target = MemberCell(group.cells["d"], JOINING)
        waits = Counting.__new__(Counting)
        assert (
            await copy_some(waits, source, target, lacking, (STATES,), Position(), 1_000, 3) is None
        )
        assert len(await target.query(STATES, limit=500)) == 100
        assert (max(at_a_time), sum(at_a_time)) == (3, 100)

    asyncio.run(story())
