"""What a member of a consumer group writes into its log, and when."""

import pytest

from sdk.tests.group_member import DONE, Member, assigned, joined, page, told
from sdk.tests.scripted import ScriptedClient, cut_off, refused
from tidegate_sdk import GroupConsumer


def test_each_error_of_a_handler_is_in_the_log_at_once_and_the_first_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = joined("a", "b")

    def fail_while_another_one_works() -> None:
        here.meanwhile = fail_second
        here.read(page(2))
        raise KeyError("the first to begin")

    def fail_second() -> None:
        raise ValueError("the root cause")

    said: list[str] = []
    here.calls["revoked"] = lambda _: said.append(caplog.text)
    here.meanwhile = fail_while_another_one_works
    here.read(page(1))
    assert "the root cause" in caplog.text
    assert "shard_id='b'" in caplog.text
    assert "the first to begin" in caplog.text
    assert "shard_id='a'" in caplog.text
    assert "the root cause" in said[0]
    assert "the first to begin" not in said[0], "while that handler was at work"
    with pytest.raises(ValueError, match="the root cause") as raised:
        here.finish()
    assert raised.value.__notes__ == ["It ended the consumer of group readers"]


def test_an_error_of_a_callback_is_in_the_log_at_once(caplog: pytest.LogCaptureFixture) -> None:
    here = Member()

    def fail(_shards: object) -> None:
        raise ValueError("no table for it")

    here.calls["assigned"] = fail
    here.beat(told(assigned("a")))
    assert "group readers: The callback of shards that come failed" in caplog.text
    assert "no table for it" in caplog.text


def test_a_commit_that_is_refused_for_a_while_says_why(caplog: pytest.LogCaptureFixture) -> None:
    here = joined("a")
    failed = {"ErrorCode": "InternalFailure", "ErrorMessage": "the cell is away"}
    here.next_is("tidegate_commit_offsets", {"Failed": [failed]}, DONE)
    here.read(page(1))
    assert len(here.committed()) == 2
    assert "group readers: Cannot commit GroupShard" in caplog.text
    assert "will try again in 0.1 s" in caplog.text
    assert "the cell is away" in caplog.text
    assert "None" not in caplog.text


def test_who_is_dropped_reads_why_that_may_be(caplog: pytest.LogCaptureFixture) -> None:
    here = joined("a")
    here.clock.time_s += 0.1
    here.beat(refused("TidegateUnknownMember"))
    assert "group readers: The group takes this member for gone" in caplog.text
    assert "RebalanceTimeoutSeconds" in caplog.text
    assert "on_assigned" in caplog.text


@pytest.mark.parametrize("beats_fail", [False, True], ids=["frozen", "server away"])
def test_who_was_away_for_its_session_is_not_told_to_be_faster(
    caplog: pytest.LogCaptureFixture, *, beats_fail: bool
) -> None:
    here = joined("a")
    here.clock.time_s += 8 if beats_fail else 9
    if beats_fail:
        here.beat(cut_off())
        here.clock.time_s += 0.5
    here.beat(refused("TidegateUnknownMember"))
    assert "group readers: The group takes this member for gone" in caplog.text
    assert "RebalanceTimeoutSeconds" not in caplog.text


def test_threads_have_the_name_of_the_group() -> None:
    names: list[str] = []
    consumer = GroupConsumer(
        ScriptedClient(), "readers", print, workers=1, spawn=lambda _, name: names.append(name)
    )
    consumer._start_all()
    whose = ["keeper", "teller", "reader-0", "heartbeat"]
    assert names == [f"tidegate-{each}-readers" for each in whose]
