"""Time in a function: it comes from the invocation, whatever the sandbox slept through."""

from control_plane.serverless.clock import InvocationClock
from data_plane.dynamodb.store_time import ClockExchange, StoreTime
from tests.unit.repeatable import HandClock

MINUTE_US = 60_000_000


class Machine:
    """A sandbox's machine, whose clock that only runs stands still while it is frozen."""

    def __init__(self) -> None:
        self.wall = HandClock()
        self.running = 5_000_000
        self.clock = InvocationClock(self.wall, lambda: self.running)

    def pass_by(self, us: int) -> None:
        self.wall.time_us += us
        self.running += us


def test_it_runs_within_an_invocation() -> None:
    machine = Machine()
    began_us = machine.clock.begin()
    assert began_us == machine.wall.time_us
    machine.pass_by(1_500)
    assert machine.clock.now_us() == began_us + 1_500


def test_a_wall_clock_that_is_set_meanwhile_changes_nothing() -> None:
    machine = Machine()
    began_us = machine.clock.begin()
    machine.wall.time_us -= MINUTE_US
    machine.running += 10
    assert machine.clock.now_us() == began_us + 10


def test_after_a_freeze_it_is_the_time_of_then() -> None:
    machine = Machine()
    machine.clock.begin()
    machine.wall.time_us += 5 * MINUTE_US
    assert machine.clock.begin() == machine.wall.time_us == machine.clock.now_us()


def test_it_is_never_earlier_than_the_request() -> None:
    """A machine that woke with the time at which it was frozen."""
    machine = Machine()
    came_us = machine.wall.time_us + 5 * MINUTE_US
    assert machine.clock.begin(came_us) == came_us
    machine.pass_by(7)
    assert machine.clock.now_us() == came_us + 7


def test_an_event_from_before_holds_nothing_back() -> None:
    machine = Machine()
    assert machine.clock.begin(machine.wall.time_us - MINUTE_US) == machine.wall.time_us


def test_what_is_known_of_the_store_survives_a_freeze() -> None:
    """By a clock that stood still, the store's time would be that of before the freeze."""
    machine = Machine()
    clock = machine.clock
    time = StoreTime(clock, clock.now_us)
    second_us = machine.wall.time_us // 1_000_000 * 1_000_000
    time.observe(ClockExchange(clock.now_us(), clock.now_us(), second_us))
    machine.wall.time_us += 5 * MINUTE_US
    clock.begin()
    assert abs(time.now_us() - machine.wall.time_us) <= 1_000_000
