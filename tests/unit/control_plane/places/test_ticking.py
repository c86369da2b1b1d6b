"""A process that is held up, and what it takes of its cells then."""

import asyncio

import pytest

from control_plane.places.ticking import COUNTED_US, LATE_US_MAX, TICK_US, Ticks
from control_plane.places.watching import PROBE_US_MAX, CellWatch, WatchedCell
from data_plane.ports import CellUnavailableError, DeadlinePassedError
from tests.unit.repeatable import HandClock

from .conftest import run

LATE_US = TICK_US + LATE_US_MAX + 1
DOWN_US = 2_000_000


@pytest.mark.parametrize(
    ("passed_us", "held_up_us"),
    [
        (TICK_US, 0),
        (TICK_US + LATE_US_MAX, 0),
        (LATE_US, LATE_US - COUNTED_US),
        (3_600_000_000, 3_600_000_000 - COUNTED_US),
        (-3_600_000_000, 0),
    ],
)
def test_a_tick_that_is_late_shows_for_how_long(passed_us: int, held_up_us: int) -> None:
    clock = HandClock()
    ticks = Ticks(clock)
    clock.time_us += LATE_US
    assert ticks.held_up_us() == 0  # nobody ticks yet
    ticks.tick()
    clock.time_us += passed_us
    assert ticks.held_up_us() == held_up_us  # before the tick is there as after it
    ticks.tick()
    assert ticks.held_up_us() == held_up_us
    clock.time_us += TICK_US
    assert ticks.held_up_us() == held_up_us


class Starved:
    """Two cells, of which `a` fails or hangs, watched by a process that ticks now and then."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.ticks = Ticks(self.clock)
        self.error: CellUnavailableError | None = None
        self.takes_us = 0
        watched = {
            "a": WatchedCell(self._probe, lambda: 0, lambda: False, lambda: 0),
            "b": WatchedCell(self._answer, lambda: 0, lambda: False, lambda: 0),
        }
        self.told: list[str] = []
        self.watch = CellWatch(watched, self.clock, self.ticks)
        self.watch.failed = self.told.append
        self.ticks.tick()
        self.probe()

    async def _answer(self) -> None:
        pass

    async def _probe(self) -> None:
        self.clock.time_us += self.takes_us
        if self.error is not None:
            raise self.error

    def probe(self) -> None:
        async def both() -> None:
            for name in self.watch.idle():
                await self.watch.probe(name)

        run(both)
        self.watch.look()

    def go_on(self, ticks: int, each_us: int = TICK_US) -> None:
        for _ in range(ticks):
            self.clock.time_us += each_us
            self.ticks.tick()


def test_only_time_in_which_the_process_gets_on_counts_against_a_cell() -> None:
    starved = Starved()
    starved.error = CellUnavailableError("dead")
    starved.probe()
    assert starved.told == ["a"]
    starved.go_on(10, 500_000)
    assert starved.watch.failing(DOWN_US) == []
    failing_us = starved.clock.now_us() - starved.watch.report({})["a"].since_us
    assert failing_us == 10 * COUNTED_US
    starved.go_on(19)
    assert starved.watch.failing(DOWN_US) == ["a"]


def test_a_process_that_was_stopped_for_an_hour_is_held_up_before_it_ticks_again() -> None:
    starved = Starved()
    starved.error = CellUnavailableError("dead")
    starved.probe()
    starved.clock.time_us += 3_600_000_000
    assert starved.watch.failing(DOWN_US) == []
    starved.ticks.tick()
    starved.go_on(20)
    assert starved.watch.failing(DOWN_US) == ["a"]


def test_who_is_busy_all_the_time_sees_a_cell_fail_nevertheless() -> None:
    starved = Starved()
    starved.error = CellUnavailableError("dead")
    starved.probe()
    starved.go_on(DOWN_US // COUNTED_US, 300_000)
    assert starved.watch.failing(DOWN_US) == ["a"]


def test_an_answer_that_came_late_because_nobody_took_it_is_one() -> None:
    starved = Starved()
    starved.takes_us = PROBE_US_MAX + LATE_US
    starved.probe()
    assert starved.told == []
    assert starved.watch.report({})["a"].answers
    starved.ticks.tick()
    starved.takes_us = 0
    starved.go_on(1)
    starved.probe()
    assert starved.watch.report({})["a"].latency_us == 0


def test_a_probe_that_ran_out_of_time_says_nothing_where_the_process_was_held_up() -> None:
    starved = Starved()
    starved.takes_us, starved.error = PROBE_US_MAX, DeadlinePassedError("too late")
    starved.probe()
    assert starved.told == []
    starved.go_on(1)
    # The next one goes on with the time that the cell had: half of a second each, now.
    starved.takes_us = 0
    starved.go_on(10)
    starved.probe()
    assert starved.told == ["a"]


def test_a_probe_that_hangs_is_not_seen_to_fail_by_who_was_held_up() -> None:
    starved = Starved()

    async def hang() -> None:
        async def hangs() -> None:
            await asyncio.Event().wait()

        starved._probe = hangs  # type: ignore[method-assign]
        watched = {"a": WatchedCell(hangs, lambda: 0, lambda: False, lambda: 0)}
        watch = CellWatch(watched, starved.clock, starved.ticks)
        watch.failed = starved.told.append
        probe = asyncio.create_task(watch.probe("a"))
        await asyncio.sleep(0)
        starved.clock.time_us += 10 * PROBE_US_MAX
        watch.look()
        assert starved.told == []
        starved.ticks.tick()
        starved.go_on(9)
        watch.look()
        assert starved.told == []
        starved.go_on(1)
        watch.look()
        assert starved.told == ["a"]
        probe.cancel()

    run(hang)
