"""What independent cells are written, what the others are told, and what is lost with one."""

import asyncio
from typing import Any

import pytest

from data_plane.ports import (
    Absent,
    Append,
    CellUnavailableError,
    Condition,
    DamagedItemError,
    Equals,
    Key,
    Lacks,
    LessThan,
    Update,
    Written,
)
from data_plane.replication import fanout as fanout_module
from data_plane.replication.fanout import Fanout
from data_plane.replication.placement import Member
from data_plane.stored.lease import Lease
from data_plane.stored.merging import lacking
from tests.unit.data_plane.replication.conftest import CellThatFails, Group, Map

SEGMENTS = "B|u|00|0"
STATE = Key("S|u|00|0", b"block")


def record(group: Group, suffix: bytes = b"1") -> Append:
    return Append(SEGMENTS, suffix, {"v": 1}, group.clock.now_us())


def test_an_append_is_one_write_in_each_member_under_one_key(group: Group) -> None:
    async def story() -> None:
        appended = await group.fanout().append(record(group))
        items = [cell.items() for cell in group.cells.values()]
        assert items[0] == items[1] == items[2]
        assert items[0][0].key == appended.key

    asyncio.run(story())
    assert group.writes() == {"a": 1, "b": 1, "c": 1, "d": 0}


def test_an_append_that_one_member_did_not_take_is_not_acknowledged(group: Group) -> None:
    group.cells["c"].down = True

    async def story() -> None:
        with pytest.raises(CellUnavailableError):
            await group.fanout().append(record(group))
        group.drop("c")
        await group.fanout().append(record(group))

    asyncio.run(story())


def test_a_delete_is_one_write_before_the_answer_and_one_in_each_member_after(
    group: Group,
) -> None:
    cells = group.fanout()

    async def story() -> None:
        deleted = Update(assign={"v": 1}, add={"d": frozenset({3})})
        await cells.update(STATE, deleted)
        assert group.writes() == {"a": 1, "b": 0, "c": 0, "d": 0}
        group.clock.advance(2)
        assert cells.lag_us(group.clock.now_us()) == 2_000_000
        assert await cells.ship() == 0
        assert cells.lag_us(group.clock.now_us()) == 0
        assert group.writes() == {"a": 1, "b": 1, "c": 1, "d": 0}
        assert await group.fanout(group.drop("a")).get(STATE) == {"v": 1, "d": frozenset({3})}

    asyncio.run(story())


def test_deleted_sets_are_united_whoever_served(group: Group) -> None:
    old = group.fanout()

    async def story() -> None:
        new = group.fanout(group.drop("a"))
        await old.update(STATE, Update(assign={"v": 1}, add={"d": frozenset({1})}))
        await new.update(STATE, Update(assign={"v": 1}, add={"d": frozenset({2})}))
        await old.ship()
        await new.ship()
        for name in "bc":
            state = await group.cells[name].get(STATE)
            assert state is not None
            assert state["d"] == frozenset({1, 2})

    asyncio.run(story())


def test_changes_of_one_item_arrive_in_their_order(group: Group) -> None:
    cells = group.fanout()

    async def story() -> None:
        for number in range(5):
            await cells.update(STATE, Update(assign={"v": 1, "m0": bytes((number,))}))
        await cells.ship()
        state = await group.cells["c"].get(STATE)
        assert state is not None
        assert state["m0"] == b"\x04"

    asyncio.run(story())


def test_what_a_member_does_not_take_is_told_later_and_in_order(group: Group) -> None:
    cells = group.fanout()

    async def story() -> None:
        group.cells["b"].down = True
        await cells.update(STATE, Update(assign={"v": 1, "m0": b"1"}))
        await cells.update(STATE, Update(assign={"m0": b"2"}))
        assert await cells.ship() == 2
        assert cells.pending() == {Member("b"): 2, Member("c"): 0}
        group.cells["b"].down = False
        assert await cells.ship() == 0
        assert await group.cells["b"].get(STATE) == {"v": 1, "m0": b"2"}

    asyncio.run(story())


class WithDamage(CellThatFails):
    """A cell of which one item is damaged."""

    damaged: Key | None = None

    async def update(self, *call: Any, **options: Any) -> Written:
        if call[0] == self.damaged:
            raise DamagedItemError("a value is not the one that was stored")
        return await super().update(*call, **options)


def test_an_item_that_a_member_has_damaged_holds_up_no_other(group: Group) -> None:
    group.cells["b"] = copy = WithDamage(group.clock)
    copy.damaged, other = Key(STATE.partition, b"0"), Key(STATE.partition, b"2")

    async def story() -> None:
        cells = group.fanout()
        for number in range(2):
            for key in (copy.damaged, STATE, other):
                assert key is not None
                await cells.update(key, Update({"v": 1}, {"d": frozenset({number})}))
        assert await cells.ship() == 2
        for key in (STATE, other):
            assert await copy.get(key) == await group.cells["a"].get(key)
        assert cells.pending()[Member("b")] == 2
        mended, copy.damaged = copy.damaged, None
        assert mended is not None
        assert await cells.ship() == 0
        assert await copy.get(mended) == await group.cells["a"].get(mended)

    asyncio.run(story())


def test_who_decided_is_not_told_by_the_heir_what_it_changed_since(group: Group) -> None:
    """A queue got a group of its own while its lease was still to be told; then it was changed."""
    uid = "0011223344556677"
    state_key = Key(f"S|{uid}|00|0", b"block")
    heir, left = group.fanout(), set[str]()
    before = Fanout(
        Map(group.at), group.cells, group.waits, lacking, alone=lambda: left, heir=lambda _uid: heir
    )
    granted, changed = (Lease(ms, 1, 0, 0, 0, b"t" * 13).to_bytes() for ms in (1_000, 25_000))

    async def story() -> None:
        is_free: Condition = ((Absent("m0"), Equals("m0", granted)),)
        await before.update(state_key, Update(assign={"v": 1, "m0": granted}), is_free)
        left.add(uid)
        await heir.update(
            state_key, Update(assign={"v": 1, "m0": changed}), ((Equals("m0", granted),),)
        )
        assert await before.ship() == 0
        assert await heir.ship() == 0
        for name in "abc":
            state = await group.cells[name].get(state_key)
            assert state is not None
            assert state["m0"] == changed

    asyncio.run(story())


def test_a_member_that_left_is_told_nothing_more(group: Group) -> None:
    at = Map(group.at)
    cells = Fanout(at, group.cells, group.waits, lacking)

    async def story() -> None:
        await cells.update(STATE, Update(assign={"v": 1}))
        at.at = group.drop("b")
        assert await cells.ship() == 0

    asyncio.run(story())
    assert group.writes()["b"] == 0


def test_a_lease_that_was_granted_is_granted_and_a_mark_only_rises(group: Group) -> None:
    cells = group.fanout()
    mark = Key("H|u", b"00|0")

    async def story() -> None:
        await group.cells["b"].put(STATE, {"v": 1, "x": 9, "m0": b"older"})
        await group.cells["a"].put(STATE, {"v": 1, "x": 9, "m0": b"seen"})
        seen = ((Equals("m0", b"seen"), Equals("m0", b"mine")), (Lacks("d", 0),))
        await cells.update(STATE, Update(assign={"m0": b"mine"}), seen)
        await group.cells["b"].put(mark, {"v": 1, "w": b"9"})
        below = ((Absent("w"), LessThan("w", b"5")),)
        await cells.update(mark, Update(assign={"v": 1, "w": b"5"}), below)
        await cells.ship()
        assert await group.cells["b"].get(STATE) == {"v": 1, "x": 9, "m0": b"mine"}
        assert await group.cells["b"].get(mark) == {"v": 1, "w": b"9"}
        assert await group.cells["c"].get(mark) == {"v": 1, "w": b"5"}

    asyncio.run(story())


def lease(receive_count: int, visible_ms: int = 9_000, who: bytes = b"1") -> bytes:
    return Lease(visible_ms, receive_count, 1_000, 1_000, 0, who * 13).to_bytes()


def leasing(before: bytes | None, after: bytes) -> tuple[Update, Condition]:
    seen = Absent("m0") if before is None else Equals("m0", before)
    return Update(assign={"v": 1, "m0": after}), ((seen, Equals("m0", after)), (Lacks("d", 0),))


def test_a_request_that_comes_late_sets_no_lease_back(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, second = group.fanout(), group.cells["b"]
    requests: list[Any] = []
    take = second.update

    async def noted(*request: Any) -> Written:
        requests.append(request)
        return await take(*request)

    monkeypatch.setattr(second, "update", noted)

    async def story() -> None:
        await cells.update(STATE, *leasing(None, lease(1)))
        await cells.update(STATE, *leasing(lease(1), lease(2)))
        await cells.ship()
        await take(*requests[0])
        assert await second.get(STATE) == {"v": 1, "m0": lease(2)}

    asyncio.run(story())
    assert len(requests) == 2


def test_of_two_leases_that_overtake_each_other_the_later_stays(group: Group) -> None:
    slow, fast = group.fanout(), group.fanout()

    async def story() -> None:
        await slow.update(STATE, *leasing(None, lease(1)))
        await fast.update(STATE, *leasing(lease(1), lease(2)))
        await fast.ship()
        assert await group.cells["b"].get(STATE) == {"v": 1, "m0": lease(2)}
        await slow.ship()
        assert await group.cells["b"].get(STATE) == {"v": 1, "m0": lease(2)}

    asyncio.run(story())


@pytest.mark.parametrize("visible_ms", [0, 20_000])
def test_of_two_changes_of_one_delivery_the_later_stays(group: Group, visible_ms: int) -> None:
    slow, fast = group.fanout(), group.fanout()

    async def story() -> None:
        await fast.update(STATE, *leasing(None, lease(1)))
        await fast.ship()
        await slow.update(STATE, *leasing(lease(1), lease(1, 15_000)))
        await fast.update(STATE, *leasing(lease(1, 15_000), lease(1, visible_ms)))
        group.forget()
        for front_end, writes in ((fast, 2), (slow, 5)):
            assert await front_end.ship() == 0
            assert (group.writes()["b"], group.writes()["a"]) == (writes, 0)
            known = await group.cells["b"].get(STATE)
            assert known is not None
            assert known["m0"] == lease(1, visible_ms)

    asyncio.run(story())


def test_who_serves_now_is_told_what_it_lacks_by_whoever_knows_it(group: Group) -> None:
    its_map = Map(group.at)
    slow = group.fanout()
    fast = Fanout(its_map, group.cells, group.waits, lacking)

    async def story() -> None:
        await slow.update(STATE, *leasing(None, lease(1)))
        await fast.update(STATE, *leasing(lease(1), lease(2)))
        its_map.at = group.drop("a")
        group.cells["a"].down = True
        assert await fast.ship() == 0
        for cell in "bc":
            known = await group.cells[cell].get(STATE)
            assert known is not None
            assert known["m0"] == lease(2)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("told", "granted", "kept"),
    [
        (lease(1, 0), lease(1, 9_000, b"2"), lease(1, 9_000, b"2")),
        (lease(1, 20_000), lease(1, 9_000, b"2"), lease(1, 20_000, b"2")),
        (lease(2, 5_000), lease(1, 9_000, b"2"), lease(2, 9_000)),
        (lease(1, 20_000), lease(2, 9_000, b"2"), lease(2, 20_000, b"2")),
    ],
    ids=["shorter", "longer", "later", "earlier"],
)
def test_what_who_serves_now_has_granted_no_lease_ends_of_which_it_hears_later(
    group: Group, told: bytes, granted: bytes, kept: bytes
) -> None:
    its_map = Map(group.at)
    slow = Fanout(its_map, group.cells, group.waits, lacking)

    async def story() -> None:
        await slow.update(STATE, *leasing(None, told))
        group.cells["a"].down = True
        its_map.at = group.drop("a")
        new = group.fanout()
        await new.update(STATE, *leasing(None, granted))
        assert await slow.ship() == 0
        assert await new.ship() == 0
        for cell in "bc":
            known = await group.cells[cell].get(STATE)
            assert known is not None
            assert known["m0"] == kept

    asyncio.run(story())


def test_a_message_that_was_deleted_is_not_leased_by_what_is_told_later(group: Group) -> None:
    slow, fast = group.fanout(), group.fanout()

    async def story() -> None:
        await slow.update(STATE, *leasing(None, lease(1)))
        gone = Update(assign={"v": 1}, add={"d": frozenset({0})}, remove=frozenset({"m0"}))
        await fast.update(STATE, gone)
        await fast.ship()
        await slow.ship()
        assert await group.cells["b"].get(STATE) == {"v": 1, "d": frozenset({0})}

    asyncio.run(story())


def test_what_is_told_of_a_message_that_a_copy_knows_deleted_ends(group: Group) -> None:
    slow = group.fanout()

    async def story() -> None:
        await slow.update(STATE, *leasing(None, lease(1)))
        known = {"v": 1, "d": frozenset({0}), "m0": lease(2)}
        await group.cells["b"].put(STATE, known)
        assert await slow.ship() == 0
        assert await group.cells["b"].get(STATE) == known

    asyncio.run(story())


def test_the_first_copy_alone_acknowledges_where_that_was_asked_for(group: Group) -> None:
    cells = group.fanout(acknowledge_first=True)
    group.cells["c"].down = True

    async def story() -> None:
        appended = await cells.append(record(group))
        assert group.writes() == {"a": 1, "b": 0, "c": 0, "d": 0}
        assert await cells.ship() == 1
        group.cells["c"].down = False
        assert await cells.ship() == 0
        assert await group.cells["c"].get(appended.key) is not None

    asyncio.run(story())


def test_what_waits_for_a_member_is_bounded(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout_module, "PENDING_MAX", 3)
    cells = group.fanout()

    async def story() -> None:
        for number in range(5):
            await cells.update(Key("S|u", bytes((number,))), Update(assign={"v": 1}))
        assert cells.pending() == {Member("b"): 3, Member("c"): 3}
        assert cells.forgotten == 4

    asyncio.run(story())
