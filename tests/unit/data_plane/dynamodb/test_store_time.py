import asyncio
import time
from email.utils import formatdate

import pytest

from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.store_time import (
    LEAD_US_MAX,
    SECOND_US,
    ClockExchange,
    StoreTime,
    read_date_us,
)
from data_plane.ports import SETTLE_US
from tests.conformance.on_driver import inline
from tests.unit.data_plane.dynamodb.scripted import Script
from tests.unit.data_plane.dynamodb.test_requests import FOUND, KEY
from tests.unit.repeatable import HandClock

NOON_US = 1_790_000_000 * SECOND_US
HOUR_US = 3_600 * SECOND_US
SLEEPING = getattr(time, "CLOCK_BOOTTIME", None)
"""Which clocks of Linux run on while a machine sleeps."""


class World:
    """A store's clock, a wall clock that is wrong by `wrong_us`, and a clock that only runs."""

    def __init__(self, wrong_us: int = 0) -> None:
        self.store_us = NOON_US
        self.wrong_us = wrong_us
        self.ran_us = 77
        self.time = StoreTime(self, self.running_us)

    def now_us(self) -> int:
        return self.store_us + self.wrong_us

    def running_us(self) -> int:
        return self.ran_us

    def wait(self, us: int) -> None:
        self.store_us += us
        self.ran_us += us

    def exchange(self, *, there_us: int = 1_000, back_us: int = 1_000) -> ClockExchange:
        sent_us = self.ran_us
        self.wait(there_us)
        date_us = self.store_us // SECOND_US * SECOND_US
        self.wait(back_us)
        answered = ClockExchange(sent_us, self.ran_us, date_us)
        self.time.observe(answered)
        return answered

    @property
    def error_us(self) -> int:
        return self.time.now_us() - self.store_us


@pytest.mark.parametrize("wrong_us", [0, 300, -300])
def test_a_clock_that_may_be_right_is_believed(wrong_us: int) -> None:
    world = World(wrong_us)
    assert world.error_us == wrong_us
    world.wait(SECOND_US // 2)
    world.exchange()
    assert world.error_us == wrong_us


@pytest.mark.parametrize("wrong_us", [HOUR_US, -HOUR_US, 2 * SECOND_US, -2 * SECOND_US])
def test_a_clock_that_is_wrong_is_brought_to_within_a_second(wrong_us: int) -> None:
    world = World(wrong_us)
    world.exchange()
    assert abs(world.error_us) <= SECOND_US + 2_000


@pytest.mark.parametrize("wrong_us", [HOUR_US, -HOUR_US])
def test_many_answers_narrow_it_down(wrong_us: int) -> None:
    world = World(wrong_us)
    for _ in range(40):
        world.exchange()
        world.wait(33_333)
    world.time._present_us = 0
    assert abs(world.error_us) <= 40_000


def test_the_present_does_not_go_backwards() -> None:
    world = World(wrong_us=700_000)
    before_us = world.time.now_us()
    world.wrong_us = -700_000
    assert world.time.now_us() == before_us
    world.wait(2 * SECOND_US)
    assert world.time.now_us() > before_us


def test_a_present_far_ahead_is_not_waited_for() -> None:
    world = World(wrong_us=HOUR_US)
    assert world.error_us == HOUR_US
    world.exchange()
    assert abs(world.error_us) <= SECOND_US + 2_000


def test_a_wall_clock_that_jumps_changes_nothing() -> None:
    world = World()
    world.exchange()
    world.wrong_us = HOUR_US
    assert abs(world.error_us) <= SECOND_US
    world.wrong_us = -HOUR_US
    assert abs(world.error_us) <= SECOND_US


def test_after_a_sleep_the_first_answer_tells_the_time() -> None:
    world = World()
    world.exchange()
    world.store_us += HOUR_US  # and the clock that only runs stood still
    world.exchange()
    assert abs(world.error_us) <= SECOND_US


def test_a_store_whose_clock_is_set_back_is_followed() -> None:
    world = World()
    world.exchange()
    world.store_us -= HOUR_US
    world.exchange()
    assert abs(world.error_us) <= LEAD_US_MAX
    assert world.time.settled_us() <= world.store_us - SETTLE_US


def test_what_is_settled_was_proved_by_an_answer() -> None:
    world = World(wrong_us=HOUR_US)
    assert world.time.settled_us() == 0
    answered = world.exchange()
    world.wait(10 * SECOND_US)
    assert world.time.settled_us() == answered.date_us - SETTLE_US
    world.time.observe(answered._replace(date_us=answered.date_us - SECOND_US))
    assert world.time.settled_us() == answered.date_us - SETTLE_US


def test_the_time_of_a_write_is_an_upper_bound() -> None:
    world = World()
    world.wait(SECOND_US - 1_001)
    written_us = world.store_us + 1_000
    answered = world.exchange()
    assert written_us // 1000 <= answered.store_ms_max <= written_us // 1000 + 999


def test_a_date_is_read_as_utc() -> None:
    assert read_date_us(formatdate(NOON_US // SECOND_US, usegmt=True)) == NOON_US
    assert read_date_us("Mon, 21 Sep 2026 14:13:20 -0000") == NOON_US
    with pytest.raises(ValueError, match="Invalid date"):
        read_date_us("yesterday")


@pytest.mark.skipif(SLEEPING is None, reason="no clock of this system runs on meanwhile")
def test_a_server_that_slept_knows_the_time_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    script = Script(FOUND)
    cell = DynamoCell(script.client, "t", clock, inline)
    asyncio.run(cell.get(KEY))
    now_ns = time.clock_gettime_ns
    clock.advance(3_600)
    monkeypatch.setattr(
        time, "clock_gettime_ns", lambda which: now_ns(which) + 3_600 * 10**9 * (which == SLEEPING)
    )
    assert cell.now_us() >= clock.now_us()
