"""A queue leaves its group for one of its own: by one write, and with everything that is known."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest

from control_plane.places.cached import CachedMap
from control_plane.places.changes import PlacementChangeError
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.groups import alone_in, common_group, factor_of, number_of, own_group
from control_plane.places.items import (
    PlacedQueue,
    StoredPlacement,
    decode_placement,
    encode_placed_queue,
    encode_placement,
    placement_key,
    queues_partition,
    with_own,
)
from control_plane.places.moving import move_alone
from control_plane.places.placing import GroupPlacing
from control_plane.places.report import CellCommandError
from control_plane.places.stored import ALONE_MAX, PlaceMap, StalePlanError
from control_plane.places.takeover import WaitingCell
from data_plane.ports import ALWAYS, CellUnavailableError, Key, Update, Written
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import LeftGroupError
from data_plane.replication.placement import Member, Placement, partition_of
from tests.unit.data_plane.replication.conftest import ABC, Group

from .conftest import Site, run

UID: Final = "00112233445566a0"
OTHER: Final = "00112233445566b0"
COMMON: Final = "g3.00"
OWN: Final = f"{COMMON}.{UID}"
SEGMENT: Final = Key(f"B|{UID}|00|0", b"segment")
STATE: Final = Key(f"S|{UID}|00|0", b"block")
NEIGHBOUR: Final = Key(f"S|{OTHER}|00|0", b"block")


@pytest.fixture
def placed(site: Site) -> Site:
    run(lambda: site.places.make_missing(["a", "b", "c"]))
    return site


def part(site: Site, uid: str = UID, epoch: int = 1) -> StoredPlacement:
    return run(lambda: site.places.part(COMMON, uid, epoch=epoch))


# Names and items


def test_the_name_says_which_group_it_was() -> None:
    assert own_group(COMMON, UID) == OWN
    assert (alone_in(OWN), common_group(OWN), factor_of(OWN)) == (UID, COMMON, 3)
    assert (alone_in(COMMON), common_group(COMMON), alone_in("registry")) == ("", COMMON, "")
    assert number_of(own_group("g2.15", UID)) == 15


def test_what_is_stored_is_of_a_format_that_others_refuse_and_all_else_stays() -> None:
    plain = StoredPlacement(ABC, 3, b"12345678")
    assert set(encode_placement(plain)) == {"v", "w", "e", "m", "f", "s"}
    assert encode_placement(plain)["v"] == 1
    began = Placement(OWN, 1, (*ABC.members[:2], Member("d", 7)), 17)
    for stored in (replace(plain, alone={UID: began}), replace(plain, chosen=("d", "a"))):
        item = encode_placement(stored)
        assert item["v"] == 2
        assert decode_placement(COMMON, item) == stored


# The registry


def test_one_write_gives_a_queue_a_group_with_the_same_members(placed: Site) -> None:
    before = run(lambda: placed.places.read(COMMON)).placement
    writes = placed.cell.requests["put"]
    stored = part(placed)
    assert placed.cell.requests["put"] == writes + 1
    own = run(lambda: placed.places.read(OWN))
    assert own.placement.members == stored.placement.members == before.members
    assert own.placement.epoch == stored.placement.epoch == before.epoch + 1
    assert own.factor == 3
    assert run(placed.places.read_all).placements[OWN] == own
    assert part(placed, epoch=2) == stored  # again: it is done


def test_both_groups_go_ways_of_their_own_from_there(placed: Site) -> None:
    part(placed)
    run(lambda: placed.places.drop_member(OWN, "a", epoch=2))
    run(lambda: placed.other(1).add_joining(OWN, "d", epoch=3))
    run(lambda: placed.places.drop_member(COMMON, "b", epoch=2))
    found = run(placed.places.read_all).placements
    assert [one.cell for one in found[OWN].placement.members] == ["b", "c", "d"]
    assert found[OWN].placement.members[-1].incarnation == 4
    assert [one.cell for one in found[COMMON].placement.members] == ["a", "c"]
    assert UID in found[COMMON].alone
    with pytest.raises(StalePlanError):
        run(lambda: placed.places.drop_member(OWN, "b", epoch=2))


def test_of_two_that_decide_at_once_one_is_late(placed: Site) -> None:
    run(lambda: placed.other(1).drop_member(COMMON, "a", epoch=1))
    with pytest.raises(StalePlanError):
        part(placed)
    with pytest.raises(KeyError):
        run(lambda: placed.places.read(OWN))
    part(placed, epoch=2)
    run(lambda: placed.places.drop_member(OWN, "b", epoch=3, forced=True))
    with pytest.raises(StalePlanError):  # It was put meanwhile, by what the common one says.
        run(lambda: placed.other(1).drop_member(OWN, "c", epoch=3, forced=True))


def test_nobody_leaves_while_a_cell_joins_and_no_more_than_so_many(placed: Site) -> None:
    run(lambda: placed.places.add_joining(COMMON, "d", epoch=1))
    with pytest.raises(PlacementChangeError, match=r"d joins g3\.00: ask again later"):
        part(placed, epoch=2)
    run(lambda: placed.places.make_full(COMMON, "d", epoch=2))
    for number in range(ALONE_MAX):
        part(placed, f"{number:016x}", epoch=3 + number)
    with pytest.raises(PlacementChangeError, match="which is the most"):
        part(placed, epoch=3 + ALONE_MAX)


def test_a_deleted_queue_leaves_nothing(placed: Site) -> None:
    part(placed)
    part(placed, OTHER, epoch=2)
    run(lambda: placed.places.drop_member(OWN, "a", epoch=2))
    for _ in range(2):  # again, where it was cut off
        run(lambda: placed.places.forget_own(COMMON, UID))
        assert run(lambda: placed.cell.get(placement_key(OWN))) is None
        found = run(placed.places.read_all).placements
        assert OWN not in found
        assert own_group(COMMON, OTHER) in found
    with pytest.raises(KeyError):
        run(lambda: placed.places.drop_member(OWN, "b", epoch=3))


def test_queues_are_listed_with_the_group_that_they_have(placed: Site) -> None:
    forgotten: list[tuple[str, str]] = []

    async def forget(group: str, uid: str) -> None:
        forgotten.append((group, uid))

    placing = GroupPlacing(placed.cell, lambda: 3, forget)
    for uid in (UID, OTHER):
        item = encode_placed_queue(PlacedQueue("1" * 12, "r", uid, uid))
        run(lambda: placed.cell.put(Key(queues_partition(COMMON), uid.encode()), item))  # noqa: B023 - it is run here
    assert [one.uid for one in run(lambda: placing.queues_of(COMMON))] == [UID, OTHER]
    assert [one.uid for one in run(lambda: placing.queues_of(COMMON, {UID}))] == [OTHER]
    assert [one.uid for one in run(lambda: placing.queues_of(OWN))] == [UID]
    assert not run(lambda: placing.is_empty(OWN))
    run(lambda: placing.gone(UID, f"{COMMON}/first"))
    assert forgotten == [(COMMON, UID)]
    assert run(lambda: placing.is_empty(OWN))


# What an operator asks for


def test_a_queue_is_told_where_to_go(placed: Site) -> None:
    async def move(*cells: str) -> str:
        return await move_alone(placed.places, f"{COMMON}/first", UID, cells, "abcd")

    assert run(lambda: move("d", "b")) == OWN
    assert run(lambda: placed.places.read(OWN)).chosen == ("d", "b")
    run(lambda: placed.places.drop_member(OWN, "a", epoch=3))
    assert run(lambda: move("c")) == OWN
    own = run(lambda: placed.places.read(OWN))
    assert (own.chosen, [one.cell for one in own.placement.members]) == (("c",), ["b", "c"])
    before = placed.cell.items()
    for cells, told in (
        ((), "name one to 3 cells"),
        (("a", "a"), "name one to 3 cells"),
        (("a", "b", "c", "d"), "name one to 3 cells"),
        (("e",), "e takes no groups: those that do are a, b, c, d"),
    ):
        with pytest.raises(CellCommandError, match=told):
            run(lambda: move(*cells))  # noqa: B023 - it is run here
    with pytest.raises(CellCommandError, match="lies in local alone"):
        run(lambda: move_alone(placed.places, "local", UID, ["a"], "abc"))
    assert placed.cell.items() == before


# What front ends know


def test_a_map_has_who_left_and_never_less(placed: Site) -> None:
    known = CachedMap(placed.places.read_all, placed.clock)
    run(known.refresh)
    early = run(placed.places.read_all)
    assert known.alone(COMMON) == {}
    known.note(part(placed))
    assert UID in known.alone(COMMON)
    assert known.placement(OWN).epoch == 2
    known.note(run(lambda: placed.places.drop_member(OWN, "a", epoch=2)))
    assert known.take(early)  # a read that was overtaken
    assert known.placement(OWN).epoch == 3
    assert known.placement(COMMON).epoch == 2


def test_queues_that_are_deleted_do_not_make_a_map_suspicious(placed: Site) -> None:
    known = CachedMap(placed.places.read_all, placed.clock)
    full = run(placed.places.read_all)
    common = {group: held for group, held in full.placements.items() if group[:3] == "g3."}
    alone = {
        group: replace(
            held,
            alone={
                uid: replace(held.placement, group=own_group(group, uid))
                for uid in (UID, OTHER, "1" * 16)
            },
        )
        for group, held in common.items()
    }
    now_us = placed.clock.now_us()
    assert known.take(PlaceMap(with_own(alone), {}, now_us))
    assert len(known.placements) == 64
    later = {
        group: replace(held, placement=replace(held.placement, epoch=2))
        for group, held in common.items()
    }
    assert known.take(PlaceMap(later, {}, now_us))
    assert len(known.placements) == 16


class Scene:
    """Front ends with maps of their own, over cells a, b, c and d."""

    def __init__(self, *, as_chains: bool) -> None:
        self.group = Group()
        self.make: Callable[[Members], GroupCells] = fifo_cells if as_chains else standard_cells
        self.stored = {COMMON: StoredPlacement(ABC, 3, b"")}

    def map(self) -> PlaceMap:
        return PlaceMap(with_own(self.stored), {}, self.group.clock.now_us())

    def front_end(self) -> tuple[GroupCells, CachedMap]:
        async def read() -> PlaceMap:
            return self.map()

        known = CachedMap(read, self.group.clock)
        known.take(self.map())
        members = Members(self.group.cells, known, self.group.clock, self.group.waits)
        return self.make(members), known

    def leave(self) -> None:
        """The queue gets its own group, and that moves: b and c stay, then d comes, a leaves."""
        common = self.stored[COMMON]
        after = replace(common.placement, epoch=2)
        began = replace(after, group=OWN)
        self.stored[COMMON] = replace(common, placement=after, alone={UID: began})

    def move(self) -> None:
        """The own group is in b, c, and d, which has joined; the common one loses c."""
        members = (Member("b"), Member("c"), Member("d", 4))
        own = Placement(OWN, 5, members)
        self.stored[OWN] = StoredPlacement(own, 3, b"")
        common = self.stored[COMMON]
        at = Placement(COMMON, 3, (Member("a"), Member("b")))
        self.stored[COMMON] = replace(common, placement=at)

    def has(self, key: Key) -> str:
        """The cells in which the item is, under whatever incarnation."""
        return "".join(
            name
            for name, cell in self.group.cells.items()
            for member in (Member(name), Member(name, 4))
            for item in cell.items()
            if item.key == Key(partition_of(member, key.partition), key.sort)
        )


KINDS = pytest.mark.parametrize("as_chains", [False, True], ids=["standard", "fifo"])


async def write(cell: object, key: Key) -> Written:
    assert isinstance(cell, WaitingCell)
    return await cell.update(key, Update({"v": 1}), ALWAYS)


@KINDS
def test_what_is_asked_of_a_queue_alone_is_asked_in_its_own_group(*, as_chains: bool) -> None:
    scene = Scene(as_chains=as_chains)
    scene.leave()
    scene.move()
    cells, _ = scene.front_end()

    async def story() -> None:
        common = cells[COMMON]
        assert isinstance(common, WaitingCell)
        assert common.of_queue(OTHER) is common
        own = common.of_queue(UID)
        assert own is not common
        for key in (STATE, NEIGHBOUR):
            await write(common, key)
        for one in cells.fanouts().values():
            await one.ship()
        assert scene.has(STATE) == "bcd"
        assert scene.has(NEIGHBOUR) == "ab"
        assert set(await common.get_many([STATE, NEIGHBOUR])) == {STATE, NEIGHBOUR}
        assert await common.get(STATE) is not None
        assert [item.key for item in await common.query(STATE.partition, limit=9)] == [STATE]
        assert (await common.delete(STATE)).applied
        for one in cells.fanouts().values():
            await one.ship()
        assert await own.get(STATE) is None

    asyncio.run(story())


@KINDS
def test_items_of_several_queues_are_read_where_each_lies_by_then(*, as_chains: bool) -> None:
    """Who cleans up bodies asks so, and takes those whose segments are not found for orphans."""
    scene = Scene(as_chains=as_chains)
    cells, other = scene.front_end()[0], scene.front_end()[0]

    async def story() -> None:
        for key in (STATE, NEIGHBOUR):
            await write(cells[COMMON], key)
        for one in cells.fanouts().values():
            await one.ship()
        scene.leave()
        scene.move()
        scene.group.clock.advance(61)
        assert NEIGHBOUR in await cells[COMMON].get_many([STATE, NEIGHBOUR])
        assert NEIGHBOUR not in await other[COMMON].get_many([STATE])

    asyncio.run(story())


@KINDS
def test_a_call_that_began_in_the_common_group_counts_in_the_own_one(*, as_chains: bool) -> None:
    """Its members are what they were while it was under way; then others joined the own group."""
    scene = Scene(as_chains=as_chains)
    cells, known = scene.front_end()
    last = scene.group.cells["c"]
    put, update = last.put, last.update
    has_left = False

    def leaves_then(call: Callable[..., Awaitable[Written]]) -> Callable[..., Awaitable[Written]]:
        async def leaving(*args: object, **options: object) -> Written:
            nonlocal has_left
            if not has_left:
                has_left = True
                scene.leave()
                scene.move()
                known.take(scene.map())
            return await call(*args, **options)

        return leaving

    last.put = leaves_then(put)  # type: ignore[method-assign,assignment]
    last.update = leaves_then(update)  # type: ignore[method-assign,assignment]

    async def story() -> None:
        assert (await write(cells[COMMON], STATE)).applied
        for _ in range(3):
            for one in list(cells.fanouts().values()):
                await one.ship()
        assert has_left
        assert "d" in scene.has(STATE)

    asyncio.run(story())


@KINDS
def test_a_group_takes_nothing_of_a_queue_that_has_left(*, as_chains: bool) -> None:
    scene = Scene(as_chains=as_chains)
    scene.leave()
    cells, known = scene.front_end()
    common = cells[COMMON]
    assert isinstance(common, WaitingCell)
    inner = common.inner

    async def story() -> None:
        for call in (
            lambda: inner.update(STATE, Update({"v": 1})),
            lambda: inner.put(STATE, {"v": 1}),
            lambda: inner.delete(STATE),
            lambda: inner.get(STATE),
            lambda: inner.get_many([NEIGHBOUR, STATE]),
            lambda: inner.query(STATE.partition, limit=1),
            lambda: inner.drop(STATE.partition, 1),
        ):
            with pytest.raises(LeftGroupError):
                await call()
        assert not any(cell.items() for cell in scene.group.cells.values())
        scene.group.clock.advance(61)
        with pytest.raises(CellUnavailableError):
            known.placement(OWN)

    asyncio.run(story())


def test_what_copies_are_to_be_told_goes_with_the_queue() -> None:
    scene = Scene(as_chains=False)
    cells, known = scene.front_end()

    async def story() -> None:
        common = cells[COMMON]
        assert isinstance(common, WaitingCell)
        for key in (STATE, NEIGHBOUR):
            await write(common, key)
        inner = common.inner
        assert isinstance(inner, Fanout)
        assert set(inner.pending().values()) == {2}
        scene.leave()
        scene.move()
        known.take(scene.map())
        await inner.ship()  # before anything is asked of the queue
        own = cells.fanouts()[OWN]
        assert {member.cell: left for member, left in own.pending().items()} == dict.fromkeys(
            "bcd", 1
        )
        assert own.oldest_us() is not None
        await own.ship()
        assert scene.has(STATE) == "abcd"  # a was the first one
        assert scene.has(NEIGHBOUR) == "ab"

    asyncio.run(story())


def test_what_is_told_just_now_is_told_again_in_the_own_group() -> None:
    scene = Scene(as_chains=False)
    cells, known = scene.front_end()
    other = scene.group.cells["b"]
    update = other.update

    async def leaving(*args: object, **options: object) -> Written:
        scene.leave()
        scene.move()
        known.take(scene.map())
        return await update(*args, **options)

    async def story() -> None:
        common = cells[COMMON]
        assert isinstance(common, WaitingCell)
        await write(common, STATE)
        other.update = leaving  # type: ignore[method-assign]
        assert isinstance(common.inner, Fanout)
        await common.inner.ship()
        other.update = update  # type: ignore[method-assign]
        await common.inner.ship()
        assert not any(common.inner.pending().values())
        await cells.fanouts()[OWN].ship()
        assert "d" in scene.has(STATE)

    asyncio.run(story())


def test_what_a_group_held_back_of_a_queue_that_left_is_left_to_its_time() -> None:
    scene = Scene(as_chains=True)
    joining = replace(ABC, members=(*ABC.members, Member("d", 1, full=False)))
    scene.stored[COMMON] = StoredPlacement(joining, 3, b"")
    cells, known = scene.front_end()

    async def story() -> None:
        common = cells[COMMON]
        for cell in scene.group.cells.values():
            await cell.put(STATE, {"v": 1})
            await cell.put(NEIGHBOUR, {"v": 1})
        common.expire([STATE])
        common.expire([NEIGHBOUR])
        scene.stored[COMMON] = StoredPlacement(ABC, 3, b"")
        scene.leave()
        scene.group.clock.advance(300)
        known.take(scene.map())
        cells.let_go()
        assert scene.has(STATE) == "abcd"
        assert scene.has(NEIGHBOUR) == "d"

    asyncio.run(story())


def test_own_groups_of_queues_that_are_gone_are_forgotten() -> None:
    scene = Scene(as_chains=True)
    scene.leave()
    cells, known = scene.front_end()
    common = cells[COMMON]
    assert isinstance(common, WaitingCell)
    assert isinstance(common.of_queue(UID).inner, Chain)
    assert set(cells._made) == {COMMON, OWN}
    at = Placement(COMMON, 3, ABC.members)
    scene.stored[COMMON] = StoredPlacement(at, 3, b"")
    known.take(scene.map())
    cells.let_go()
    assert set(cells._made) == {COMMON}
