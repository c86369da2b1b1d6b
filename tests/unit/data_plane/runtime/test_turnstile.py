"""Who gets the next place, when there are fewer than are wanted."""

import asyncio

import pytest

from data_plane.runtime.turnstile import CROWDED_AFTER_S, CROWDED_PATIENCE_S, Turnstile
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run

PATIENCE_S = 5.0


class Crowd:
    """Those who come, by name; `entered` has them in the order in which they got in."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.turnstile = Turnstile(lambda: self.places)
        self.entered: list[str] = []
        self.gave_up: dict[str, float] = {}

    async def come(self, name: str, *, begun: bool = False) -> None:
        loop = asyncio.get_running_loop()
        came_s = loop.time()
        try:
            await self.turnstile.enter(PATIENCE_S, begun=begun)
        except TimeoutError:
            self.gave_up[name] = loop.time() - came_s
        else:
            self.entered.append(name)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_who_has_begun_goes_first_and_then_who_came_last() -> None:
    async def main() -> None:
        crowd = Crowd(1)
        await crowd.come("inside")
        coming = [
            asyncio.create_task(crowd.come(name, begun=name.isupper()))
            for name in ("a", "B", "c", "D")
        ]
        await settle()
        for _ in range(4):
            crowd.turnstile.leave()
            await settle()
        assert crowd.entered == ["inside", "B", "D", "c", "a"]
        await asyncio.gather(*coming)

    run(main(), VirtualLoop())


@pytest.mark.parametrize(("begun", "patience_s"), [(True, PATIENCE_S), (False, CROWDED_PATIENCE_S)])
def test_in_a_crowd_that_stays_who_has_not_begun_is_told_soon(
    *, begun: bool, patience_s: float
) -> None:
    async def main() -> None:
        crowd = Crowd(1)
        await crowd.come("inside")
        first = asyncio.create_task(crowd.come("first"))
        await asyncio.sleep(CROWDED_AFTER_S)  # of the loop's time
        await crowd.come("later", begun=begun)
        await first
        assert crowd.gave_up["first"] == pytest.approx(PATIENCE_S)
        assert crowd.gave_up["later"] == pytest.approx(patience_s)
        crowd.turnstile.leave()
        await crowd.come("then")
        assert crowd.entered == ["inside", "then"], "no place is lost"

    run(main(), VirtualLoop())


def test_a_place_that_comes_with_the_end_of_patience_is_not_lost() -> None:
    async def main() -> None:
        crowd = Crowd(1)
        await crowd.come("inside")
        loop = asyncio.get_running_loop()
        loop.call_later(PATIENCE_S, crowd.turnstile.leave)
        await crowd.come("late")
        if "late" in crowd.entered:
            crowd.turnstile.leave()
        await crowd.come("next")
        assert crowd.entered[-1] == "next"

    run(main(), VirtualLoop())


def test_fewer_places_than_are_taken_let_nobody_in() -> None:
    async def main() -> None:
        crowd = Crowd(2)
        await crowd.come("one")
        await crowd.come("two")
        crowd.places = 1
        waiting = asyncio.create_task(crowd.come("three"))
        await settle()
        crowd.turnstile.leave()
        await settle()
        assert crowd.entered == ["one", "two"]
        crowd.turnstile.leave()
        await waiting
        assert crowd.entered == ["one", "two", "three"]

    run(main(), VirtualLoop())
