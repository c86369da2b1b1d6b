"""Long work in slices: others go on between them, and one slice runs at a time."""

import asyncio
from collections.abc import Coroutine, Generator
from time import monotonic
from typing import Any

import pytest

from data_plane.core.turns import at_once
from data_plane.runtime import event_loop
from data_plane.runtime.event_loop import LongWork

SLICES = 5


def slices(name: str, log: list[str], count: int = SLICES) -> Generator[None, None, str]:
    for _ in range(count):
        log.append(name)
        until_s = monotonic() + event_loop._SLICE_S
        while monotonic() < until_s:
            pass
        yield
    return name


def test_two_that_are_long_take_turns_and_others_go_on() -> None:
    log: list[str] = []

    async def short() -> None:
        while log.count("a") < SLICES or log.count("b") < SLICES:
            log.append("-")
            await asyncio.sleep(0)

    async def all_three() -> list[str]:
        in_turns = LongWork()
        long = (in_turns(slices("a", log)), in_turns(slices("b", log)))
        first, second, _ = await asyncio.gather(*long, short())
        return [str(first), str(second)]

    assert asyncio.run(all_three()) == ["a", "b"]
    slices_only = [each for each in log if each != "-"]
    assert slices_only == ["a", "b"] * SLICES
    between = "".join(log).strip("-")
    assert "ab" not in between[2:]
    assert "ba" not in between[2:]


def test_work_of_less_than_a_slice_lets_others_go_first_and_waits_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What its request has done in the same turn before, nobody has measured."""
    monkeypatch.setattr(event_loop, "monotonic", lambda: 0.0)
    begun: list[str] = []

    def short() -> Generator[None, None, int]:
        begun.append("")
        yield
        return 7

    working = LongWork()(short())
    working.send(None)
    assert not begun
    assert without_waiting(working) == 7


def test_where_nothing_else_goes_on_it_is_done_at_once() -> None:
    assert without_waiting(at_once(slices("a", []))) == "a"


def without_waiting(work: Coroutine[Any, Any, Any]) -> object:
    """What it returns; fails if it waits."""
    with pytest.raises(StopIteration) as done:
        work.send(None)
    return done.value.value
