import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from control_plane import last_known
from control_plane.last_known import PATIENCE_US, LastKnown, Seen
from data_plane.core.deadline import deadline, left_us
from data_plane.ports import CellUnavailableError, DeadlinePassedError
from tests.unit.repeatable import HandClock


@dataclass
class Source:
    """What there is, which a test changes; it counts how often it is read."""

    clock: HandClock = field(default_factory=HandClock)
    values: dict[str, str] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    away: bool = False
    old_us: int = 0
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def read(self, name: str) -> Seen[str]:
        self.reads.append(name)
        asked_us = self.clock.now_us() - self.old_us
        if self.away:
            raise CellUnavailableError("away")
        value = self.values.get(name)
        interlude, self.meanwhile = self.meanwhile, None
        if interlude is not None:
            await interlude()
        return Seen(value, asked_us)


@pytest.fixture
def source() -> Source:
    return Source(values={"a": "1"})


@pytest.fixture
def cache(source: Source) -> LastKnown[str, str]:
    return LastKnown(source.read, source.clock, names_max=3)


def find(cache: LastKnown[str, str], name: str = "a") -> str | None:
    return asyncio.run(cache.find(name))


def test_a_change_shows_within_5_seconds(source: Source, cache: LastKnown[str, str]) -> None:
    assert find(cache) == "1"
    source.values["a"] = "2"
    source.clock.advance(3.999)
    assert find(cache) == "1"
    assert source.reads == ["a"]
    source.clock.advance(1.001)
    assert find(cache) == "2"


def test_while_one_reads_the_others_are_served_until_5_seconds_have_passed(
    source: Source, cache: LastKnown[str, str]
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
    source: Source, cache: LastKnown[str, str]
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


def test_what_is_absent_is_asked_for_once_a_second(
    source: Source, cache: LastKnown[str, str]
) -> None:
    for _ in range(10):
        assert find(cache, "b") is None
    assert source.reads == ["b"]
    source.values["b"] = "2"
    source.clock.advance(1)
    assert find(cache, "b") == "2"


def test_what_was_absent_is_not_known_while_the_source_is_away(
    source: Source, cache: LastKnown[str, str]
) -> None:
    find(cache, "b")
    source.away = True
    source.clock.advance(1)
    with pytest.raises(CellUnavailableError):
        find(cache, "b")


def test_memory_is_bounded_and_absent_names_drive_nothing_out(
    source: Source, cache: LastKnown[str, str], monkeypatch: pytest.MonkeyPatch
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
    source: Source, cache: LastKnown[str, str]
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


@pytest.mark.parametrize("is_own", [True, False], ids=["written", "read"])
def test_what_an_answer_says_that_came_late_is_as_old_as_its_question(
    source: Source, cache: LastKnown[str, str], *, is_own: bool
) -> None:
    answered = cache.changed if is_own else cache.learnt
    asked = cache.asking()
    source.clock.advance(4)
    answered("a", "0", asked)
    assert find(cache) == "1", "it was read anew"
    asked = cache.asking()
    source.values["a"] = "2"
    source.clock.advance(4)
    assert find(cache) == "2"
    answered("a", "0", asked)
    assert find(cache) == "2", "it was asked for later"
    answered("a", "0", cache.asking())
    assert find(cache) == "0"


def test_what_was_seen_before_an_answer_that_came_late_serves_while_the_source_is_away(
    source: Source, cache: LastKnown[str, str]
) -> None:
    asked = cache.asking()
    source.clock.advance(1)
    assert find(cache) == "1"
    cache.changed("a", "0", asked)
    source.away = True
    assert find(cache) == "1"
    source.away = False
    source.values["a"] = "2"
    source.clock.advance(1)
    assert find(cache) == "2"


def test_a_clock_that_was_set_back_makes_nothing_fresh(
    source: Source, cache: LastKnown[str, str]
) -> None:
    find(cache)
    find(cache, "b")
    source.values = {"a": "2", "b": "2"}
    source.clock.advance(-3600)
    assert (find(cache), find(cache, "b")) == ("2", "2")


def hang(source: Source) -> None:
    """From now on reads end with the deadline of whoever asks."""

    async def wait() -> None:
        source.meanwhile = wait
        left = left_us(source.clock.now_us())
        assert left is not None, "it would wait for ever"
        source.clock.advance(left / 1_000_000)
        raise DeadlinePassedError("no answer in time")

    source.meanwhile = wait


def test_while_the_source_hangs_one_request_in_two_seconds_waits(
    source: Source, cache: LastKnown[str, str]
) -> None:
    for name in "abc":
        source.values[name] = "1"
        find(cache, name)
    source.clock.advance(5)
    hang(source)
    source.reads.clear()
    started_us, waits_us = source.clock.now_us(), []
    while source.clock.now_us() < started_us + 60_000_000:
        for name in "abc":
            before_us = source.clock.now_us()
            assert find(cache, name) == "1"
            waits_us.append(source.clock.now_us() - before_us)
        source.clock.advance(0.01)
    assert len(waits_us) > 5_000
    assert len(source.reads) == sum(wait_us > 0 for wait_us in waits_us) <= 31
    assert max(waits_us) == PATIENCE_US


def test_while_one_tries_whether_the_source_is_back_nobody_else_waits(
    source: Source, cache: LastKnown[str, str]
) -> None:
    source.values["b"] = "2"
    find(cache, "a")
    find(cache, "b")
    source.away = True
    source.clock.advance(6)
    find(cache)
    source.away = False
    source.clock.advance(1)
    source.reads.clear()
    seen: list[str | None] = []

    async def ask_meanwhile() -> None:
        seen.extend([await cache.find("a"), await cache.find("b")])

    source.meanwhile = ask_meanwhile
    source.values["a"] = "3"
    assert find(cache) == "3"
    assert seen == ["1", "2"]
    assert source.reads == ["a"]


def test_what_changed_meanwhile_shows_when_the_source_is_back(
    source: Source, cache: LastKnown[str, str]
) -> None:
    find(cache)
    source.away = True
    source.values["a"] = "2"
    source.clock.advance(30)
    assert find(cache) == "1"
    source.away = False
    source.clock.advance(1)
    assert find(cache) == "2"
    source.values["a"] = "3"
    source.clock.advance(5)
    assert find(cache) == "3", "and then as ever"


def test_what_is_not_known_is_asked_for_while_the_source_hangs(
    source: Source, cache: LastKnown[str, str]
) -> None:
    find(cache)
    source.away = True
    source.clock.advance(6)
    find(cache)
    with pytest.raises(CellUnavailableError):
        find(cache, "b")
    source.away = False
    assert find(cache, "b") is None


def test_a_request_whose_own_time_is_over_does_not_count_as_an_absence(
    source: Source, cache: LastKnown[str, str]
) -> None:
    async def hurried() -> str | None:
        with deadline(source.clock.now_us() + 1000):
            return await cache.find("a")

    find(cache)
    source.clock.advance(6)
    hang(source)
    assert asyncio.run(hurried()) == "1"
    source.meanwhile = None
    source.values["a"] = "2"
    assert find(cache) == "2"


def test_an_own_change_stays_while_the_source_is_away(
    source: Source, cache: LastKnown[str, str]
) -> None:
    async def change() -> None:
        cache.changed("a", "2", cache.asking())
        raise CellUnavailableError("away")

    find(cache)
    source.clock.advance(6)
    source.meanwhile = change
    assert find(cache) == "2"
    source.away = True
    source.clock.advance(6)
    assert find(cache) == "2"


def test_when_the_source_is_back_everybody_asks_it_again(
    source: Source, cache: LastKnown[str, str]
) -> None:
    source.values["b"] = "1"
    find(cache, "a")
    find(cache, "b")
    source.away = True
    source.clock.advance(6)
    find(cache)
    source.away = False
    source.clock.advance(1)
    find(cache)
    source.clock.advance(5)
    source.values = {"a": "2", "b": "2"}
    seen: list[str | None] = []

    async def ask_meanwhile() -> None:
        seen.append(await cache.find("b"))

    source.meanwhile = ask_meanwhile
    assert find(cache) == "2"
    assert seen == ["2"]


def test_what_was_old_when_it_was_read_is_read_anew_the_sooner(
    source: Source, cache: LastKnown[str, str]
) -> None:
    source.old_us = 3_000_000
    assert find(cache) == "1"
    source.clock.advance(0.999)
    find(cache)
    assert source.reads == ["a"]
    source.clock.advance(0.001)
    find(cache)
    assert source.reads == ["a", "a"]
