"""Cell time runs on, however the machine's clock is set, and the world's time is known of all."""

import msgspec
import pytest

from data_plane.core.cell_clock import BELIEVED_AFTER_US, WORKED_OFF_AFTER_US, CellClock, ClockStep
from data_plane.core.eras import (
    ONE_TIME,
    REMOVED_AFTER_US,
    STEP_US,
    UNDONE_US_MAX,
    Era,
    Eras,
    eras_from,
)
from tests.unit.machine import DAY_US, HOUR_US, SECOND_US, START_US, Machine


def test_it_is_the_machines_clock_as_long_as_nobody_sets_that() -> None:
    machine = Machine()
    clock = machine.start()
    for _ in range(100):
        machine.passes(7 * SECOND_US)
        assert clock.now_us() == machine.true_us
    assert clock.eras.is_plain
    assert (clock.describe(), clock.lead_us, clock.steps, machine.told) == ("ok", 0, 0, [])


def test_small_corrections_are_followed_and_it_never_goes_back() -> None:
    machine = Machine()
    clock = machine.start()
    before_us = clock.now_us()
    machine.wrong_us = -STEP_US // 2
    machine.passes(SECOND_US // 2)
    assert clock.now_us() == before_us
    machine.passes(STEP_US)
    assert clock.now_us() == machine.true_us - STEP_US // 2
    assert not machine.told


@pytest.mark.parametrize("step_us", [HOUR_US, DAY_US, -HOUR_US, -DAY_US])
def test_it_runs_on_through_steps(step_us: int) -> None:
    machine = Machine()
    clock = machine.start()
    machine.passes(10 * SECOND_US, clock)
    machine.wrong_us += step_us
    machine.passes(SECOND_US)
    assert clock.now_us() == machine.true_us
    assert machine.told == [ClockStep(step_us)]
    assert clock.lead_us == -step_us
    machine.passes(SECOND_US, clock)
    machine.wrong_us = 0
    machine.passes(SECOND_US)
    assert clock.now_us() == machine.true_us
    assert (clock.describe(), clock.lead_us, clock.eras.is_plain) == ("ok", 0, True)


def test_a_process_that_was_held_up_between_two_looks_is_no_step() -> None:
    machine = Machine()
    clock = machine.start()
    machine.passes(SECOND_US, clock)
    machine.held_up_us = 60 * SECOND_US
    assert clock.now_us() == machine.true_us
    assert not machine.told


@pytest.mark.parametrize("before_us", [0, 90_000, 60 * SECOND_US])
@pytest.mark.parametrize("after_us", [0, 90_000, 60 * SECOND_US])
def test_it_is_never_early_where_the_process_was_held_up(before_us: int, after_us: int) -> None:
    machine = Machine()
    clock = machine.start()
    machine.passes(SECOND_US, clock)
    machine.passes(SECOND_US)
    machine.held_up_us, machine.held_after_us = before_us, after_us
    assert clock.now_us() <= machine.true_us
    machine.passes(1_000)
    assert clock.now_us() == machine.true_us
    machine.passes(1_000)
    assert clock.now_us() == machine.true_us
    assert not machine.told


@pytest.mark.parametrize("ahead_us", [HOUR_US, DAY_US])
def test_times_of_a_clock_that_was_ahead_are_known_when_it_is_set_right(ahead_us: int) -> None:
    machine = Machine(wrong_us=ahead_us)
    clock = machine.start()
    clock.learn(START_US - 60 * SECOND_US, None, "there")
    sent_us = clock.now_us()
    machine.passes(10 * SECOND_US, clock)
    machine.wrong_us = 0
    machine.passes(SECOND_US, clock)
    now_us = clock.now_us()
    assert now_us - sent_us == 11 * SECOND_US  # delays and leases go on
    assert clock.eras.world_us(now_us) == machine.true_us
    assert clock.eras.world_us(sent_us) == START_US
    assert clock.eras.world_us(START_US - 60 * SECOND_US) == START_US - 60 * SECOND_US
    assert clock.eras.between_us(START_US - 60 * SECOND_US, now_us) == 71 * SECOND_US
    assert clock.describe() == f"behind the store by {ahead_us // SECOND_US} s"


@pytest.mark.parametrize("ahead_us", [HOUR_US, DAY_US])
def test_a_start_behind_what_is_stored_goes_on_from_there(ahead_us: int) -> None:
    machine = Machine()
    clock = machine.start()
    clock.learn(START_US + ahead_us, None, "there")
    assert machine.told == [ClockStep(-ahead_us, "there")]
    assert clock.now_us() == START_US + ahead_us
    machine.passes(30 * SECOND_US)
    assert clock.now_us() == machine.true_us + ahead_us
    # Sent before the clock was ahead, while it was, and after.
    times = (START_US - SECOND_US, START_US + ahead_us - SECOND_US, clock.now_us())
    worlds = [clock.eras.world_us(stamp_us) for stamp_us in times]
    assert worlds == [START_US - SECOND_US, START_US - SECOND_US, machine.true_us]


def test_eras_outlive_the_process() -> None:
    machine = Machine()
    clock = machine.start()
    clock.learn(START_US + HOUR_US, None, "there")
    machine.passes(60 * SECOND_US)
    present_us, stored = clock.now_us(), clock.eras.to_bytes()
    machine.passes(600 * SECOND_US)
    again = machine.start()
    again.learn(present_us, stored, "there")
    assert again.now_us() == machine.true_us + HOUR_US
    assert again.eras.between_us(START_US - SECOND_US, again.now_us()) == 661 * SECOND_US
    assert len(machine.told) == 1


def test_a_lead_is_worked_off_by_a_service_that_is_closed_for_long() -> None:
    machine = Machine()
    clock = machine.start()
    clock.learn(START_US + HOUR_US, None, "there")
    present_us, stored = clock.now_us(), clock.eras.to_bytes()
    machine.passes(WORKED_OFF_AFTER_US + 2 * HOUR_US)
    again = machine.start()
    again.learn(present_us, stored, "there")
    assert again.now_us() == machine.true_us
    assert again.describe() == "ok"
    sent_us = START_US - SECOND_US
    assert again.eras.between_us(sent_us, again.now_us()) == machine.true_us - sent_us
    assert again.eras.between_us(present_us, again.now_us()) == machine.true_us - START_US


def test_a_clock_that_stays_ahead_is_believed_and_then_unbelieved() -> None:
    machine = Machine()
    clock = machine.start()
    sent_us = clock.now_us()
    machine.wrong_us = DAY_US
    machine.passes(SECOND_US, clock)
    assert clock.describe() == "ahead of the store by 86400 s, believed in 900 s"
    assert clock.eras.between_us(sent_us, clock.now_us()) == SECOND_US
    machine.passes(BELIEVED_AFTER_US, clock)
    assert clock.describe() == "ok"
    assert clock.eras.between_us(sent_us, clock.now_us()) == SECOND_US + BELIEVED_AFTER_US + DAY_US
    assert clock.now_us() == machine.true_us  # leases and delays did not end for that
    assert clock.removable_us() == machine.true_us
    machine.wrong_us = 0
    machine.passes(SECOND_US, clock)
    assert clock.eras.between_us(sent_us, clock.now_us()) == 2 * SECOND_US + BELIEVED_AFTER_US


def test_nothing_is_removed_because_of_a_clock_that_was_ahead() -> None:
    machine = Machine(wrong_us=DAY_US)
    clock = machine.start()
    clock.learn(START_US, None, "there")
    assert clock.now_us() == START_US + DAY_US
    assert clock.removable_us() == START_US
    machine.passes(600 * SECOND_US, clock)
    assert clock.removable_us() == machine.true_us
    machine.wrong_us = 0
    machine.passes(REMOVED_AFTER_US, clock)
    assert clock.removable_us() == machine.true_us


def test_what_was_decided_before_a_step_was_noticed_is_in_doubt() -> None:
    machine = Machine(wrong_us=DAY_US)
    clock = machine.start()
    clock.learn(START_US, None, "there")
    versions = [clock.eras.version]
    for wrong_us in (0, DAY_US, 0):
        machine.wrong_us = wrong_us
        machine.passes(SECOND_US, clock)
        versions.append(clock.eras.version)
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("closed_us", [SECOND_US, 300 * SECOND_US])
def test_a_clock_that_was_behind_is_set_right_while_nothing_runs(closed_us: int) -> None:
    machine = Machine(wrong_us=-HOUR_US)
    clock = machine.start()
    clock.learn(START_US, None, "there")
    machine.passes(SECOND_US, clock)
    sent_us = clock.now_us()
    machine.wrong_us = 0
    machine.passes(closed_us)
    again = machine.start_again(clock)
    assert again.eras.between_us(sent_us, again.now_us()) == closed_us
    assert again.eras.world_us(sent_us) == machine.true_us - closed_us
    assert again.describe() == "ok"


def test_a_clock_that_was_behind_is_set_right_in_another_process() -> None:
    machine = Machine(wrong_us=-HOUR_US)
    clock = machine.start()
    clock.learn(START_US, None, "there")
    again = machine.start_again(clock)
    sent_us = again.now_us()
    machine.wrong_us = 0
    machine.passes(SECOND_US, again)
    third = machine.start_again(again)
    assert third.eras.between_us(sent_us, third.now_us()) == SECOND_US
    assert third.eras.world_us(sent_us) == machine.true_us - SECOND_US


def test_several_cells_share_one_time() -> None:
    machine = Machine()
    clock = machine.start()
    clock.learn(0, None, "new")
    clock.learn(START_US - HOUR_US, None, "a")
    clock.learn(START_US + HOUR_US, None, "b")
    clock.learn(START_US + SECOND_US, None, "c")
    assert clock.now_us() == START_US + HOUR_US
    assert machine.told == [ClockStep(-HOUR_US, "b")]


@pytest.mark.parametrize("first", ["knows", "does not"])
def test_whichever_of_several_cells_has_seen_a_step(first: str) -> None:
    """One was written to last before the clock was set ahead, the other one after it."""
    machine = Machine()
    clock = machine.start()
    clock.learn(START_US - SECOND_US, None, "a")
    lefts = {"does not": (clock.now_us(), clock.eras.to_bytes())}
    machine.wrong_us = DAY_US
    machine.passes(60 * SECOND_US, clock)
    lefts["knows"] = (clock.now_us(), clock.eras.to_bytes())
    machine.passes(60 * SECOND_US)
    again = machine.start()
    with again.opening():
        for cell in sorted(lefts, key=lambda cell: cell != first):
            again.learn(*lefts[cell], cell)
    assert again.now_us() == machine.true_us
    assert again.describe() == "ahead of the store by 86400 s, believed in 900 s"


def test_eras_that_cannot_be_read_are_refused_at_once() -> None:
    clock = Machine().start()
    with clock.opening(), pytest.raises(msgspec.DecodeError):
        clock.learn(START_US, b"?", "there")


def test_a_clock_that_is_set_back_twice() -> None:
    machine = Machine(wrong_us=DAY_US + HOUR_US)
    clock = machine.start()
    clock.learn(START_US - SECOND_US, None, "there")
    machine.passes(SECOND_US, clock)
    machine.wrong_us = HOUR_US
    machine.passes(SECOND_US, clock)
    machine.wrong_us = 0
    machine.passes(SECOND_US, clock)
    assert clock.eras.world_us(clock.now_us()) == machine.true_us
    old_us = START_US - SECOND_US
    assert clock.eras.between_us(old_us, clock.now_us()) == 4 * SECOND_US


def test_a_clock_that_was_set_back_twice_was_wrong_both_times() -> None:
    machine = Machine(wrong_us=-HOUR_US)
    clock = machine.start()
    clock.learn(START_US, None, "there")
    sent_us = clock.now_us()
    machine.wrong_us = -DAY_US
    machine.passes(SECOND_US, clock)
    machine.wrong_us = 0
    again = machine.start_again(clock)
    assert again.eras.between_us(sent_us, again.now_us()) == SECOND_US
    assert again.describe() == "ok"


def test_everything_at_or_before_a_moment_is_old_enough() -> None:
    eras = Eras((Era(0, 0), Era(1_000, 500), Era(2_000, 300)))
    for span in (0, 100, 300, 700, 1_500, 3_000):
        moment = eras.before_us(2_500, span)
        ages = {stamp: eras.between_us(stamp, 2_500) for stamp in range(1, 2_501, 7)}
        assert all(age >= span for stamp, age in ages.items() if stamp <= moment)


def test_eras_are_stored_and_read() -> None:
    eras = Eras((Era(0, 0), Era(START_US, HOUR_US)))
    assert len(msgspec.msgpack.decode(eras.to_bytes())) == 5  # as it was before there were leaps
    assert eras_from(eras.to_bytes()).to_bytes() == eras.to_bytes()
    leapt = eras.after_a_start(HOUR_US, START_US + DAY_US)
    assert eras_from(leapt.to_bytes()).leaps == leapt.leaps != ()
    assert eras_from(None).is_plain
    assert ONE_TIME.is_plain


def test_a_clock_that_was_behind_is_set_right_in_two_steps_with_ends_in_between() -> None:
    machine = Machine()
    clock = machine.start()
    clock.learn(START_US - SECOND_US, None, "there")
    machine.passes(SECOND_US, clock)
    sent_us = clock.now_us()
    machine.wrong_us = -DAY_US
    machine.passes(SECOND_US, clock)
    again = machine.start_again(clock)
    machine.wrong_us = -HOUR_US
    machine.passes(SECOND_US, again)
    machine.wrong_us = 0
    third = machine.start_again(again)
    assert third.eras.between_us(sent_us, third.now_us()) == 2 * SECOND_US
    assert third.eras.world_us(sent_us) == machine.true_us - 2 * SECOND_US
    assert third.describe() == "ok"


def _put_right_in_part(machine: Machine) -> tuple[CellClock, list[int]]:
    """The clock is set back by a day, and to an hour behind, each time while nothing runs.

    With what was sent before, in between and after, less its true time.
    """
    clock = machine.start()
    clock.learn(START_US - SECOND_US, None, "there")
    sent_us = [clock.now_us()]
    for wrong_us in (-DAY_US, -HOUR_US):
        machine.wrong_us = wrong_us
        machine.passes(SECOND_US)
        clock = machine.start_again(clock)
        machine.passes(SECOND_US, clock)
        sent_us.append(clock.now_us())
    return clock, sent_us


def _worlds(clock: CellClock, sent_us: list[int]) -> list[int]:
    """The world's time of each, from the first on, and of now, in whole seconds."""
    now_us = clock.now_us()
    return [round((clock.eras.world_us(t) - START_US) / SECOND_US) for t in (*sent_us, now_us)]


@pytest.mark.parametrize("how", ["serving", "stopped", "set back again", "an hour ahead"])
def test_a_clock_that_was_behind_is_set_right_by_several_starts(how: str) -> None:
    """What was sent before is as old as it is, and not older by what the first start passed over.

    It was hidden as expired, and an hour later removed.
    """
    machine = Machine()
    clock, sent_us = _put_right_in_part(machine)
    if how == "set back again":
        machine.wrong_us = -DAY_US
        machine.passes(SECOND_US, clock)
    elif how == "an hour ahead":
        machine.wrong_us = HOUR_US
        clock = machine.start_again(clock)
        machine.passes(SECOND_US, clock)
    machine.wrong_us = 0
    if how == "stopped":
        clock = machine.start_again(clock)
    machine.passes(SECOND_US, clock)
    first, *others = _worlds(clock, sent_us)
    true_s = [2, 4, (machine.true_us - START_US) // SECOND_US]
    # Twice nobody knows for how long it was closed: a second.
    assert first == 0
    assert all(abs(world - true) <= 2 for world, true in zip(others, true_s, strict=True))
    machine.passes(REMOVED_AFTER_US + SECOND_US, clock)
    assert clock.removable_us() <= sent_us[0] + REMOVED_AFTER_US + 10 * SECOND_US


def test_three_starts_put_it_right() -> None:
    machine = Machine()
    clock, sent_us = _put_right_in_part(machine)
    for wrong_us in (-HOUR_US // 2, 0):
        machine.wrong_us = wrong_us
        clock = machine.start_again(clock)
        machine.passes(SECOND_US, clock)
        sent_us.append(clock.now_us())
    true_s = (0, 2, 4, 5, 6, 6)
    worlds = _worlds(clock, sent_us)
    assert all(abs(world - true) <= 2 for world, true in zip(worlds, true_s, strict=True))


@pytest.mark.parametrize("how", ["serving", "stopped", "ahead again in between"])
def test_a_clock_that_starts_found_ever_further_ahead_is_set_right(how: str) -> None:
    """What was sent between the starts is as old as it is, and was ahead by the first alone."""
    machine = Machine()
    clock = machine.start()
    clock.learn(START_US - SECOND_US, None, "there")
    sent_us = [clock.now_us()]
    for wrong_us in (HOUR_US, DAY_US):
        machine.wrong_us = wrong_us
        machine.passes(SECOND_US)
        clock = machine.start_again(clock)
        machine.passes(SECOND_US, clock)
        sent_us.append(clock.now_us())
    if how == "ahead again in between":
        for wrong_us in (0, DAY_US):
            machine.wrong_us = wrong_us
            machine.passes(SECOND_US, clock)
    machine.wrong_us = 0
    if how == "stopped":
        clock = machine.start_again(clock)
    machine.passes(SECOND_US, clock)
    true_s = [0, 2, 4, (machine.true_us - START_US) // SECOND_US]
    worlds = _worlds(clock, sent_us)
    # Twice nobody knows for how long it was closed: a second.
    assert all(abs(world - true) <= 2 for world, true in zip(worlds, true_s, strict=True))
    # It is set back by an hour, and wrong: the first leap was an hour, and is explained already.
    machine.wrong_us = -HOUR_US
    machine.passes(SECOND_US, clock)
    assert _worlds(clock, sent_us)[:2] == worlds[:2]


@pytest.mark.parametrize("starts_meanwhile", [0, 1])
def test_a_stop_is_one_when_the_service_has_run_for_an_hour_since(starts_meanwhile: int) -> None:
    """Only then: stops of days add up to anything, and the clock was right."""
    machine = Machine()
    clock, sent_us = _put_right_in_part(machine)
    machine.passes(REMOVED_AFTER_US, clock)
    for _ in range(starts_meanwhile):
        machine.passes(5 * SECOND_US)
        clock = machine.start_again(clock)
    machine.wrong_us = 0
    again = machine.start_again(clock)
    assert again.eras.between_us(sent_us[0], again.now_us()) > DAY_US


@pytest.mark.parametrize("wrong_us", [-10 * SECOND_US, UNDONE_US_MAX + 10 * SECOND_US])
def test_starts_that_make_good_less_than_that_or_more_were_stops(wrong_us: int) -> None:
    machine = Machine()
    clock, sent_us = _put_right_in_part(machine)
    machine.wrong_us = wrong_us
    again = machine.start_again(clock)
    assert again.eras.between_us(sent_us[0], again.now_us()) > DAY_US - HOUR_US


def test_short_stops_add_up_to_no_step_of_the_clock() -> None:
    """A server that crashes again and again, on a machine whose clock was put right once."""
    machine = Machine()
    clock = machine.start()
    clock.learn(START_US + HOUR_US, None, "there")
    version = clock.eras.version
    for _ in range(2 * HOUR_US // UNDONE_US_MAX):
        machine.passes(UNDONE_US_MAX)
        clock = machine.start_again(clock)
        machine.passes(SECOND_US, clock)
    assert clock.eras.version == version
    assert clock.eras.world_us(clock.now_us()) == machine.true_us


def test_what_it_was_closed_for_before_the_clock_was_set_back_is_not_counted() -> None:
    """It was ahead by a day when it started, and is right: a short stop says nothing of that."""
    machine = Machine()
    clock = machine.start()
    clock.learn(START_US + HOUR_US, None, "there")
    machine.passes(SECOND_US, clock)
    machine.wrong_us = DAY_US // 4
    clock = machine.start_again(clock)
    machine.passes(SECOND_US, clock)
    machine.wrong_us = 0
    machine.passes(SECOND_US, clock)
    before = clock.eras.to_bytes()
    machine.passes(UNDONE_US_MAX // 2)
    again = machine.start_again(clock)
    assert again.eras.version == eras_from(before).version
    assert again.eras.world_us(again.now_us()) == machine.true_us
