"""Placements of tables that were restored to one second, not to one moment."""

import asyncio

import pytest

from control_plane.places.items import decode_placement, placement_key
from control_plane.restored_tables import _forget_sent, _with_one_copy
from data_plane.ports import ITEM_ABSENT, Equals, Key
from data_plane.replication.chain import Chain
from data_plane.replication.placement import Placement
from data_plane.runtime.event_loop import EventLoopWaits
from tests.property.test_sent_survives import World
from tests.unit.control_plane.cluster.scene import Scene
from tests.unit.data_plane.usage.test_sent import noted, send
from tests.unit.repeatable import HandClock

GROUP = "g2.05"
SLOT = Key("G|u|00|0", b"\x00" * 7 + b"\x01")


def restored(scene: Scene) -> Placement:
    """The group's placement, when a alone of its tables was restored."""
    tables, clock = {"a": "a-2"}, scene.clock
    changed = scene.run(_with_one_copy(scene.control, tables, clock, scene.entropy))
    return decode_placement(GROUP, changed[placement_key(GROUP)]).placement


@pytest.mark.parametrize("members", ["ab", "a"])
def test_what_was_written_under_a_later_epoch_in_the_same_second_may_be_changed(
    members: str,
) -> None:
    """A cell failed, and another one joined, after the registry's table and before the other."""
    scene = Scene("ab")
    scene.place(GROUP, members, factor=2)
    at = scene.placement(GROUP)

    async def story() -> None:
        waits = EventLoopWaits(HandClock())
        later = Placement(GROUP, at.epoch + 3, at.members[:1])
        before = Chain(lambda: later, {"a": scene.cells["a"]}, waits)
        assert (await before.put(SLOT, {"v": 1}, ITEM_ABSENT)).applied
        after = restored(scene)
        assert [member.cell for member in after.members] == ["a"]
        chain = Chain(lambda: after, {"a": scene.cells["a"]}, waits)
        assert (await chain.put(SLOT, {"v": 2}, ((Equals("v", 1),),))).applied

    asyncio.run(story())


def test_nobody_makes_records_anew_of_what_was_sent_before() -> None:
    """Those servers recorded the whole minute of which the tables have a part."""
    world = World()

    async def story() -> None:
        await world.send(0, send(1, 1))
        await _forget_sent(world.cell)
        assert await noted(world) == []
        world.servers = [world.start()]
        await world.end()

    asyncio.run(story())
    assert not world.records
