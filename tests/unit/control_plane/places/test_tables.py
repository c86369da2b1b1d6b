"""What tables say of themselves: servers that start at once, and that end at any write."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from control_plane.core.identity import Standing
from control_plane.places.tables import (
    IDENTITY,
    TableIdentity,
    Tables,
    TablesRefusedError,
    read_identity,
)
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, CellUnavailableError, Written
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.repeatable import HandClock, SeededEntropy

from .conftest import CellThatFails, run

NAMES = ("two", "three")


class CrashError(Exception):
    """The process ends here."""


class Table(CellThatFails):
    """Takes so many writes more, then the process ends."""

    writes_left: list[int]

    async def put(self, *call: Any, **options: Any) -> Written:
        self.writes_left[0] -= 1
        if self.writes_left[0] < 0:
            raise CrashError
        return await super().put(*call, **options)


class Site:
    """Three tables, the first of which has the registry."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.writes_left = [1000]
        self.starts = 0
        self.tables = {name: Table(self.clock) for name in ("one", *NAMES)}
        for table in self.tables.values():
            table.writes_left = self.writes_left

    async def start(self) -> Mapping[str, str]:
        self.starts += 1
        self.clock.advance(1)
        further = {name: self.tables[name] for name in NAMES}
        entropy, waits = SeededEntropy(self.starts), EventLoopWaits(self.clock)
        started = Tables("one", self.tables["one"], self.clock, entropy, waits)
        verdict = await started.judge(further)
        lost = {name: verdict.cells[name].standing.value for name in verdict.lost}
        failed = verdict.of(Standing.FAILED)
        await started.advance({name: one for name, one in further.items() if name not in failed})
        return lost

    def item(self, name: str) -> Attributes:
        return dict(self.tables[name].items())[IDENTITY]

    def own(self, name: str) -> TableIdentity:
        found = run(lambda: read_identity(self.tables[name]))
        assert found is not None
        return found

    def put_back(self, name: str, item: Attributes | None) -> None:
        self.tables[name] = Table(self.clock)
        self.tables[name].writes_left = self.writes_left
        if item is not None:
            run(lambda: MemoryCell.put(self.tables[name], IDENTITY, item))


@pytest.fixture
def site() -> Site:
    return Site()


def test_all_tables_know_of_all(site: Site) -> None:
    assert run(site.start) == {}
    first = site.item("two")["i"]
    assert run(site.start) == {}
    for name in ("one", *NAMES):
        own = site.own(name)
        assert own.name == name
        assert own.known == {name: site.item(name)["i"] for name in NAMES}
    assert int(str(site.item("two")["i"])) > int(str(first))


def test_what_was_put_back_or_made_anew_is_told(site: Site) -> None:
    run(site.start)
    before = site.item("two")
    run(site.start)
    site.put_back("two", before)
    site.put_back("three", None)
    assert run(site.start) == {"two": "stale", "three": "empty"}
    assert run(site.start) == {}


@pytest.mark.parametrize("writes", range(12))
def test_a_start_that_ends_at_any_write_makes_no_table_stale(site: Site, writes: int) -> None:
    run(site.start)
    copies = {name: site.item(name) for name in NAMES}
    site.writes_left[0] = writes
    try:
        run(site.start)
    except CrashError:
        site.writes_left[0] = 1000
        assert run(site.start) == {}
    site.writes_left[0] = 1000
    for name in NAMES:
        site.put_back(name, copies[name])
    assert run(site.start) == {"two": "stale", "three": "stale"}


def test_servers_that_start_at_once_agree(site: Site) -> None:
    for table in site.tables.values():
        table.dawdles = True

    async def at_once() -> list[Mapping[str, str]]:
        return list(await asyncio.gather(*(site.start() for _ in range(4))))

    assert run(at_once) == [{}] * 4
    assert site.own("one").known == {name: site.item(name)["i"] for name in NAMES}
    assert {site.item(name)["u"] for name in NAMES} == {site.item("one")["u"]}
    assert run(site.start) == {}


def test_a_table_that_does_not_answer_keeps_its_incarnation(site: Site) -> None:
    run(site.start)
    before = site.item("two")["i"]
    site.tables["two"].down = True
    assert run(site.start) == {}
    site.tables["two"].down = False
    assert site.item("two")["i"] == before
    assert run(site.start) == {}
    assert site.item("two")["i"] != before


def test_an_older_registry_and_another_service_are_refused(site: Site) -> None:
    run(site.start)
    before = site.item("one")
    run(site.start)
    now = site.item("one")
    site.put_back("one", before)
    with pytest.raises(TablesRefusedError, match=r"^the registry in one is older than two knows"):
        run(site.start)
    site.put_back("one", {**now, "u": "f" * 16})
    with pytest.raises(TablesRefusedError, match=r"^two is foreign: two of another service"):
        run(site.start)


def test_a_registry_that_does_not_answer_is_told(site: Site) -> None:
    site.tables["one"].down = True
    with pytest.raises(CellUnavailableError):
        run(site.start)
