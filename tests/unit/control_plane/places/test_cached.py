import asyncio
from dataclasses import replace

import pytest

from control_plane.places.cached import MAP_AGE_US_MAX, CachedMap
from control_plane.places.stored import PlaceMap
from data_plane.ports import CellUnavailableError
from data_plane.replication.member_cell import StalePlacementError
from tests.unit.repeatable import HandClock

from .conftest import Site, run


@pytest.fixture
def known(site: Site) -> CachedMap:
    run(lambda: site.places.make_missing(["a", "b", "c"]))
    cached = CachedMap(site.places.read_all, site.clock)
    assert run(cached.refresh)
    return cached


def lacking(full: PlaceMap, groups: int) -> PlaceMap:
    left = dict(list(full.placements.items())[groups:])
    return replace(full, placements=left)


def test_a_placement_is_known_and_changes(site: Site, known: CachedMap) -> None:
    assert known.placement("g3.00").epoch == 1
    run(lambda: site.places.drop_member("g3.00", "a", epoch=1))
    assert known.placement("g3.00").epoch == 1
    assert run(known.refresh)
    assert known.placement("g3.00").epoch == 2
    with pytest.raises(StalePlacementError, match=r"no placement of g9\.00"):
        known.placement("g9.00")


def test_the_last_good_map_serves_while_the_registry_is_away(site: Site, known: CachedMap) -> None:
    site.cell.down = True
    with pytest.raises(CellUnavailableError):
        run(known.refresh)
    assert not run(known.try_refresh)
    site.clock.advance(59)
    assert known.placement("g3.00").epoch == 1


def test_nobody_goes_by_a_map_that_is_too_old(site: Site, known: CachedMap) -> None:
    site.clock.advance(MAP_AGE_US_MAX / 1_000_000)
    known.placement("g3.00")
    site.clock.time_us += 1
    with pytest.raises(StalePlacementError, match="60 s old"):
        known.placement("g3.00")
    assert run(known.refresh)
    known.placement("g3.00")


def test_a_clock_that_is_set_back_makes_no_map_younger(site: Site) -> None:
    run(lambda: site.places.make_missing(["a", "b", "c"]))
    running = HandClock()
    known = CachedMap(site.places.read_all, site.clock, running_us=running.now_us)
    assert run(known.refresh)
    for clock in (running, site.clock):
        clock.advance(50)
    site.clock.advance(-40)
    known.placement("g3.00")
    running.advance(11)
    with pytest.raises(StalePlacementError, match="61 s old"):
        known.placement("g3.00")
    assert run(known.refresh)
    site.clock.advance(-1)
    with pytest.raises(StalePlacementError):
        known.placement("g3.00")
    assert run(known.refresh)
    site.clock.advance(61)  # as after a time in which the process, and its other clock, stood still
    with pytest.raises(StalePlacementError):
        known.placement("g3.00")


def test_an_empty_map_is_refused(site: Site, known: CachedMap) -> None:
    assert not known.take(PlaceMap(read_us=site.clock.now_us()))
    assert known.refused == "it is empty"
    assert known.placement("g3.00").epoch == 1


def test_a_map_that_shrinks_too_fast_is_refused(site: Site, known: CachedMap) -> None:
    full = run(site.places.read_all)
    assert not known.take(lacking(full, 25))
    assert known.refused == "it lacks 25 of 48 groups"
    assert len(known.placements) == 48
    assert known.take(lacking(full, 24))
    assert len(known.placements) == 24
    assert known.refused == ""


def test_a_later_epoch_stays(site: Site, known: CachedMap) -> None:
    old = run(site.places.read_all)
    stored = run(lambda: site.places.drop_member("g3.00", "a", epoch=1))
    known.note(stored)
    assert known.placement("g3.00").epoch == 2
    assert known.take(old)
    assert known.placement("g3.00").epoch == 2


def test_one_read_at_a_time(site: Site, known: CachedMap) -> None:
    full = run(site.places.read_all)

    async def slowly() -> PlaceMap:
        await asyncio.sleep(0)
        return full

    slow = CachedMap(slowly, site.clock)

    async def twice() -> list[bool]:
        return list(await asyncio.gather(slow.refresh(), slow.refresh()))

    assert run(twice) == [True, False]
    assert slow.placements == known.placements


def test_who_loses_a_member_is_told(site: Site, known: CachedMap) -> None:
    lost: list[str] = []
    known.lost = lost.append
    known.note(run(lambda: site.places.drop_member("g3.00", "a", epoch=1)))
    assert lost == ["g3.00"]
    run(lambda: site.places.drop_member("g3.01", "a", epoch=1))
    run(lambda: site.places.add_joining("g2.00", "c", epoch=1))
    run(known.refresh)
    assert lost == ["g3.00", "g3.01"]
    run(known.refresh)
    assert lost == ["g3.00", "g3.01"]
