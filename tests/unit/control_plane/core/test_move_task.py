"""Move tasks as values: states, rates, handles."""

import base64
import json
from dataclasses import replace

import pytest

from control_plane.core import move_task
from control_plane.core.move_task import MoveTask
from data_plane.core.errors import RefusedError
from tests.unit.data_plane.wire import ORDERS

NOW_US = 1_790_000_000_000_000
TASK = MoveTask("t", started_ms=NOW_US // 1000, to_move=5)
TASK_ID = "0f0e0d0c-0b0a-4908-8706-050403020100"
DONE = replace(TASK, id="d", status="COMPLETED")


def test_what_is_stored_is_read() -> None:
    whole = MoveTask("a", 1, 2, "arn", 3, "FAILED", "why", 4, "owner", 5, 6)
    assert move_task.decode(move_task.encode((TASK, whole))) == (TASK, whole)


def test_one_task_at_a_time_and_the_last_ten() -> None:
    tasks: move_task.Tasks = ()
    for number in range(12):
        tasks = move_task.started(tasks, replace(TASK, id=str(number)))
        with pytest.raises(RefusedError, match="already a task running"):
            move_task.started(tasks, TASK)
        cancelling = move_task.cancelled(tasks, str(number))
        with pytest.raises(RefusedError, match="already a task running"):
            move_task.started(cancelling, TASK)
        tasks = tuple(move_task.ended_cancelling(task) for task in cancelling)
    assert [task.id for task in tasks] == [str(number) for number in range(11, 1, -1)]
    assert {task.status for task in tasks} == {"CANCELLED"}


@pytest.mark.parametrize("status", ["COMPLETED", "CANCELLING", "CANCELLED", "FAILED"])
def test_only_what_runs_is_cancelled(status: str) -> None:
    with pytest.raises(RefusedError, match="Task does not exist") as refused:
        move_task.cancelled((replace(TASK, status=status),), "t")
    assert refused.value.fault.status == 404
    with pytest.raises(RefusedError, match="Task does not exist"):
        move_task.cancelled((TASK,), "another")
    assert move_task.ended_cancelling(replace(TASK, status="RUNNING")).status == "RUNNING"


@pytest.mark.parametrize("rate", [1, 3, 7, 300, 500, 0])
@pytest.mark.parametrize("step_us", [100_000, 1_000_000, 1_070_000, 1_900_000])
def test_the_rate_is_kept_over_any_time(rate: int, step_us: int) -> None:
    task = replace(TASK, rate=rate)
    moved: list[tuple[int, int]] = []
    for now_us in range(NOW_US, NOW_US + 60_000_000, step_us):
        allowed = move_task.allowance(task, now_us)
        task = move_task.paid(task, allowed, allowed.messages)
        moved.append((now_us, allowed.messages))
    asked = rate or move_task.RATE_DEFAULT
    assert task.moved == sum(messages for _, messages in moved)
    assert 60 * asked * 0.97 <= task.moved + asked * step_us / 1_000_000 + 1
    assert moved[0][1] == 1
    for begin in range(len(moved)):
        for end in range(begin, min(begin + 5, len(moved))):
            took_s = (moved[end][0] - moved[begin][0] + step_us) / 1_000_000
            assert sum(n for _, n in moved[begin : end + 1]) <= asked * took_s + 1


def test_the_rate_counts_from_the_start_of_the_task() -> None:
    assert move_task.allowance(replace(TASK, rate=10), NOW_US + 500_000).messages == 5
    assert move_task.allowance(replace(TASK, rate=1), NOW_US + 500_000).messages == 1
    assert move_task.allowance(TASK, NOW_US + 100_000).messages == 50
    # Of another server's clock, which is ahead.
    assert move_task.allowance(TASK, NOW_US - 500_000).messages == 1


def test_what_was_not_moved_is_not_paid_for() -> None:
    task = replace(TASK, rate=10, paid_us=NOW_US)
    allowed = move_task.allowance(task, NOW_US + 1_000_000)
    assert allowed.messages == 10
    assert move_task.allowance(move_task.paid(task, allowed, 0), NOW_US + 1_000_000) == allowed
    part = move_task.paid(task, allowed, 4)
    assert part.moved == 4
    assert move_task.allowance(part, NOW_US + 1_000_000).messages == 6


def test_a_pause_is_made_good_for_to_a_bound() -> None:
    task = replace(TASK, rate=10, paid_us=NOW_US)
    assert move_task.allowance(task, NOW_US + 3_600_000_000).messages == 30
    # A clock that jumps back allows nothing, and breaks nothing.
    assert move_task.allowance(task, NOW_US - 3_600_000_000).messages == 0


def test_a_handle_names_its_task_and_queue() -> None:
    handle = move_task.to_handle(TASK_ID, ORDERS)
    document = json.loads(base64.b64decode(handle))
    assert document == {"taskId": TASK_ID, "sourceArn": ORDERS.arn}
    assert move_task.read_handle(handle) == (TASK_ID, ORDERS.arn)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foobared",
        "é",
        "eyJ9",
        *(
            base64.b64encode(document).decode()
            for document in (b"\xff", b"[]", b"{}", b'{"taskId":1,"sourceArn":"a"}', b"[" * 9999)
        ),
    ],
)
def test_what_is_no_handle(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        move_task.read_handle(text)
    assert refused.value.message == "Value for parameter TaskHandle is invalid."
    assert refused.value.fault.code == "InvalidParameterValue"


def test_a_task_that_was_claimed_before_the_reply_came_is_started_once() -> None:
    new = MoveTask("new", started_ms=1, to_move=1)
    claimed = move_task.started((), replace(new, owner="another server"))
    assert move_task.started(claimed, new) == claimed
    with pytest.raises(RefusedError, match="already a task running"):
        move_task.started(claimed, replace(new, id="newer"))
