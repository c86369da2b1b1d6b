import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from control_plane import last_known
from control_plane.last_known import LastKnown
from data_plane.ports import CellUnavailableError
from tests.unit.repeatable import HandClock


@dataclass
class Source:
    """What there is, which a test changes; it counts how often it is read."""

    clock: HandClock = field(default_factory=HandClock)
    values: dict[str, str] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    away: bool = False
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def read(self, name: str) -> str | None:
        self.reads.append(name)
        if self.away:
            raise CellUnavailableError("away")
        value = self.values.get(name)
        interlude, self.meanwhile = self.meanwhile, None
        if interlude is not None:
            await interlude()
        return value


@pytest.fixture
def source() -> Source:
    return Source(values={"a": "1"})


@pytest.fixture
def cache(source: Source) -> LastKnown[str]:
    return LastKnown(source.read, source.clock, names_max=3)


def find(cache: LastKnown[str], name: str = "a") -> str | None:
    return asyncio.run(cache.find(name))


def test_a_change_shows_within_5_seconds(source: Source, cache: LastKnown[str]) -> None:
    assert find(cache) == "1"
    source.values["a"] = "2"
    source.clock.advance(3.999)
    assert find(cache) == "1"
    assert source.reads == ["a"]
    source.clock.advance(1.001)
    assert find(cache) == "2"


def test_while_one_reads_the_others_are_served_until_5_seconds_have_passed(
    source: Source, cache: LastKnown[str]
) -> None:
    find(cache)
    del source.values["a"]
    seen: list[str | None] = []

    async def ask_meanwhile() -> None:
        seen.append(await cache.find("a"))
        source.clock.advance(0.6)
        seen.append(await cache.find("a"))

    source.clock.advance(4.4)
    source.meanwhile = ask_meanwhile
    assert find(cache) is None
    assert seen == ["1", None]
    assert len(source.reads) == 3


def test_what_is_known_serves_for_10_minutes_while_the_source_is_away(
    source: Source, cache: LastKnown[str]
) -> None:
    find(cache)
    source.away = True
    source.clock.advance(599.9)
    assert find(cache) == "1"
    source.clock.advance(0.1)
    with pytest.raises(CellUnavailableError):
        find(cache)
    source.away = False
    assert find(cache) == "1"


def test_what_is_absent_is_asked_for_once_a_second(source: Source, cache: LastKnown[str]) -> None:
    for _ in range(10):
        assert find(cache, "b") is None
    assert source.reads == ["b"]
    source.values["b"] = "2"
    source.clock.advance(1)
    assert find(cache, "b") == "2"


def test_what_was_absent_is_not_known_while_the_source_is_away(
    source: Source, cache: LastKnown[str]
) -> None:
    find(cache, "b")
    source.away = True
    source.clock.advance(1)
    with pytest.raises(CellUnavailableError):
        find(cache, "b")


def test_memory_is_bounded_and_absent_names_drive_nothing_out(
    source: Source, cache: LastKnown[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_known, "ABSENT_MAX", 5)
    find(cache)
    for number in range(50):
        find(cache, f"absent {number}")
    assert len(cache._absent_until_us) == 5
    source.reads.clear()
    assert find(cache) == "1"
    assert source.reads == []
    for name in "bcde":
        source.values[name] = name
        find(cache, name)
    assert set(cache._known) == {"c", "d", "e"}


def test_an_own_change_shows_at_once_whatever_was_being_read(
    source: Source, cache: LastKnown[str]
) -> None:
    async def change() -> None:
        source.values["a"] = "2"
        cache.changed("a")

    source.meanwhile = change
    assert find(cache) == "1", "it was asked before"
    assert find(cache) == "2"
    del source.values["a"]
    cache.changed("a")
    source.away = True
    with pytest.raises(CellUnavailableError):
        find(cache)


def test_a_clock_that_was_set_back_makes_nothing_fresh(
    source: Source, cache: LastKnown[str]
) -> None:
    find(cache)
    find(cache, "b")
    source.values = {"a": "2", "b": "2"}
    source.clock.advance(-3600)
    assert (find(cache), find(cache, "b")) == ("2", "2")
