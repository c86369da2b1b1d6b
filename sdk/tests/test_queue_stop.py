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
    assert here.hidden() == [("a-1", 0), ("b-1", 0), ("c-1", 0)]
    here.consumer.run(signals=())


def test_what_waits_for_the_poll_to_end_stays_hidden() -> None:
    here = desk(visibility_s=9)
    here.receive(message("a"))

    def end_late() -> Any:
        for time_s in (3, 6, 9):
            here.at(time_s)
        return cut_off()

    polling(here, end_late)
    assert here.hidden() == [("a-1", 9)] * 3 + [("a-1", 0)]


def test_what_fails_during_a_stop_is_given_back_with_those_behind_it_after_the_poll() -> None:
    here = desk(FIFO)
    here.receive(message("a1", group="a"), message("a2", group="a"))
    held = here.consumer._held.next_to_handle(here.clock.now_s())
    assert held is not None
    given_back: list[Any] = []

    def fail_meanwhile() -> dict[str, Any]:
        here.consumer._settle(held, 2)
        here.at(1)
        given_back.extend(here.hidden())
        return NOTHING

    polling(here, fail_meanwhile)
    assert given_back == []
    assert here.hidden() == [("a1-1", 2), ("a2-1", 0)]


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
