"""What a consumer of queues does while the server is away, and how long deletes wait."""

from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError

from sdk.tests.scripted import cut_off, refused
from sdk.tests.test_queue_consumer import FIFO, NOTHING, Desk, desk, message


def attempts_until(here: Desk, end_s: float, *, begin_s: float = 0.0) -> list[float]:
    """When calls were made, of a server that is away from the beginning until then."""
    times_s: list[float] = []

    def answer(_params: dict[str, Any]) -> Any:
        now_s = here.clock.now_s() - 1_000
        times_s.append(now_s)
        return cut_off() if now_s < end_s else NOTHING

    here.client._answers.clear()
    here.client.lay_down("change_message_visibility_batch", answer)
    here.client.lay_down("delete_message_batch", answer)
    for tenths in range(round(begin_s * 10), round(end_s * 10) + 100):
        here.at(tenths / 10)
    return times_s


@pytest.mark.parametrize("end_s", [4.0, 7.0, 9.0, 9.8])
def test_what_is_done_is_deleted_when_the_server_is_back_before_it_is_visible(
    end_s: float,
) -> None:
    here = desk(visibility_s=10)
    here.receive(message("a"))
    here.handle()
    times_s = attempts_until(here, end_s)
    assert end_s <= times_s[-1] <= 10
    assert len(times_s) <= 12


def test_what_is_handled_is_extended_when_the_server_is_back_before_it_is_visible() -> None:
    here = desk(visibility_s=10)
    here.receive(message("a"))
    here.meanwhile = lambda: here.client.calls.append(("times", {"s": attempts_until(here, 9.8)}))
    here.handle()
    times_s = here.client.asked("times")[0]["s"]
    assert any(9.8 <= time_s <= 10 for time_s in times_s)


def test_after_that_pauses_are_long_again() -> None:
    here = desk(visibility_s=10)
    here.receive(message("a"))
    here.handle()
    assert len([time_s for time_s in attempts_until(here, 60) if time_s > 11]) <= 12


def test_what_lingers_is_deleted_before_it_is_visible() -> None:
    here = desk(visibility_s=30, linger_s=60)
    here.receive(message("a"))
    here.handle()
    here.at(9.9)
    assert here.deleted() == []
    here.at(10)
    assert here.deleted() == [["a-1"]]


def test_a_delete_that_has_failed_does_not_linger() -> None:
    here = desk(linger_s=5)
    here.client._answers.clear()
    here.client.lay_down("delete_message_batch", cut_off(), NOTHING)
    here.receive(message("a"))
    here.handle()
    here.at(5)
    here.at(5.1)
    assert len(here.deleted()) == 2


def test_messages_whose_calls_fail_are_tried_again_together() -> None:
    here = desk(workers=6)
    here.receive(*[message(f"{n}") for n in range(6)])
    here.client._answers.clear()
    here.client.lay_down("delete_message_batch", cut_off())
    for n in range(6):
        here.handle()
        here.at(n / 2 + 0.4)
    for tenths in range(30, 60):
        here.at(tenths / 10)
    assert len(here.deleted()[-1]) == 6
    assert len(here.deleted()) <= 15


def test_deletes_do_not_linger_where_nothing_else_can_come() -> None:
    here = desk(workers=2, prefetch=1, linger_s=9)
    here.receive(*[message(name) for name in "abc"])
    here.handle(2)
    here.at(0)
    assert here.deleted() == [], "c may begin"
    held = here.consumer._held.next_to_handle(here.clock.now_s())
    assert held is not None
    here.at(0)
    assert here.deleted() == [["a-1", "b-1"]]


def test_deletes_do_not_linger_where_what_waits_is_of_a_group_that_is_busy() -> None:
    here = desk(FIFO, workers=2, prefetch=1, linger_s=9)
    here.receive(message("a", group="a"), message("b1", group="b"), message("b2", group="b"))
    here.handle()
    held = here.consumer._held.next_to_handle(here.clock.now_s())
    assert held is not None
    here.at(0)
    assert here.deleted() == [["a-1"]]


def test_one_line_says_that_a_queue_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    here = desk(linger_s=0)
    here.receive(message("a"), message("b"))
    here.handle()
    here.client._answers.clear()
    for operation in ("receive_message", "delete_message_batch", "change_message_visibility_batch"):
        here.client.lay_down(operation, refused("AWS.SimpleQueueService.NonExistentQueue"))
    here.consumer.receive_next()
    here.at(0)
    assert len(here.client.asked("delete_message_batch")) == 1
    assert len(here.hidden()) == 1
    assert len([line for line in caplog.messages if "ends the consumer" in line]) == 1


def test_another_error_than_the_one_that_ended_it_has_a_line_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = desk(linger_s=0)
    here.raises["a"] = SystemExit()
    here.receive(message("a"))
    here.handle()
    here.client._answers.clear()
    here.client.lay_down("change_message_visibility_batch", NoCredentialsError())
    here.at(0)
    assert "Unable to locate credentials" in caplog.text


def test_a_call_that_is_tried_again_says_when(caplog: pytest.LogCaptureFixture) -> None:
    here = desk(linger_s=0)
    here.client._answers.clear()
    here.client.lay_down("delete_message_batch", cut_off())
    here.receive(message("a"), message("b"))
    here.handle(2)
    here.at(0)
    assert "delete messages of orders, will try again in 0.1 s" in caplog.text
