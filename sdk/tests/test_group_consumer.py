"""A member of a consumer group in virtual time, on a client that answers as a test says."""

from collections.abc import Sequence
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from sdk.tests.group_member import ARN, BEGIN, DONE, Member, assigned, joined, page, told
from sdk.tests.scripted import cut_off, refused
from tidegate_sdk import (
    COMMIT_AFTER,
    COMMIT_BEFORE,
    COMMIT_MANUALLY,
    CommitPolicy,
    GroupConsumer,
    GroupShard,
    ShardLostError,
    commit_every,
)


def test_a_member_joins_reads_handles_and_commits() -> None:
    here = Member()
    assert here.beat(told(assigned("a"))) == {"GroupName": "readers", "MemberEpoch": 0}
    here.read(page(1, 2))
    here.read(page(3))
    here.read(page())
    assert here.said == [("assigned", "a"), [1, 2], [3]]
    assert here.committed() == [("a", 1, "2"), ("a", 1, "3")]
    iterators = [call["ShardIterator"] for call in here.client.asked("get_records")]
    assert iterators == [
        str({"StreamARN": ARN, "ShardId": "a", **BEGIN}),
        "behind (2,)",
        "behind (3,)",
    ]


def test_a_heartbeat_says_what_the_member_has_and_waits_for_a_change() -> None:
    here = joined("a")
    assert not here.consumer.beat_next(), "not at once"
    here.clock.time_s += 0.1
    said = here.beat(told(assigned("a", new=False), epoch=7))
    owned = [{"StreamARN": ARN, "ShardId": "a", "AssignmentEpoch": 1}]
    assert said == {
        "GroupName": "readers",
        "MemberEpoch": 1,
        "MemberId": "me",
        "OwnedShards": owned,
        "WaitTimeSeconds": 3,
    }
    here.clock.time_s += 0.1
    assert here.beat(told())["MemberEpoch"] == 7


def test_a_shard_is_read_once_the_program_knows_of_it() -> None:
    here = Member()

    def cannot_read(_shards: Sequence[GroupShard]) -> None:
        assert not here.consumer.read_next()

    here.calls["assigned"] = cannot_read
    here.beat(told(assigned("a")))
    assert here.consumer._failure is None
    here.read(page(1))


@pytest.mark.parametrize("commits", [COMMIT_AFTER, commit_every(99)], ids=["after", "every"])
def test_a_revoked_shard_is_given_up_after_its_batch_and_told_at_once(
    commits: CommitPolicy,
) -> None:
    here = joined("a", "b", commits=commits)

    def revoke() -> None:
        here.clock.time_s += 0.1
        here.beat(told(assigned("b", new=False)))
        here.keep()
        here.clock.time_s += 3
        said = here.beat(told(assigned("b", new=False)))
        here.said.append((len(said["OwnedShards"]), said["WaitTimeSeconds"]))

    here.meanwhile = revoke
    here.read(page(1))
    here.keep()
    assert here.said == [("assigned", "a", "b"), [1], (2, 0), ("revoked", "a")]
    assert here.committed() == [("a", 1, "1")]
    here.clock.time_s += 0.1
    said = here.beat(told(assigned("b", new=False)))
    assert [each["ShardId"] for each in said["OwnedShards"]] == ["b"]


def test_a_revoked_shard_that_is_only_read_is_given_up_meanwhile() -> None:
    here = joined("a")

    def revoke(_params: dict[str, Any]) -> dict[str, Any]:
        here.clock.time_s += 0.1
        here.beat(told())
        here.keep()
        return page(1)

    here.read(revoke)
    assert here.said == [("assigned", "a"), ("revoked", "a")]


@pytest.mark.parametrize("code", ["TidegateFencedMember", "TidegateUnknownMember"])
def test_a_member_that_is_gone_drops_all_and_joins_anew(code: str) -> None:
    here = joined("a")
    here.clock.time_s += 0.1
    here.beat(refused(code))
    assert here.said[-1] == ("lost", "a")
    assert not here.consumer.read_next()
    here.clock.time_s += 0.1
    said = here.beat(told(assigned("a", 5), member="again"))
    assert said == {"GroupName": "readers", "MemberEpoch": 0}
    here.read(page(1))
    assert here.committed()[-1] == ("a", 5, "1")
    assert here.client.asked("tidegate_commit_offsets")[-1]["MemberId"] == "again"


def test_a_stale_commit_loses_its_shard_alone() -> None:
    here = joined("a", "b")
    failed = {"ErrorCode": "TidegateStaleAssignment", "ErrorMessage": "late"}
    here.next_is("tidegate_commit_offsets", {"Failed": [failed]})
    here.read(page(1))
    assert here.said[1:] == [[1], ("lost", "a")]
    here.next_is("tidegate_commit_offsets", DONE)
    here.read(page(2))
    assert here.committed()[-1] == ("b", 1, "2")


def test_a_member_that_cannot_reach_its_group_for_a_session_stops_reading() -> None:
    here = joined("a")
    while here.clock.time_s < 1_008.9:
        here.clock.time_s += 0.1
        here.next_is("tidegate_group_heartbeat", cut_off())
        here.consumer.beat_next()
    here.read(page(1))

    def session_ends(_params: dict[str, Any]) -> dict[str, Any]:
        here.clock.time_s = 1_009.0
        return page(2)

    here.read(session_ends)
    assert here.said == [("assigned", "a"), [1], ("lost", "a")]


def test_the_end_of_a_shard_is_committed_and_not_read_again() -> None:
    here = joined("a", "b")
    here.read(page(1, ends=True))
    here.keep()
    assert here.committed() == [("a", 1, "1"), ("a", 1, "SHARD_END")]
    here.read(page(ends=True))
    here.keep()
    assert here.committed()[2:] == [("b", 1, "SHARD_END")]
    assert not here.consumer.read_next()
    here.clock.time_s += 0.1
    assert here.beat(told())["OwnedShards"] == []


def test_who_commits_before_has_nothing_twice() -> None:
    here = joined("a", commits=COMMIT_BEFORE)
    here.meanwhile = lambda: here.said.append(here.committed())
    here.read(page(1, 2))
    assert here.said[1:] == [[1, 2], [("a", 1, "2")]]
    failed = {"ErrorCode": "TidegateStaleAssignment"}
    here.next_is("tidegate_commit_offsets", {"Failed": [failed]})
    here.read(page(3))
    assert [3] not in here.said


def test_who_commits_by_time_does_so_then_and_when_a_shard_goes() -> None:
    here = joined("a", commits=commit_every(5))
    here.read(page(1))
    here.keep()
    here.clock.time_s = 1_005.0
    here.read(page(2))
    here.keep()
    here.read(page(3))
    here.keep()
    assert here.committed() == [("a", 1, "2")]
    here.beat(told())
    here.keep()
    assert here.committed()[1:] == [("a", 1, "3")]


def test_a_handler_may_commit_itself_also_a_part_and_late() -> None:
    here = joined("a", commits=COMMIT_MANUALLY)
    here.read(page(1, 2, 3))
    here.read(page(4, ends=True))
    here.keep()
    assert here.committed() == []
    first, last = here.batches
    first.commit("2")
    last.commit()
    first.commit()
    assert here.committed() == [("a", 1, "2"), ("a", 1, "SHARD_END")]
    assert len(here.consumer._held) == 0


def test_a_reply_that_comes_late_does_not_take_back_what_was_committed_since() -> None:
    """Two threads commit, the former one slowly."""
    here = joined("a", commits=COMMIT_MANUALLY)
    here.read(page(1, 2, 3, ends=True))
    here.tell()
    (batch,) = here.batches

    def answered_late(_params: Any) -> dict[str, Any]:
        here.next_is("tidegate_commit_offsets", {})
        batch.commit("3")
        return {}

    here.next_is("tidegate_commit_offsets", answered_late)
    batch.commit("1")
    assert here.committed() == [("a", 1, "1"), ("a", 1, "SHARD_END")]
    batch.commit("2")
    batch.commit()


def test_a_commit_of_what_is_lost_is_refused() -> None:
    here = joined("a", commits=COMMIT_MANUALLY)
    here.read(page(1))
    here.clock.time_s += 0.1
    here.beat(told(assigned("a", 2)))
    assert here.said[-2:] == [("lost", "a"), ("assigned", "a")]
    with pytest.raises(ShardLostError):
        here.batches[0].commit()
    assert here.committed() == []


def test_nobody_reads_a_shard_beside_the_handler_that_lost_it() -> None:
    here = joined("a")

    def lose_and_get_back() -> None:
        here.clock.time_s += 0.1
        here.beat(told(assigned("a", 2)))
        assert not here.consumer.read_next()

    here.meanwhile = lose_and_get_back
    here.read(page(1))
    assert here.committed() == []
    here.meanwhile = lambda: None
    here.read(page(1))
    assert here.committed() == [("a", 2, "1")]


def test_a_commit_is_repeated_until_it_is_told() -> None:
    here = joined("a")
    away = {"ErrorCode": "InternalFailure"}
    here.next_is("tidegate_commit_offsets", cut_off(), {"Failed": [away]}, DONE)
    here.read(page(1))
    assert here.committed() == [("a", 1, "1")] * 3
    assert here.clock.now_s() == pytest.approx(1_000.3)


def test_a_read_that_fails_goes_on_behind_the_last_record() -> None:
    here = joined("a")
    here.read(page(1))
    here.read(refused("ExpiredIteratorException"))
    assert not here.consumer.read_next()
    here.clock.time_s += 0.1
    here.read(page(2))
    assert here.client.asked("get_shard_iterator")[1] == {
        "StreamARN": ARN,
        "ShardId": "a",
        "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
        "StartingSequenceNumber": "1",
    }
    assert here.said == [("assigned", "a"), [1], [2]]


def test_a_stream_that_is_made_anew_is_read_when_the_group_tells_of_it() -> None:
    here = joined("a")
    here.read(page(1))
    here.read(refused("ResourceNotFoundException"))
    here.clock.time_s += 0.1
    here.next_is("get_shard_iterator", refused("InvalidArgumentException"))
    assert here.consumer.read_next()
    here.beat(told(assigned("a", 5), epoch=5))
    here.next_is("get_shard_iterator", {"ShardIterator": "anew"})
    here.read(page(2))
    assert here.said == [("assigned", "a"), [1], ("lost", "a"), ("assigned", "a"), [2]]
    assert here.client.asked("get_shard_iterator")[-1] == {
        "StreamARN": ARN,
        "ShardId": "a",
        **BEGIN,
    }
    here.finish()
    assert here.committed() == [("a", 1, "1"), ("a", 5, "2")]


def test_a_read_that_is_wrong_itself_ends_the_member() -> None:
    here = joined("a")
    here.read(refused("InvalidArgumentException"))
    with pytest.raises(ClientError):
        here.finish()


def test_more_shards_than_workers_are_read_in_turns_without_waiting() -> None:
    here = joined("a", "b", workers=1)
    for _ in range(2):
        here.read(page())
    assert not here.consumer.read_next()
    here.clock.time_s += 0.5
    for _ in range(2):
        here.read(page())
    waits = [call["TidegateWaitTimeSeconds"] for call in here.client.asked("get_records")]
    assert waits == [0] * 4
    assert len(here.client.asked("get_shard_iterator")) == 2


def test_a_handler_that_raises_ends_the_member_and_commits_nothing_of_its_batch() -> None:
    here = joined("a")
    here.read(page(1))

    def fail() -> None:
        raise ValueError("cannot handle it")

    here.meanwhile = fail
    here.read(page(2))
    with pytest.raises(ValueError, match="cannot handle it"):
        here.finish()
    assert here.committed() == [("a", 1, "1")]
    assert here.client.asked("tidegate_group_heartbeat")[-1]["MemberEpoch"] == -1


@pytest.mark.parametrize("word", ["assigned", "revoked", "lost"])
def test_a_callback_that_raises_ends_the_member(word: str) -> None:
    here = Member()

    def fail(_shards: Sequence[GroupShard]) -> None:
        raise ValueError(word)

    here.calls[word] = fail
    here.beat(told(assigned("a")))
    if word == "lost":
        here.clock.time_s += 0.1
        here.beat(refused("TidegateFencedMember"))
    with pytest.raises(ValueError, match=word):
        here.finish()


@pytest.mark.parametrize(("options", "epoch"), [({}, -1), ({"instance_id": "one"}, -2)])
def test_a_member_that_stops_leaves_and_an_instance_is_to_be_back(
    options: dict[str, str], epoch: int
) -> None:
    here = joined("a", **options)
    here.read(page(1))
    here.next_is("tidegate_group_heartbeat", cut_off(), told())
    here.finish()
    assert here.said[-1] == ("revoked", "a")
    left = {"GroupName": "readers", "MemberEpoch": epoch, "MemberId": "me"}
    assert here.client.asked("tidegate_group_heartbeat")[-2:] == [left, left]
    assert not here.consumer.beat_next()


def test_a_network_that_fails_is_waited_for_and_a_group_that_is_not_there_is_not() -> None:
    here = Member()
    for answer in (cut_off(), refused("TidegateUnreleasedInstance"), refused("InternalFailure")):
        here.beat(answer)
        here.clock.time_s += 1
    here.beat(refused("ResourceNotFoundException"))
    with pytest.raises(Exception, match="ResourceNotFoundException"):
        here.finish()


@pytest.mark.parametrize("operation", ["get_shard_iterator", "tidegate_group_heartbeat"])
@pytest.mark.parametrize("error", [cut_off(), refused("AccessDeniedException")], ids=["", "ends"])
def test_it_says_that_it_tries_again_where_it_does(
    caplog: pytest.LogCaptureFixture, operation: str, error: Exception
) -> None:
    here = joined("a")
    here.clock.time_s += 0.1
    here.next_is(operation, error)
    assert here.consumer.read_next() if operation[0] == "g" else here.consumer.beat_next()
    ends = here.consumer._failure is error
    assert [record.levelname for record in caplog.records] == ["ERROR" if ends else "WARNING"]
    assert ends == isinstance(error, ClientError)
    assert ("will try again" in caplog.text) != ends


@pytest.mark.parametrize(
    ("option", "values"),
    [("workers", [0]), ("wait_s", [-1, 21]), ("records_max", [0, 10_001])],
)
def test_options_beyond_their_limits_are_refused_at_once(option: str, values: list[int]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=option.removesuffix("s")):
            Member(**{option: value})


def test_options_may_be_at_their_limits() -> None:
    Member(workers=1, wait_s=0, records_max=1)
    Member(wait_s=20, records_max=10_000)


@pytest.mark.parametrize("service", ["kinesis", "sqs"])
def test_a_client_that_knows_no_groups_is_refused(service: str) -> None:
    made: Any = boto3
    plain = made.client(service, endpoint_url="http://nowhere.example", region_name="any")
    with pytest.raises(TypeError, match=r'tidegate_sdk.client\(url, "kinesis"\)'):
        GroupConsumer(plain, "readers", lambda _: None)
