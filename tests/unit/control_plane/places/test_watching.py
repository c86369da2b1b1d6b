"""Probes, heartbeats, and requests that wait while a cell is taken over."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from control_plane.places.beating import Heart, Served
from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.watching import (
    PROBE_US_MAX,
    CellWatch,
    SparingProbe,
    WatchedCell,
    probe_by_write,
)
from data_plane.core.deadline import deadline
from data_plane.ports import Append, CellFullError, CellUnavailableError, Key, Update, Written
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import StalePlacementError
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.runtime.interrupting import Interrupting
from tests.unit.data_plane.replication.conftest import Group as Copies
from tests.unit.repeatable import HandClock

from .conftest import CellThatFails, Site, run


class Watched:
    """Cells that are watched, of which one can hang."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.cells = {name: CellThatFails(self.clock) for name in "ab"}
        self.requests = 0
        self.told: list[str] = []
        cells = {
            name: WatchedCell(
                lambda cell=cell: probe_by_write(cell, self.clock),  # type: ignore[misc]
                lambda: 4096,
                lambda: False,
                lambda: self.requests,
            )
            for name, cell in self.cells.items()
        }
        self.watch = CellWatch(cells, self.clock)
        self.watch.failed = self.told.append

    def probe(self) -> None:
        async def all_of_them() -> None:
            for name in self.watch.idle():
                await self.watch.probe(name)

        run(all_of_them)
        self.watch.look()


def test_a_cell_is_seen_to_fail_and_to_be_back() -> None:
    watched = Watched()
    watched.probe()
    begun_us = watched.clock.now_us()
    assert watched.watch.report({"a": 7})["a"].lag_us == 7
    watched.cells["a"].down = True
    watched.clock.advance(1)
    watched.probe()
    seen = watched.watch.report({})
    assert (seen["a"].answers, seen["a"].since_us) == (False, begun_us + 1_000_000)
    assert (seen["b"].answers, seen["b"].since_us) == (True, begun_us)
    assert watched.told == ["a"]
    assert watched.watch.failing(1) == []
    watched.clock.advance(2)
    watched.probe()
    assert watched.watch.failing(2_000_000) == ["a"]
    assert watched.told == ["a"]
    watched.cells["a"].down = False
    watched.probe()
    assert watched.watch.report({})["a"].answers


def test_a_probe_that_hangs_is_a_failure() -> None:
    watched = Watched()

    async def scenario() -> None:
        hanging = asyncio.create_task(watched.watch.probe("a"))
        await asyncio.sleep(0)
        assert hanging.done() or watched.watch.idle() == ["b"]
        await hanging

    run(scenario)
    stuck: asyncio.Event

    async def hangs() -> None:
        await stuck.wait()

    cells = {"a": WatchedCell(hangs, lambda: 0, lambda: False, lambda: 0)}
    watch = CellWatch(cells, watched.clock)
    watch.failed = watched.told.append

    async def stand_still() -> None:
        nonlocal stuck
        stuck = asyncio.Event()
        probe = asyncio.create_task(watch.probe("a"))
        await asyncio.sleep(0)
        assert watch.idle() == []
        watch.look()
        assert watched.told == []
        watched.clock.time_us += PROBE_US_MAX
        watch.look()
        assert watched.told == ["a"]
        stuck.set()
        await probe
        assert not watch.report({})["a"].answers  # it took too long

    run(stand_still)


def test_nobody_waits_for_a_cell_whose_probe_hangs() -> None:
    """Before it takes out another cell, the manager asks those that stay."""
    watched = Watched()

    async def story() -> None:
        hanging = watched.cells["a"]
        put, answers = hanging.put, asyncio.Event()

        async def hang(*call: Any, **options: Any) -> Written:
            await answers.wait()
            return await put(*call, **options)

        hanging.put = hang  # type: ignore[method-assign]
        probe = asyncio.create_task(watched.watch.probe("a"))
        await asyncio.sleep(0)
        watched.clock.advance(1)
        watched.watch.look()
        asked = asyncio.create_task(watched.watch.ask("a"))
        await asyncio.sleep(0)
        assert asked.done()
        assert isinstance(asked.exception(), CellUnavailableError)
        answers.set()
        await probe
        await watched.watch.ask("a")

    asyncio.run(story())


def test_a_cell_fails_since_it_was_asked_but_not_for_as_long_as_nobody_looked() -> None:
    watched = Watched()

    async def never() -> None:
        await asyncio.Event().wait()

    async def failing_since_us(nobody_looks_us: int) -> int:
        cells = {"a": WatchedCell(never, lambda: 0, lambda: False, lambda: 0)}
        watch = CellWatch(cells, watched.clock)
        probe = asyncio.create_task(watch.probe("a"))
        await asyncio.sleep(0)
        begun_us = watched.clock.now_us()
        watched.clock.time_us += nobody_looks_us
        watch.look()
        probe.cancel()
        return watch.report({})["a"].since_us - begun_us

    assert run(lambda: failing_since_us(PROBE_US_MAX)) == 0
    # The process was stopped for ten seconds, and the cell may be well.
    assert run(lambda: failing_since_us(10_000_000)) == 10_000_000 - PROBE_US_MAX


def test_no_time_counts_against_a_cell_while_none_answers() -> None:
    """A process that gets no processor sees all of its cells fail, and one of them a bit longer."""
    watched = Watched()
    watched.probe()
    for cell in watched.cells.values():
        cell.down = True
    watched.probe()
    watched.clock.advance(10)
    watched.probe()
    assert watched.told == ["a", "b"]
    assert watched.watch.failing(1) == []
    watched.cells["b"].down = False
    watched.clock.advance(10)
    watched.probe()
    assert watched.watch.failing(1) == []
    assert watched.watch.report({})["a"].since_us == watched.clock.now_us()
    watched.clock.advance(2)
    watched.probe()
    assert watched.watch.failing(2_000_000) == ["a"]


def test_rates_of_requests() -> None:
    watched = Watched()
    watched.probe()
    watched.requests = 50
    watched.clock.advance(2)
    watched.probe()
    assert watched.watch.report({})["a"].requests_per_s == 25


def heart(site: Site, served: list[Served]) -> Heart:
    known = CachedMap(site.places.read_all, site.clock)
    run(lambda: site.places.make_missing(["a", "b", "c"]))
    run(known.refresh)
    made = Heart("0123456789ab", CellWatch({}, site.clock), known, site.clock, dict)
    made.served = lambda: served[-1]
    return made


def test_a_heartbeat_has_rates_of_the_last_seconds(site: Site) -> None:
    orders = ("1" * 12, "us-east-1", "orders.fifo")
    served = [Served(10, {orders: 4})]
    made = heart(site, served)
    assert made.beat().requests_per_s == 0
    served.append(Served(30, {orders: 24, ("1" * 12, "us-east-1", "idle.fifo"): 0}))
    site.clock.advance(2)
    beat = made.beat()
    assert (beat.requests_per_s, beat.appends) == (10, ((*orders, 10),))
    assert made.beat() == beat  # asked for twice at once, it says the same
    assert beat.epochs["g3.07"] == 1
    site.clock.advance(2)
    assert made.beat().appends == ()


def test_each_cell_lags_by_what_it_is_to_be_told_itself(site: Site) -> None:
    """Also where another copy of its group, or of another group, has been silent for longer."""
    copies = Copies(site.clock)
    common, own = copies.fanout(), copies.fanout()
    known = CachedMap(site.places.read_all, site.clock)
    watch = CellWatch({}, site.clock)
    made = Heart("0123456789ab", watch, known, site.clock, lambda: {"g3.00": common, "own": own})
    key = Key("S|0011223344556677|00|0", b"block")

    async def story() -> None:
        copies.cells["c"].down = True
        await common.update(key, Update(assign={"v": 1}))
        await common.ship()
        site.clock.advance(60)
        await common.update(key, Update(assign={"v": 1}, add={"d": frozenset({1})}))
        assert made.cell_lags_us() == {"b": 0, "c": 60_000_000}
        site.clock.advance(2)
        await own.update(key, Update(assign={"v": 1}, add={"d": frozenset({2})}))
        site.clock.advance(1)
        assert made.cell_lags_us() == {"b": 3_000_000, "c": 63_000_000}
        copies.cells["c"].down = False
        await common.ship()
        assert made.cell_lags_us() == {"b": 1_000_000, "c": 1_000_000}
        await own.ship()
        assert made.cell_lags_us() == {}

    asyncio.run(story())


class Group:
    """A group's cell, as engines use it, over three cells of which any can be cut off."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.cells = {name: CellThatFails(site.clock) for name in "abc"}
        self.known = CachedMap(site.places.read_all, site.clock)
        self.slept = 0
        group = self

        class Waits(EventLoopWaits):
            async def sleep_until(self, time_us: int) -> None:
                group.slept += 1
                site.clock.time_us = max(site.clock.time_us, time_us)
                await group.meanwhile()

        self.members = Members(self.cells, self.known, site.clock, Waits(site.clock))
        run(lambda: site.places.make_missing(["a", "b", "c"]))
        run(self.known.refresh)

    async def meanwhile(self) -> None:
        """What the cluster manager does while requests wait."""
        if self.slept == 3:
            await self.site.places.drop_member("g3.00", "a", epoch=1)

    def put(self, cells: GroupCells, seconds: float | None) -> Written:
        async def call() -> Written:
            now_us = self.site.clock.now_us()
            until_us = None if seconds is None else now_us + round(seconds * 1_000_000)
            with deadline(until_us):
                return await cells["g3.00"].put(Key("S|x", b"1"), {"v": 1})

        return run(call)


@pytest.mark.parametrize("make", [standard_cells, fifo_cells])
def test_a_request_waits_for_the_take_over(site: Site, make: object) -> None:
    group = Group(site)
    cells: GroupCells = make(group.members)  # type: ignore[operator]
    group.cells["a"].down = True
    assert group.put(cells, 15).applied
    assert group.slept == 3
    assert group.known.placement("g3.00").epoch == 2
    assert [len(cell.items()) for cell in group.cells.values()][:2] == [0, 1]


@pytest.mark.parametrize("make", [standard_cells, fifo_cells])
def test_a_request_waits_for_no_member_that_is_given_up(
    site: Site, make: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group(site)
    calls = Interrupting(StalePlacementError)
    group.known.lost = calls.give_up
    cells: GroupCells = make(replace(group.members, interruptible=calls))  # type: ignore[operator]

    async def hang(*_call: object, **_options: object) -> Written:
        await site.places.drop_member("g3.00", "a", epoch=1)
        await group.known.refresh()
        return await asyncio.Event().wait()  # type: ignore[return-value]

    monkeypatch.setattr(group.cells["a"], "put", hang)
    assert group.put(cells, 15).applied
    assert group.slept == 0
    assert [len(cell.items()) for cell in group.cells.values()][:2] == [0, 1]


def test_a_request_without_time_and_work_without_a_request_do_not_wait(site: Site) -> None:
    group = Group(site)
    group.cells["a"].down = True
    for seconds in (0.5, None):
        with pytest.raises(CellUnavailableError):
            group.put(fifo_cells(group.members), seconds)
    assert group.slept == 0


def test_a_request_does_not_wait_for_ever(site: Site) -> None:
    group = Group(site)
    for cell in group.cells.values():
        cell.down = True
    begun_us = site.clock.now_us()
    with pytest.raises(CellUnavailableError):
        group.put(fifo_cells(group.members), 3)
    assert 2_000_000 < site.clock.now_us() - begun_us < 3_000_000


def test_a_full_cell_is_an_answer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(site)

    async def full(*_call: object, **_options: object) -> Written:
        raise CellFullError("the cell is full")

    monkeypatch.setattr(group.cells["a"], "put", full)
    with pytest.raises(CellFullError):
        group.put(fifo_cells(group.members), 15)
    assert group.slept == 0


def test_an_old_map_is_read_anew_and_the_call_repeated(site: Site) -> None:
    group = Group(site)
    run(lambda: site.places.drop_member("g3.00", "c", epoch=1))
    chain = fifo_cells(group.members)
    other = CachedMap(site.places.read_all, site.clock)
    run(other.refresh)
    newer = fifo_cells(Members(group.cells, other, site.clock, EventLoopWaits(site.clock)))
    group.put(newer, 15)
    assert group.known.placement("g3.00").epoch == 1
    group.put(chain, None)
    assert group.known.placement("g3.00").epoch == 2


def test_names_of_groups_and_of_cells(site: Site) -> None:
    group = Group(site)
    standard, fifo = standard_cells(group.members), fifo_cells(group.members)
    assert list(standard) == ["a", "b", "c"]
    assert standard["a"] is group.cells["a"]
    assert standard["g3.00"] is standard["g3.00"]
    assert standard["g3.00"] is not standard["g3.00/first"]
    assert set(standard.fanouts()) == {"g3.00", "g3.00/first"}
    assert isinstance(standard["g3.00/chain"].inner, Chain)  # type: ignore[attr-defined]
    assert isinstance(fifo["g3.00"].inner, Chain)  # type: ignore[attr-defined]
    assert isinstance(standard["g3.00"].inner, Fanout)  # type: ignore[attr-defined]
    with pytest.raises(KeyError):
        standard["local"]


def test_all_copies_or_the_first_acknowledge(site: Site) -> None:
    group = Group(site)
    cells = standard_cells(group.members)
    record = Append("B|x", b"1", {"v": 1}, site.clock.now_us())

    async def append(name: str) -> list[int]:
        await cells[name].append(record)
        return [len(cell.items()) for cell in group.cells.values()]

    assert run(lambda: append("g3.00/first")) == [1, 0, 0]
    assert run(lambda: append("g3.00")) == [1, 1, 1]


class Probed:
    """A cell for a SparingProbe, and how it was probed."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.done: list[str] = []
        self.writes = 0
        self.is_full = self.fails = False
        self.probe = SparingProbe(
            self._write, self._read, lambda: self.writes, lambda: self.is_full, self.clock
        )

    async def _write(self) -> None:
        self.done.append("write")
        if self.fails:
            raise CellUnavailableError("it is dead")
        self.writes += 1

    async def _read(self) -> None:
        self.done.append("read")
        if self.fails:
            raise CellUnavailableError("it is dead")

    def after(self, seconds: float) -> str:
        self.clock.advance(seconds)

        async def probed() -> None:
            with suppress(CellUnavailableError):
                await self.probe()

        run(probed)
        return self.done[-1]


def test_an_idle_cell_is_probed_by_reads_and_seldom_by_a_write() -> None:
    one = Probed()
    assert one.after(0) == "write"
    assert {one.after(0.5) for _ in range(119)} == {"read"}
    assert [one.after(0.5), one.after(0.5), one.after(0.5)] == ["read", "write", "read"]
    one.clock.advance(-3600)  # it was set back
    assert one.after(0) == "write"


def test_a_cell_that_is_written_to_is_probed_by_writes() -> None:
    one = Probed()
    one.after(0)
    for _ in range(3):
        one.writes += 1
        assert one.after(0.5) == "write"
    assert one.after(0.5) == "read"


def test_a_cell_that_is_full_or_failed_is_probed_by_writes_until_it_takes_them() -> None:
    one = Probed()
    one.after(0)
    one.is_full = True
    assert [one.after(0.5), one.after(0.5)] == ["write", "write"]
    one.is_full = False
    assert one.after(0.5) == "read"
    one.fails = True
    assert [one.after(0.5), one.after(0.5), one.after(0.5)] == ["read", "write", "write"]
    one.fails = False
    assert [one.after(0.5), one.after(0.5)] == ["write", "read"]
