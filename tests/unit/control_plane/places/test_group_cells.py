"""What a server does for all groups that it has used."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.items import StoredPlacement
from control_plane.places.stored import PlaceMap
from data_plane.ports import Key
from data_plane.replication.placement import Member
from tests.unit.data_plane.replication.conftest import Group

ITEM: Final = Key("S|u|00|0", b"block")


@pytest.mark.parametrize("make", [standard_cells, fifo_cells])
def test_a_group_that_nobody_uses_any_more_lets_go_of_what_it_held_back(
    make: Callable[[Members], GroupCells],
) -> None:
    group = Group()
    whole = group.at
    group.at = replace(whole, epoch=2, members=(*whole.members, Member("d", 2, full=False)))

    async def read() -> PlaceMap:
        return PlaceMap({"g3.00": StoredPlacement(group.at, 3, b"")}, {}, group.clock.now_us())

    known = CachedMap(read, group.clock)
    cells = make(Members(group.cells, known, group.clock, group.waits))

    async def story() -> None:
        await known.refresh()
        for cell in group.cells.values():
            await cell.put(ITEM, {"v": 1})
        cells["g3.00"].expire([ITEM])
        cells.let_go()
        assert all(group.cells[name].items() for name in "abc")
        group.at = replace(whole, epoch=3)
        group.clock.advance(61)
        cells.let_go()  # the map is too old to act by
        assert all(group.cells[name].items() for name in "abc")
        await known.refresh()
        cells.let_go()
        assert not any(group.cells[name].items() for name in "abc")

    asyncio.run(story())
