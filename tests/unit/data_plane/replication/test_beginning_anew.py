"""Items whose cells have removed them count from 1 again; copies of what they were come late."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    CellUnavailableError,
    Item,
    Key,
    Written,
)
from data_plane.replication.chain import REVISION
from data_plane.replication.copying import copy_item
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Member
from data_plane.stored.merging import lacking
from tests.unit.data_plane.replication.conftest import ABC, CellThatFails, Group

STATE: Final = Key("F|u|00|0", b"\x00" * 8)
JOINING: Final = Member("d", 2, full=False)
JOINED: Final = replace(ABC, epoch=2, members=(*ABC.members, JOINING))
LIFE_S: Final = 3600

Giving = Callable[[Group, Attributes], Awaitable[None]]


def state(group: Group, text: bytes) -> dict[str, Any]:
    return {"v": 1, "m0": text, "x": group.clock.now_us() // 1_000_000 + LIFE_S}


def target(group: Group) -> MemberCell:
    return MemberCell(group.cells["d"], JOINING)


def source(group: Group) -> MemberCell:
    return MemberCell(group.cells["c"], Member("c"))


async def by_a_read(group: Group, _image: Attributes) -> None:
    await group.chain(JOINED).get(STATE)


async def by_a_copy(group: Group, image: Attributes) -> None:
    await copy_item(source(group), target(group), Item(STATE, image), lacking)


async def old_state(group: Group) -> Attributes:
    """Revision 3 in all members, and past its time; the item as the tail has it."""
    for text in (b"1", b"2", b"3"):
        await group.chain(JOINED).put(STATE, state(group, text))
    found = await group.cells["c"].get(STATE)
    assert found is not None
    assert found[REVISION] == 3
    group.clock.advance(LIFE_S + 1)
    return found


@pytest.mark.parametrize("give", [by_a_read, by_a_copy])
def test_what_began_anew_takes_the_place_of_what_the_joining_member_kept(
    group: Group, give: Giving
) -> None:
    async def story() -> None:
        await old_state(group)
        for name in "abc":
            group.cells[name].expire([STATE])
        await group.chain(ABC).put(STATE, state(group, b"new"))
        begun = await group.cells["c"].get(STATE)
        assert begun is not None
        assert begun[REVISION] == 1
        await give(group, begun)
        assert await target(group).get(STATE) == begun

    asyncio.run(story())


def test_a_late_copy_of_what_is_past_its_time_takes_the_place_of_nothing(group: Group) -> None:
    async def story() -> None:
        old = await old_state(group)
        for name in "abc":
            group.cells[name].expire([STATE])
        group.cells["d"].expire([Key(f"{STATE.partition}@2", STATE.sort)])
        await group.chain(JOINED).put(STATE, state(group, b"new"))
        begun = await target(group).get(STATE)
        await copy_item(source(group), target(group), Item(STATE, old), lacking)
        assert await target(group).get(STATE) == begun

    asyncio.run(story())


def test_what_began_anew_at_the_head_alone_is_handed_down_over_what_is_past_its_time(
    group: Group,
) -> None:
    """The head has removed what the others still keep, and who wrote there has ended half way."""

    async def story() -> None:
        await old_state(group)
        group.cells["a"].expire([STATE])
        group.cells["b"].down = True
        with pytest.raises(CellUnavailableError):
            await group.chain(JOINED).put(STATE, state(group, b"new"), ITEM_ABSENT)
        group.cells["b"].down = False
        found = await group.chain(JOINED).put(STATE, state(group, b"other"), ITEM_ABSENT)
        assert not found.applied
        assert found.before is not None
        assert found.before["m0"] == b"new"
        assert await group.chain(JOINED).get(STATE) == found.before

    asyncio.run(story())


class CellThatTakesItsTime(CellThatFails):
    """Counts the puts that are under way at once."""

    under_way = most = 0

    async def put(self, *call: Any, **options: Any) -> Written:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return await super().put(*call, **options)


def test_what_a_read_gives_to_a_joining_member_goes_side_by_side(group: Group) -> None:
    group.cells["d"] = joining = CellThatTakesItsTime(group.clock)
    stored = [Key(STATE.partition, bytes((one,))) for one in range(120)]

    async def story() -> None:
        for key in stored:
            await group.chain(ABC).put(key, {"v": 1})
        page = await group.chain(JOINED).query(STATE.partition, limit=200)
        assert [item.key for item in page] == stored
        assert len(joining.items()) == len(stored)

    asyncio.run(story())
    assert joining.most == 100
