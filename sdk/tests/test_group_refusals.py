"""What a group's consumer is not to be made with, or asked: it says so at once."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

import tidegate_sdk
from sdk.tests.group_member import DONE, Member, joined, page
from tidegate_sdk import COMMIT_MANUALLY, GroupConsumer, ShardLostError


@pytest.mark.parametrize("commits", ["after", None, 5])
def test_commits_that_are_none_are_refused(commits: Any) -> None:
    with pytest.raises(TypeError, match="COMMIT_AFTER"):
        Member(commits=commits)


@pytest.mark.parametrize("option", ["handler", "on_assigned", "on_revoked", "on_lost"])
@pytest.mark.parametrize("value", [None, "later"])
def test_handlers_and_callbacks_that_cannot_be_called_are_refused(option: str, value: Any) -> None:
    options: Any = {"handler": lambda _: None, option: value}
    with pytest.raises(TypeError, match=f"^{option} is a function"):
        GroupConsumer(joined().client, "readers", **options)


def test_a_client_of_the_sdk_for_queues_is_refused() -> None:
    queues = tidegate_sdk.client("http://nowhere.example", region_name="any")
    with pytest.raises(TypeError, match="kinesis"):
        GroupConsumer(queues, "readers", lambda _: None)


@pytest.mark.parametrize(
    ("number", "error"),
    [("foo", ValueError), ("", ValueError), ("1", ValueError), ("5", ValueError), (3, TypeError)],
)
def test_a_number_that_is_none_of_the_batch_is_refused_and_changes_nothing(
    number: Any, error: type[Exception]
) -> None:
    here = joined("a", commits=COMMIT_MANUALLY)
    here.read(page(2, 3, 4))
    batch = here.batches[0]
    with pytest.raises(error, match=r"batch|text"):
        batch.commit(number)
    assert here.committed() == []
    batch.commit("3")
    batch.commit()
    assert here.committed() == [("a", 1, "3"), ("a", 1, "4")]


def test_a_commit_that_fails_by_something_else_than_a_loss_ends_it_with_that() -> None:
    here = joined("a", commits=COMMIT_MANUALLY)
    here.read(page(1))
    failed = {"ErrorCode": "SomethingNew", "ErrorMessage": "that nobody knows"}
    here.next_is("tidegate_commit_offsets", {"Failed": [failed]})
    with pytest.raises(ShardLostError, match="not this member's any more"):
        here.batches[0].commit()
    here.next_is("tidegate_commit_offsets", DONE)
    with pytest.raises(ClientError, match=r"SomethingNew.*that nobody knows"):
        here.finish()


def test_a_consumer_runs_once() -> None:
    here = joined("a")
    here.finish()
    with pytest.raises(RuntimeError, match="runs once"):
        here.consumer.run(signals=())


def test_what_interrupts_run_stops_it_first() -> None:
    here = joined("a")
    here.read(page(1))

    def interrupt() -> None:
        here.clock.while_waiting = here.keep
        raise KeyboardInterrupt

    here.clock.while_waiting = interrupt
    with pytest.raises(KeyboardInterrupt):
        here.consumer.run(signals=())
    assert here.said[-1] == ("revoked", "a")
    assert here.client.asked("tidegate_group_heartbeat")[-1]["MemberEpoch"] == -1
    assert not here.consumer.beat_next()


def test_who_interrupts_run_twice_does_not_wait_for_handlers() -> None:
    here = joined("a")
    here.read(page(1))

    def interrupt() -> None:
        raise KeyboardInterrupt

    here.clock.while_waiting = interrupt
    with pytest.raises(KeyboardInterrupt):
        here.consumer.run(signals=())
    assert here.consumer._ended
    assert here.client.asked("tidegate_group_heartbeat")[-1]["MemberEpoch"] == -1
