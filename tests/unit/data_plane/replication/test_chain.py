"""What a chain writes, and what becomes of what was left half way or comes from an old map."""

import asyncio
from typing import Any

import pytest

from data_plane.ports import (
    ITEM_ABSENT,
    Absent,
    CellUnavailableError,
    Equals,
    Key,
    Lacks,
    LessThan,
    Update,
    Written,
)
from data_plane.replication.chain import TOMBSTONE_S
from data_plane.replication.member_cell import StalePlacementError
from data_plane.replication.placement import Member, Placement
from tests.unit.data_plane.replication.conftest import Group

SLOT = Key("G|u|00|0", b"\x00" * 7 + b"\x01")
STATE = Key("F|u|00|0", b"\x00" * 8)


def slot(nonce: bytes) -> dict[str, Any]:
    return {"v": 1, "w": nonce}


def test_a_put_is_one_write_in_each_member_and_no_read(group: Group) -> None:
    async def story() -> None:
        assert (await group.chain().put(SLOT, slot(b"1"), ITEM_ABSENT)).applied

    asyncio.run(story())
    assert group.writes() == {"a": 1, "b": 1, "c": 1, "d": 0}
    assert all(cell.requests["get"] == 0 for cell in group.cells.values())


def test_an_update_is_one_write_in_each_member_and_no_read(group: Group) -> None:
    async def story() -> None:
        chain = group.chain()
        await chain.update(STATE, Update(assign={"v": 1, "m0": b"x"}))
        group.forget()
        lacking = ((Lacks("d", 0),), (Equals("m0", b"x"),))
        await chain.update(STATE, Update(add={"d": frozenset({0})}), lacking)

    asyncio.run(story())
    assert group.writes() == {"a": 1, "b": 1, "c": 1, "d": 0}
    stored = [cell.items() for cell in group.cells.values()]
    assert stored[0] == stored[1] == stored[2]


def test_reads_are_one_read_of_the_last_full_member(group: Group) -> None:
    joining = Placement("g3.00", 2, (*group.at.members, Member("d", 2, full=False)))

    async def story() -> None:
        chain = group.chain(joining)
        await chain.put(SLOT, slot(b"1"))
        group.forget()
        assert await chain.get(SLOT) == slot(b"1")
        assert len(await chain.query(SLOT.partition, limit=9)) == 1

    asyncio.run(story())
    assert group.cells["c"].requests == {"get": 1, "query": 1}
    assert group.cells["d"].requests == {"get_many": 2}, "what is read, it has to have"


def test_what_was_left_half_way_is_seen_by_nobody_until_somebody_hands_it_down(
    group: Group,
) -> None:
    async def story() -> None:
        group.cells["b"].down = True
        with pytest.raises(CellUnavailableError):
            await group.chain().put(SLOT, slot(b"1"), ITEM_ABSENT)
        group.cells["b"].down = False
        other = group.chain()
        assert await other.get(SLOT) is None
        refused = await other.put(SLOT, slot(b"2"), ITEM_ABSENT)
        assert (refused.applied, refused.before) == (False, slot(b"1"))
        assert await other.get(SLOT) == slot(b"1")

    asyncio.run(story())


def test_what_only_the_lost_head_had_is_gone_and_its_place_is_free(group: Group) -> None:
    async def story() -> None:
        group.cells["b"].down = True
        with pytest.raises(CellUnavailableError):
            await group.chain().put(SLOT, slot(b"1"), ITEM_ABSENT)
        group.cells["b"].down = False
        after = group.chain(group.drop("a"))
        assert (await after.put(SLOT, slot(b"2"), ITEM_ABSENT)).applied
        assert await after.get(SLOT) == slot(b"2")

    asyncio.run(story())


def test_a_writer_with_an_old_map_is_refused_where_the_new_head_has_decided(group: Group) -> None:
    old = group.chain()

    async def story() -> None:
        after = group.chain(group.drop("a"))
        assert (await after.put(SLOT, slot(b"new"), ITEM_ABSENT)).applied
        with pytest.raises(StalePlacementError):
            await old.put(SLOT, slot(b"old"), ITEM_ABSENT)
        assert await after.get(SLOT) == slot(b"new")

    asyncio.run(story())


def test_a_writer_with_an_old_map_that_is_first_at_the_new_head_wins(group: Group) -> None:
    old = group.chain()

    async def story() -> None:
        after = group.chain(group.drop("a"))
        assert (await old.put(SLOT, slot(b"old"), ITEM_ABSENT)).applied
        refused = await after.put(SLOT, slot(b"new"), ITEM_ABSENT)
        assert (refused.applied, refused.before) == (False, slot(b"old"))

    asyncio.run(story())


def test_a_claim_that_only_the_dropped_head_granted_is_not_granted(group: Group) -> None:
    old = group.chain()

    async def story() -> None:
        await old.update(STATE, Update(assign={"v": 1, "m0": b"free"}))
        after = group.chain(group.drop("a"))
        seen = ((Equals("m0", b"free"),),)
        assert (await after.update(STATE, Update(assign={"m0": b"new"}), seen)).applied
        with pytest.raises(StalePlacementError):
            await old.update(STATE, Update(assign={"m0": b"old"}), seen)
        assert await after.get(STATE) == {"v": 1, "m0": b"new"}

    asyncio.run(story())


def test_a_copy_that_comes_late_takes_the_place_of_nothing_newer(group: Group) -> None:
    async def story() -> None:
        chain = group.chain()
        await chain.update(STATE, Update(assign={"v": 1}))
        group.cells["c"].down = True
        with pytest.raises(CellUnavailableError):
            await chain.update(STATE, Update(add={"d": frozenset({1})}))
        group.cells["c"].down = False
        await chain.update(STATE, Update(add={"d": frozenset({2})}))
        assert await chain.get(STATE) == {"v": 1, "d": frozenset({1, 2})}

    asyncio.run(story())


def test_what_was_removed_does_not_come_back_with_a_late_copy(group: Group) -> None:
    async def story() -> None:
        chain = group.chain()
        await chain.put(SLOT, slot(b"1"))
        late = group.cells["a"].items()[0].attributes
        await chain.delete(SLOT)
        assert await chain.get(SLOT) is None
        assert await chain.query(SLOT.partition, limit=5) == []
        await group.cells["c"].put(SLOT, late, ((Equals("R", 1),),))
        assert await chain.get(SLOT) is None
        assert (await chain.put(SLOT, slot(b"2"), ITEM_ABSENT)).applied
        assert await chain.get(SLOT) == slot(b"2")

    asyncio.run(story())


def test_an_update_of_what_was_removed_begins_anew(group: Group) -> None:
    """Above all it does not go when the memory of the removed item does."""
    mark = Key("H|u", b"00|0")

    async def story() -> None:
        chain = group.chain()
        await chain.put(mark, {"v": 1, "w": b"9", "x": 17})
        await chain.delete(mark)
        changed = Update({"v": 1, "w": b"5"}, {"d": frozenset({1})}, frozenset({"q"}))
        refused = await chain.update(mark, changed, ((Equals("w", b"9"),),))
        assert (refused.applied, refused.before) == (False, None)
        assert await chain.get(mark) is None
        written = await chain.update(mark, changed, ((Absent("x"),), (Absent("w"),)))
        assert (written.applied, written.before) == (True, None)
        stored = {str(item.attributes) for cell in "abc" for item in group.cells[cell].items()}
        assert stored == {str({"v": 1, "w": b"5", "d": frozenset({1}), "R": 3, "E": 1})}

    asyncio.run(story())


def test_conditions_see_nothing_of_what_was_removed(group: Group) -> None:
    async def story() -> None:
        chain = group.chain()
        await chain.put(SLOT, slot(b"1"))
        await chain.delete(SLOT)
        expires = ((LessThan("x", 1 << 60),),)
        assert not (await chain.put(SLOT, slot(b"2"), expires)).applied
        assert not (await chain.delete(SLOT, expires)).applied
        assert (await chain.delete(SLOT, ((Absent("x"),),))).applied
        assert (await chain.put(SLOT, slot(b"2"), ((Absent("x"),),))).applied

    asyncio.run(story())


def test_a_removal_that_was_left_half_way_is_handed_down(group: Group) -> None:
    async def story() -> None:
        chain = group.chain()
        await chain.put(SLOT, slot(b"1"))
        group.cells["c"].down = True
        with pytest.raises(CellUnavailableError):
            await chain.delete(SLOT)
        group.cells["c"].down = False
        assert await chain.get(SLOT) == slot(b"1")
        assert (await chain.delete(SLOT)).applied
        assert await chain.get(SLOT) is None

    asyncio.run(story())


def test_what_is_remembered_of_a_removed_item_may_go_anywhere_at_any_time(group: Group) -> None:
    for forgetful in ("", "a", "b", "c", "ab", "bc", "ac", "abc"):

        async def story(forgetful: str = forgetful) -> None:
            chain = group.chain()
            await chain.put(SLOT, slot(b"1"))
            await chain.delete(SLOT)
            group.clock.advance(TOMBSTONE_S)
            for name in forgetful:
                await group.cells[name].delete(SLOT)
            assert await chain.get(SLOT) is None
            await chain.put(SLOT, slot(b"2"), ITEM_ABSENT)
            for name in "abc":
                item = await group.cells[name].get(SLOT)
                assert item is not None
                assert item["w"] == b"2"
            await chain.delete(SLOT)

        asyncio.run(story())


def test_a_call_that_was_stopped_for_long_brings_nothing_back(group: Group) -> None:
    """Its process stood still until nobody remembered what was removed meanwhile."""
    late, other = group.chain(), group.chain()
    stopped, waked = asyncio.Event(), asyncio.Event()
    put = group.cells["b"].put

    async def stopping(*call: Any, **options: Any) -> Written:
        written = await put(*call, **options)
        if not stopped.is_set():
            stopped.set()
            await waked.wait()
        return written

    async def story() -> None:
        group.cells["b"].put = stopping  # type: ignore[method-assign]
        under_way = asyncio.create_task(late.put(SLOT, slot(b"1")))
        await stopped.wait()
        await other.delete(SLOT)
        group.clock.advance(TOMBSTONE_S)
        for name in "abc":
            await group.cells[name].delete(SLOT)
        waked.set()
        with pytest.raises(CellUnavailableError):
            await under_way
        assert await other.get(SLOT) is None

    asyncio.run(story())


@pytest.mark.parametrize("reverse", [False, True])
def test_removed_items_do_not_end_a_range(group: Group, *, reverse: bool) -> None:
    async def story() -> None:
        chain = group.chain()
        for number in range(9):
            await chain.put(Key("P|", bytes((number,))), slot(b"1"))
        for number in range(1, 8):
            await chain.delete(Key("P|", bytes((number,))))
        found: list[bytes] = []
        after, until = b"", b"\xff"
        while page := await chain.query("P|", after=after, until=until, limit=2, reverse=reverse):
            found += [item.key.sort for item in page]
            if reverse:
                if not page[-1].key.sort[0]:
                    break
                until = bytes((page[-1].key.sort[0] - 1,))
            else:
                after = page[-1].key.sort
        assert sorted(found) == [b"\x00", b"\x08"]

    asyncio.run(story())


def test_cells_of_different_histories_are_not_papered_over(group: Group) -> None:
    async def story() -> None:
        await group.cells["c"].put(SLOT, {**slot(b"?"), "R": 7, "E": 1})
        later = Placement("g3.00", 2, group.at.members)
        with pytest.raises(CellUnavailableError, match="different histories"):
            await group.chain(later).put(SLOT, slot(b"1"))

    asyncio.run(story())


def test_a_cell_that_this_front_end_does_not_know_is_unavailable(group: Group) -> None:
    strange = Placement("g3.00", 1, (Member("a"), Member("z")))

    async def story() -> None:
        with pytest.raises(CellUnavailableError, match="not known here"):
            await group.chain(strange).get(SLOT)

    asyncio.run(story())
