"""What becomes of a message whose handler fails."""

import pickle
from datetime import timedelta
from typing import Any

import pytest

from sdk.tests.test_queue_consumer import desk, message
from tidegate_sdk import RejectError, RetryError


@pytest.mark.parametrize(
    ("raised", "count", "hidden_s"),
    [
        (ValueError(), 1, 2),
        (ValueError(), 4, 16),
        (ValueError(), 99, 100),
        (RetryError(77), 1, 77),
        (RetryError(timedelta(minutes=1.01)), 1, 61),
        (RetryError(float("inf")), 1, 43_190),
        (RejectError(), 1, 0),
    ],
)
def test_a_poison_message_comes_again_later(raised: Exception, count: int, hidden_s: int) -> None:
    here = desk(retry_first_s=2, retry_s_max=100)
    here.raises["a"] = raised
    here.receive(message("a", count=count))
    here.handle()
    here.at(0)
    assert here.hidden() == [(f"a-{count}", hidden_s)]
    assert (here.deleted(), len(here.consumer._held)) == ([], 0)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_message_is_not_hidden_for_longer_than_12_hours_since_its_receive(
    *, is_stopped: bool
) -> None:
    """SQS would refuse that, and the message come again as soon as its visibility ends."""
    here = desk(visibility_s=43_200)
    here.raises["a"] = RetryError(timedelta(hours=12))
    here.receive(message("a"))

    def time_passes() -> None:
        here.clock.time_s += 3_600.5
        if is_stopped:
            here.consumer.stop()

    here.meanwhile = time_passes
    here.handle()
    here.at(3_600.5)
    if is_stopped:
        here.at(3_600.5 + 20)
    ((_, hidden_s),) = here.hidden()
    assert hidden_s <= 43_200 - 3_600.5
    assert hidden_s >= 43_200 - 3_600.5 - 40


def test_a_message_may_be_rejected_for_good() -> None:
    here = desk(linger_s=0)
    here.raises["a"] = RejectError("nonsense", delete=True)
    here.receive(message("a"))
    here.handle()
    here.at(0)
    assert here.deleted() == [["a-1"]]


class _OddError(RetryError):
    """A program's own, of which the consumer can make nothing."""

    def __init__(self) -> None:
        self.after_s: Any = "soon"


@pytest.mark.parametrize("raised", [ValueError(), _OddError()])
def test_a_failure_that_cannot_be_judged_comes_again_as_after_a_crash(raised: Exception) -> None:
    here = desk(visibility_s=45)
    # What else goes wrong, in a program that has put something odd there.
    here.consumer._retry_first_s = "2"  # type: ignore[assignment]
    here.raises["a"] = raised
    here.receive(message("a"))
    here.handle()
    here.at(0)
    assert here.hidden() == [("a-1", 45)]
    assert here.consumer._failure is None


@pytest.mark.parametrize(
    ("after_s", "kind"), [("5", TypeError), (None, TypeError), (float("nan"), ValueError)]
)
def test_a_retry_is_after_a_time(after_s: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="after_s"):
        RetryError(after_s)


def test_a_retry_may_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(RetryError(5, "busy")))  # noqa: S301 - the test's own
    assert (again.after_s, str(again)) == (5, "busy")
