"""What a stop of a queue's consumer costs, in virtual time: what nobody began comes once more."""

from typing import Any

import pytest

from sdk.tests.scripted import cut_off
from sdk.tests.test_queue_consumer import FIFO, NOTHING, URL, Desk, desk, message


def polling(here: Desk, meanwhile: Any) -> None:
    """The receiver's thread, which is stopped while a poll is under way."""

    def stop(_params: dict[str, Any]) -> Any:
        here.consumer.stop()
        return meanwhile()

    here.client._answers["receive_message"].clear()
    here.client.lay_down("receive_message", stop)
    here.consumer._receive()


@pytest.mark.parametrize("url", [URL, FIFO])
def test_what_nobody_began_is_given_back_when_the_poll_under_way_has_ended(url: str) -> None:
    here = desk(url)
    here.receive(message("a", group="a"), message("b", group="b"))
    given_back: list[Any] = []

    def end_late() -> dict[str, Any]:
        here.at(9)
        given_back.extend(here.hidden())
        assert not here.consumer.handle_next()
        return {"Messages": [message("c", group="c")]}

    polling(here, end_late)
    assert given_back == []
    assert here.hidden() == [("a-1", 2), ("b-1", 2), ("c-1", 2)]
    here.consumer.run(signals=())


@pytest.mark.parametrize(
    ("wait_s", "stopped_s", "hidden_s"), [(10, 0, 11), (20, 0, 21), (2, 0.5, 3), (0, 0, 1)]
)
def test_what_is_given_back_is_hidden_from_consumers_that_stop_at_the_same_time(
    wait_s: int, stopped_s: float, hidden_s: int
) -> None:
    here = desk(wait_s=wait_s)
    here.receive(message("a"))
    here.consumer.stop()
    here.at(stopped_s)
    assert here.hidden() == [("a-1", hidden_s)]


def test_when_their_polls_have_ended_what_fails_comes_as_ever() -> None:
    here = desk()
    here.raises["a"] = ValueError()
    here.receive(message("a"))

    def stop_and_take_long() -> None:
        here.consumer.stop()
        here.clock.time_s += 20

    here.meanwhile = stop_and_take_long
    here.handle()
    here.at(20)
    assert here.hidden() == [("a-1", 2)]


def test_what_waits_for_the_poll_to_end_stays_hidden() -> None:
    here = desk(visibility_s=9)
    here.receive(message("a"))

    def end_late() -> Any:
        for time_s in (3, 6, 9):
            here.at(time_s)
        return cut_off()

    polling(here, end_late)
    assert here.hidden() == [("a-1", 9)] * 3 + [("a-1", 2)]


def test_what_fails_during_a_stop_is_given_back_with_those_behind_it_after_the_poll() -> None:
    here = desk(FIFO)
    here.receive(message("a1", group="a"), message("a2", group="a"))
    held = here.consumer._held.next_to_handle(here.clock.now_s())
    assert held is not None
    given_back: list[Any] = []

    def fail_meanwhile() -> dict[str, Any]:
        here.consumer._settle(held, 20)
        here.at(1)
        given_back.extend(here.hidden())
        return NOTHING

    polling(here, fail_meanwhile)
    assert given_back == []
    assert here.hidden() == [("a1-1", 20), ("a2-1", 10)]


@pytest.mark.parametrize(("stop_s_max", "late_s"), [(None, 15), (60, 15), (8, 6)])
def test_a_poll_that_hangs_is_not_waited_for_without_end(
    stop_s_max: float | None, late_s: float
) -> None:
    here = desk(stop_s_max=stop_s_max)
    here.receive(message("a"))
    before: list[Any] = []

    def hang() -> dict[str, Any]:
        here.at(late_s - 0.1)
        before.extend(each for each in here.hidden() if each[1] == 0)
        here.at(late_s)
        assert here.hidden()[-1] == ("a-1", 0)
        return NOTHING

    polling(here, hang)
    assert before == []


def attempts(here: Desk, operation: str) -> list[float]:
    """When the calls of this kind were made that begin from now on, none of which comes through."""
    times_s: list[float] = []

    def note(_params: dict[str, Any]) -> Any:
        times_s.append(here.clock.now_s() - 1_000)
        return cut_off()

    here.client._answers[operation].clear()
    here.client.lay_down(operation, note)
    return times_s


@pytest.mark.parametrize("operation", ["delete_message_batch", "change_message_visibility_batch"])
def test_pauses_become_short_before_the_end_of_a_stop(operation: str) -> None:
    here = desk(stop_s_max=10, linger_s=0)
    here.receive(message("a"))
    if operation == "delete_message_batch":
        here.handle()
    times_s = attempts(here, operation)
    here.consumer.stop()
    for hundredths in range(1_000):
        here.at(hundredths / 100)
    assert 9.8 <= times_s[-1] < 10
    assert len(times_s) <= 15


def test_a_pause_that_began_before_a_stop_ends_before_its_end() -> None:
    here = desk(stop_s_max=2, linger_s=0)
    here.receive(message("a"))
    here.handle()
    times_s = attempts(here, "delete_message_batch")
    for tenths in range(71):
        here.at(tenths / 10)
    before = len(times_s)
    here.consumer.stop()
    for tenths in range(71, 90):
        here.at(tenths / 10)
    assert times_s[before] == pytest.approx(8)
    assert 8.7 <= times_s[-1] < 9
