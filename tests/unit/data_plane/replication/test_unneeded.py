"""Nothing is collected while a member joins: what is copied to it would be all that is left."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from control_plane.places.cached import MAP_AGE_US_MAX
from data_plane.ports import Append, CellUnavailableError, Item, Key, Update
from data_plane.replication import copying, member_cell, unneeded
from data_plane.replication.chain import Chain
from data_plane.replication.copying import Position, copy_some
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Member, Placement
from data_plane.stored.merging import lacking
from tests.unit.data_plane.replication.conftest import ABC, Group, Map

SEGMENTS: Final = "B|u|00|0"
STATE: Final = Key("S|u|00|0", b"block")
JOINING: Final = Member("d", 2, full=False)
JOINED: Final = replace(ABC, epoch=2, members=(*ABC.members, JOINING))
WHOLE: Final = replace(JOINED, epoch=3, members=(*ABC.members, JOINING._replace(full=True)))
ALONE: Final = replace(WHOLE, epoch=4, members=(JOINING._replace(full=True),))
DELETED: Final = Update(assign={"v": 1}, add={"d": frozenset({0})})

Make = Callable[[Group, Callable[[], Placement]], Fanout | Chain]


def fan_out(group: Group, placement: Callable[[], Placement]) -> Fanout:
    return Fanout(placement, group.cells, group.waits, lacking)


def chain(group: Group, placement: Callable[[], Placement]) -> Chain:
    return Chain(placement, group.cells, group.waits)


@pytest.fixture(params=[fan_out, chain])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def record(group: Group, suffix: bytes = b"1") -> Append:
    return Append(SEGMENTS, suffix, {"v": 1}, group.clock.now_us())


async def stored(group: Group, cells: Fanout | Chain, count: int) -> list[Key]:
    """So many segments, each with a key of its own."""
    return [(await cells.append(record(group, bytes((one,))))).key for one in range(count)]


async def told(cells: Fanout | Chain) -> None:
    if isinstance(cells, Fanout):
        assert await cells.ship() == 0


def test_what_a_copy_brings_late_is_known_to_be_deleted(group: Group, make: Make) -> None:
    """Deleted and no longer needed between the read of a copy and its write."""
    known = Map(ABC)
    cells = make(group, known)

    async def story() -> None:
        segment = (await cells.append(record(group))).key
        known.at = JOINED
        target = MemberCell(group.cells["d"], JOINING)
        source = "a" if isinstance(cells, Fanout) else "c"

        class DeletedAfterTheRead(MemberCell):
            async def query(self, partition: str, *call: Any, **options: Any) -> list[Item]:
                page = await super().query(partition, *call, **options)
                if partition == SEGMENTS and page:
                    await cells.update(STATE, DELETED)
                    await told(cells)
                    cells.expire([segment, STATE])
                return page

        position: Position | None = Position()
        late = DeletedAfterTheRead(group.cells[source], Member(source))
        while position is not None:
            position = await copy_some(
                group.waits, late, target, lacking, (SEGMENTS, STATE.partition), position, 1
            )
        known.at = WHOLE
        alone = make(group, Map(ALONE))
        if await alone.get(segment) is not None:
            state = await alone.get(STATE)
            assert state is not None, "a deleted message came back"
            assert state["d"] == frozenset({0})

    asyncio.run(story())


def test_what_was_held_back_goes_once_all_are_full(group: Group, make: Make) -> None:
    known = Map(JOINED)
    cells = make(group, known)

    async def story() -> None:
        segment = (await cells.append(record(group))).key
        cells.expire([segment])
        assert await cells.get(segment) is not None
        known.at = WHOLE
        await cells.append(record(group, b"2"))
        assert await cells.get(segment) is None
        left = [len(cell.items()) for cell in group.cells.values()]
        assert left == [1, 1, 1, 1]

    asyncio.run(story())


def test_what_was_held_back_goes_in_steps_where_nobody_sends(
    group: Group, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unneeded, "STEP_MAX", 3)
    known = Map(JOINED)
    cells = make(group, known)

    async def story() -> None:
        segments = await stored(group, cells, 6)
        for first in (0, 2, 4):
            cells.expire(segments[first : first + 2])
        cells.let_go()
        assert len(await cells.get_many(segments)) == 6
        known.at = WHOLE
        group.forget()
        left = []
        for _ in range(3):
            cells.let_go()
            left.append([len(cell.items()) for cell in group.cells.values()])
        # What belongs together goes together.
        assert left == [[2] * 4, [0] * 4, [0] * 4]
        assert not any(cell.requests for cell in group.cells.values())

    asyncio.run(story())


def test_nothing_is_collected_until_all_have_been_full_for_long(group: Group, make: Make) -> None:
    """Somebody else may still be copying to who is full by now, or go by a map of before."""
    known = Map(replace(WHOLE, since_us=group.clock.now_us()))
    cells = make(group, known)

    async def story() -> None:
        segment = (await cells.append(record(group))).key
        cells.expire([segment])
        group.clock.advance(unneeded.FULL_US_MIN / 1_000_000 - 1)
        cells.let_go()
        assert await cells.get(segment) is not None
        group.clock.advance(1)
        cells.let_go()
        assert await cells.get(segment) is None

    asyncio.run(story())


def test_the_times_fit_each_other() -> None:
    assert MAP_AGE_US_MAX + member_cell.GIVE_US_MAX <= unneeded.FULL_US_MIN
    assert copying.COPY_US_MAX + MAP_AGE_US_MAX <= unneeded.FULL_US_MIN


def test_a_cell_that_does_not_hear_it_keeps_it_from_no_other(group: Group, make: Make) -> None:
    known = Map(ABC)
    cells = make(group, known)

    def deaf(keys: Sequence[Key]) -> None:  # noqa: ARG001
        raise CellUnavailableError("its disk has failed")

    async def story() -> None:
        segments = await stored(group, cells, 1)
        group.cells["a"].expire = deaf  # type: ignore[method-assign]
        with pytest.raises(CellUnavailableError):
            cells.expire(segments)
        assert [len(group.cells[name].items()) for name in "abc"] == [1, 0, 0]

    asyncio.run(story())


def test_not_more_than_so_much_is_held_back(
    group: Group, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unneeded, "HELD_MAX", 2)
    known = Map(JOINED)
    cells = make(group, known)

    async def story() -> None:
        segments = await stored(group, cells, 3)
        for key in segments:
            cells.expire([key])
        known.at = WHOLE
        cells.expire([])
        assert [await cells.get(key) is None for key in segments] == [False, True, True]

    asyncio.run(story())
