"""What may be visible again may be another consumer's, which is not to lose it to this one."""

from typing import Any

import pytest

from sdk.tests.scripted import cut_off
from sdk.tests.test_queue_consumer import FIFO, NOTHING, Desk, desk, message


def away(here: Desk, until_s: float) -> None:
    """No call comes through until then, but all do later; what was asked is forgotten."""
    here.client._answers.clear()
    for operation in ("change_message_visibility_batch", "delete_message_batch"):
        here.client.lay_down(operation, cut_off())
    for tenths in range(round(until_s * 10)):
        here.at(tenths / 10)
    here.clock.time_s = 1_000 + until_s
    here.client.calls.clear()
    here.client._answers.clear()
    for operation in ("change_message_visibility_batch", "delete_message_batch"):
        here.client.lay_down(operation, NOTHING)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_waits_is_neither_extended_nor_given_back_when_it_may_be_visible(
    *, is_stopped: bool
) -> None:
    here = desk(visibility_s=6)
    here.receive(message("a"), message("b"))
    away(here, 10)
    if is_stopped:
        here.consumer.stop()
    here.at(10)
    here.at(20)
    assert (here.hidden(), len(here.consumer._held)) == ([], 0)


def test_it_is_given_back_as_long_as_it_is_hidden() -> None:
    here = desk(visibility_s=6)
    here.receive(message("a"))
    away(here, 5.9)
    here.consumer.stop()
    here.at(5.9)
    assert here.hidden() == [("a-1", 11)]


def test_what_a_handler_is_at_work_on_is_not_extended_but_deleted_in_the_end() -> None:
    here = desk(visibility_s=6, linger_s=0)
    here.receive(message("a"))

    def time_passes() -> None:
        away(here, 10)
        here.at(10)
        here.at(20)

    here.meanwhile = time_passes
    here.handle()
    here.at(20)
    assert (here.hidden(), here.deleted()) == ([], [["a-1"]])


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_failed_is_not_hidden_when_it_may_be_visible(*, is_stopped: bool) -> None:
    here = desk(visibility_s=6)
    here.raises["a"] = ValueError()
    here.receive(message("a"))

    def time_passes() -> None:
        away(here, 10)
        if is_stopped:
            here.consumer.stop()

    here.meanwhile = time_passes
    here.handle()
    here.at(10)
    here.at(30)
    assert (here.hidden(), len(here.consumer._held)) == ([], 0)


def test_what_could_not_be_hidden_in_time_is_let_go() -> None:
    here = desk(visibility_s=6)
    here.raises["a"] = ValueError()
    here.receive(message("a"))
    here.handle()
    away(here, 6)
    here.at(6)
    assert (here.hidden(), len(here.consumer._held)) == ([], 0)


def test_what_the_queue_says_is_somebody_elses_is_not_hidden_when_it_fails() -> None:
    here = desk(visibility_s=30)
    failed = {"Id": "0", "Code": "MessageNotInflight", "SenderFault": True}
    here.client._answers.clear()
    here.client.lay_down("change_message_visibility_batch", {"Failed": [failed]})
    here.raises["a"] = ValueError()
    here.receive(message("a"))
    here.meanwhile = lambda: here.at(10)
    here.handle()
    here.at(10)
    assert here.hidden() == [("a-1", 30)]


def test_of_a_group_only_those_behind_that_are_hidden_yet_go_back() -> None:
    here = desk(FIFO, visibility_s=6)
    here.receive(message("a1", group="a"), message("a2", group="a"))
    here.clock.time_s += 3
    here.receive(message("a3", group="a"))
    here.at(6)
    assert here.hidden() == [("a3-1", 0)]
    assert not here.consumer.handle_next()
    assert len(here.consumer._held) == 0


@pytest.mark.parametrize("loser", ["call_next", "handle_next"])
def test_the_receiver_learns_that_there_is_room(loser: str) -> None:
    here = desk(visibility_s=6)
    here.receive(message("a"))
    here.clock.time_s += 6
    told: list[Any] = []
    here.consumer._changed.notify_all = lambda: told.append(loser)  # type: ignore[method-assign]
    assert not getattr(here.consumer, loser)()
    assert told == [loser]


@pytest.mark.parametrize(
    ("visibility_s", "extended"),
    [(30_000, [30_000, 21_590]), (43_200, []), (20_000, [*[20_000] * 3, 14_390])],
)
def test_what_is_hidden_for_12_hours_is_not_extended_and_still_this_consumers(
    visibility_s: int, extended: list[int]
) -> None:
    here = desk(visibility_s=visibility_s, retry_first_s=2)
    here.receive(message("a"))
    here.raises["a"] = ValueError()

    def time_passes() -> None:
        for hours in range(9):
            here.at(hours * 3_600)

    here.meanwhile = time_passes
    here.handle()
    here.at(8 * 3_600)
    assert here.hidden() == [*(("a-1", seconds) for seconds in extended), ("a-1", 2)]
