"""Callbacks of a group's member: who takes long in them holds up nothing else, nor the end."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from sdk.tests.group_member import Member, assigned, joined, page, told
from sdk.tests.scripted import ScriptedClient, VirtualClock, beside, refused
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


def assignment(*names: str) -> dict[str, Any]:
    """As the group has it again: by the same epoch, and of what was given up with a position."""
    return told(*map(assigned, names))


def test_who_stops_takes_nothing_more_however_long_its_callbacks_take() -> None:
    here = joined("a", "b", "c")

    def take_long(_shards: Sequence[GroupShard]) -> None:
        here.clock.time_s += 3
        here.beat(assignment("a", "b", "c"))

    here.calls["revoked"] = take_long
    here.finish()
    assert here.said[1:] == [("revoked", "a"), ("revoked", "b"), ("revoked", "c")]
    beats = here.client.asked("tidegate_group_heartbeat")
    owned = [[shard["ShardId"] for shard in beat["OwnedShards"]] for beat in beats[1:-1]]
    assert owned == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert beats[-1]["MemberEpoch"] == -1


def test_who_stops_while_a_handler_works_on_what_is_lost_comes_once_in_an_interval() -> None:
    here = joined("a")

    def lose_and_stop() -> None:
        here.clock.time_s += 0.1
        here.beat(refused("TidegateFencedMember"))
        here.clock.time_s += 0.1
        here.beat(assignment("a", "b"))
        here.consumer.stop()
        here.next_is("tidegate_group_heartbeat", assignment("a", "b"))
        here.client.calls.clear()
        for _ in range(60):
            here.clock.time_s += 0.1
            here.consumer.beat_next()
            here.keep()

    here.meanwhile = lose_and_stop
    here.read(page(1))
    gone = [("revoked", "a"), ("revoked", "b")]
    assert here.said[1:] == [[1], ("lost", "a"), ("assigned", "a", "b"), *gone]
    assert len(here.client.asked("tidegate_group_heartbeat")) <= 60 * 0.1 / 3 + 1


def test_a_join_that_is_answered_while_it_stops_is_taken_back_and_never_told() -> None:
    here = Member()

    def stop(_params: dict[str, Any]) -> dict[str, Any]:
        here.consumer.stop()
        return assignment("a")

    here.beat(stop)
    here.finish()
    assert here.said == []
    assert here.client.asked("tidegate_group_heartbeat")[-1]["MemberEpoch"] == -1


def test_what_is_given_up_is_told_no_sooner_than_heartbeats_may_come() -> None:
    here = joined("a", commits=COMMIT_MANUALLY)
    here.read(page(ends=True))
    here.keep()
    assert not here.consumer.beat_next()
    here.clock.time_s += 0.1
    here.beat(told())


@pytest.mark.parametrize("commits", [COMMIT_AFTER, COMMIT_BEFORE, commit_every(99)])
def test_a_shard_that_is_read_to_its_end_goes_before_its_end_is_committed(
    commits: CommitPolicy,
) -> None:
    here = joined("a", commits=commits)
    here.calls["revoked"] = lambda _: here.said.append(here.committed()[-1:])
    here.read(page(1, ends=True))
    here.keep()
    before = [] if commits.every_s else [("a", 1, "1")]
    assert here.said == [("assigned", "a"), [1], ("revoked", "a"), before]
    assert here.committed()[-1] == ("a", 1, "SHARD_END")
    here.finish()
    assert here.said[4:] == [], "once"


def test_who_commits_in_on_revoked_gets_on_behind_the_end_of_a_shard() -> None:
    here = joined("a", commits=COMMIT_MANUALLY)
    here.calls["revoked"] = lambda _: here.batches[-1].commit()
    here.read(page(1))
    here.read(page(2, ends=True))
    here.keep()
    assert here.committed() == [("a", 1, "2"), ("a", 1, "SHARD_END")]
    assert len(here.consumer._held) == 0


def fail_for_a(shards: Sequence[GroupShard]) -> None:
    if shards[0].shard_id == "a":
        raise OSError("the disk is full")


@pytest.mark.parametrize(
    ("commits", "before"),
    [
        (COMMIT_AFTER, ["1", "2"]),
        (COMMIT_BEFORE, ["1", "2"]),
        (commit_every(1), ["1"]),
        (COMMIT_MANUALLY, []),
    ],
)
def test_neither_the_rest_nor_the_end_of_a_shard_is_committed_whose_on_revoked_raises(
    commits: CommitPolicy, before: list[str]
) -> None:
    here = joined("a", commits=commits)
    here.calls["revoked"] = fail_for_a
    here.read(page(1))
    here.clock.time_s += 1
    here.keep()
    here.read(page(2, ends=True))
    with pytest.raises(OSError, match="disk"):
        here.finish()
    assert [number for _, _, number in here.committed()] == before
    with pytest.raises(ShardLostError):
        here.batches[-1]._commit("3")


def test_an_on_revoked_that_raises_at_a_stop_spoils_its_shard_alone() -> None:
    here = joined("a", "b", commits=commit_every(9))
    here.calls["revoked"] = fail_for_a
    here.clock.time_s += 0.1
    here.read(page(1))
    here.read(page(2))
    assert {batch.shard.shard_id for batch in here.batches} == {"a", "b"}
    with pytest.raises(OSError, match="disk"):
        here.finish()
    assert [name for name, _, _ in here.committed()] == ["b"]


def test_who_commits_the_end_of_a_shard_late_is_told_of_it_once() -> None:
    here = joined("a", commits=COMMIT_MANUALLY)
    here.read(page(1, ends=True))
    here.keep()
    assert here.committed() == []
    here.clock.time_s += 0.1
    here.beat(told())
    here.finish()
    assert here.said[1:] == [[1], ("revoked", "a")]
    assert here.committed() == [], "nobody said that it is done"


@pytest.mark.parametrize("word", ["assigned", "revoked", "lost"])
def test_heartbeats_and_commits_go_on_beside_a_callback(word: str) -> None:
    here = Member(commits=commit_every(1))
    seen: list[int] = []

    def go_on() -> None:
        here.clock.time_s += 3
        here.next_is("tidegate_group_heartbeat", told(assigned("b", new=False)))
        assert here.consumer.beat_next()
        seen.append(here.consumer.keep_next())

    if word != "assigned":
        here.beat(assignment("b", "a"))
        here.read(page(1))
    here.calls[word] = lambda _: beside(go_on)
    here.clock.time_s += 1
    if word == "assigned":
        here.beat(assignment("b"))
    elif word == "revoked":
        here.beat(told(assigned("b", new=False)))
    else:
        here.beat(told(assigned("b", new=False), assigned("a", 2, new=False)))
    assert here.consumer._failure is None
    assert seen == [False] if word == "assigned" else seen == [True]


def test_a_shard_that_comes_again_is_not_read_before_that_is_told() -> None:
    here = Member()
    reads: list[bool] = []

    def lose_and_get_back(_shards: Sequence[GroupShard]) -> None:
        here.calls.clear()
        here.clock.time_s += 0.1
        here.beat(told(assigned("a", 2)))
        here.calls["assigned"] = lambda _: reads.append(here.consumer.read_next())

    here.calls["assigned"] = lose_and_get_back
    here.beat(told(assigned("a", 1)))
    assert here.said == [("assigned", "a"), ("lost", "a"), ("assigned", "a")]
    assert reads == [False]
    here.read(page(1))


def test_a_shard_that_goes_before_it_was_told_is_told_in_order() -> None:
    here = Member()

    def stop(_shards: Sequence[GroupShard]) -> None:
        here.consumer.stop()
        assert not here.consumer.keep_next()

    here.calls["assigned"] = stop
    here.beat(assignment("a"))
    assert here.said == [("assigned", "a"), ("revoked", "a")]
    here.finish()


def test_a_shard_that_is_given_up_is_told_at_once_while_another_callback_takes_long() -> None:
    here = joined("a", "b", "c")
    owned: list[list[str]] = []

    def beat(shards: Sequence[GroupShard]) -> None:
        if shards[0].shard_id == "b":
            here.clock.time_s += 0.1
            said = here.beat(told(assigned("c", new=False)))
            owned.append([shard["ShardId"] for shard in said["OwnedShards"]])

    here.clock.time_s += 0.1
    here.next_is("tidegate_group_heartbeat", told(assigned("c", new=False)))
    assert here.consumer.beat_next()
    here.calls["revoked"] = beat
    here.keep()
    assert here.consumer._failure is None
    assert owned == [["b", "c"]]


def test_what_is_given_up_is_not_logged_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    client = ScriptedClient()
    nobody = GroupConsumer(client, "readers", lambda _: None, clock=VirtualClock())
    client.lay_down("tidegate_group_heartbeat", assignment("a"), told())
    for _ in range(2):
        assert nobody.beat_next() == nobody.tell_next()
        nobody._beat_s = 0
    assert not nobody.tell_next()
    assert not caplog.records


def test_it_ends_where_a_call_that_a_callback_makes_hangs() -> None:
    here = joined("a", commits=COMMIT_MANUALLY)
    here.read(page(1))
    may_end, begun = threading.Event(), threading.Event()

    def hang(_params: dict[str, Any]) -> None:
        begun.set()
        may_end.wait()

    here.next_is("tidegate_commit_offsets", hang)
    here.calls["revoked"] = lambda _: here.batches[0].commit()
    here.consumer.stop()
    teller = threading.Thread(target=here.consumer.tell_next, daemon=True)
    teller.start()
    begun.wait()
    here.consumer.run(signals=())
    assert here.clock.now_s() >= 1_009
    may_end.set()
    teller.join()
