"""A member of a consumer group ends in time, whatever call hangs: threads, and a stubborn client.

The session is short, and each test waits for the fact that `run` has returned.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tidegate_sdk import COMMIT_BEFORE, COMMIT_MANUALLY, GroupConsumer, GroupShard, RecordBatch

ARN = "arn:aws:kinesis:eu-west-1:000000000000:stream/clicks"
SESSION_S = 0.9
END_S_MAX = 10 * SESSION_S
FACT_S_MAX = 30

JOIN, BEAT, LEAVE = "join", "beat", "leave"
READ, COMMIT = "get_records", "tidegate_commit_offsets"


class HangingClient:
    """One shard, always a record; calls that `hangs` names are not answered while it lives."""

    def __init__(self) -> None:
        self.hangs: set[str] = set()
        self.hung: set[str] = set()
        self.asked: list[str] = []
        self.lives = threading.Event()
        self._number = 0

    def _call(self, name: str) -> None:
        self.asked.append(name)
        if name in self.hangs:
            self.hung.add(name)
            self.lives.wait()

    def tidegate_group_heartbeat(self, **params: Any) -> dict[str, Any]:
        epoch = params["MemberEpoch"]
        self._call(JOIN if epoch == 0 else BEAT if epoch > 0 else LEAVE)
        shard: dict[str, Any] = {"StreamARN": ARN, "ShardId": "a", "AssignmentEpoch": 1}
        if epoch == 0:
            shard["Position"] = {"ShardIteratorType": "TRIM_HORIZON"}
        return {
            "MemberId": "me",
            "MemberEpoch": 1,
            "HeartbeatIntervalMillis": int(SESSION_S * 1_000 / 3),
            "Assignment": [shard],
        }

    def get_shard_iterator(self, **_: Any) -> dict[str, Any]:
        return {"ShardIterator": "here"}

    def get_records(self, **_: Any) -> dict[str, Any]:
        self._call(READ)
        self._number += 1
        return {
            "Records": [{"SequenceNumber": f"{self._number}", "Data": b"", "PartitionKey": "k"}],
            "NextShardIterator": "behind",
        }

    def tidegate_commit_offsets(self, **_: Any) -> dict[str, Any]:
        self._call(COMMIT)
        return {"Successful": [], "Failed": []}


def wait_for(is_so: Callable[[], object], what: str) -> None:
    tick = threading.Event()
    for _ in range(FACT_S_MAX * 100):
        if is_so():
            return
        tick.wait(0.01)
    raise AssertionError(what)


@contextmanager
def running(client: HangingClient, consumer: GroupConsumer) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=consumer.run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        client.hangs = set()
        client.lives.set()
        consumer.stop()


def ends(thread: threading.Thread) -> bool:
    thread.join(END_S_MAX)
    return not thread.is_alive()


def do_nothing(_batch: RecordBatch) -> None:
    """All is done."""


def commit(batch: RecordBatch) -> None:
    batch.commit()


@pytest.mark.parametrize(
    "hangs",
    [{JOIN}, {LEAVE}, {BEAT, LEAVE}, {READ, LEAVE}, {COMMIT}, {BEAT, LEAVE, READ, COMMIT}],
    ids=lambda names: " ".join(sorted(names)),
)
def test_it_ends_with_its_session_whatever_call_hangs(hangs: set[str]) -> None:
    client = HangingClient()
    consumer = GroupConsumer(client, "readers", do_nothing, workers=1)
    if JOIN in hangs:
        consumer._membership.session_s = SESSION_S  # The group has told none yet.
        client.hangs = hangs
    with running(client, consumer) as thread:
        if JOIN not in hangs:
            wait_for(lambda: COMMIT in client.asked, "its work")
            client.hangs = hangs
        wait_for(lambda: client.hung or hangs == {LEAVE}, "a call that hangs")
        consumer.stop()
        assert ends(thread)


@pytest.mark.parametrize("commits", [COMMIT_BEFORE, COMMIT_MANUALLY], ids=["before", "manually"])
def test_it_ends_where_the_commit_of_a_handler_hangs(commits: Any) -> None:
    client = HangingClient()
    client.hangs = {COMMIT}
    handle = commit if commits.manual else do_nothing
    consumer = GroupConsumer(client, "readers", handle, commits=commits, workers=1)
    with running(client, consumer) as thread:
        wait_for(lambda: COMMIT in client.hung, "the commit that hangs")
        client.hangs = {BEAT, COMMIT, LEAVE}
        consumer.stop()
        assert ends(thread)


def test_a_join_that_is_answered_after_the_end_is_taken_back() -> None:
    client = HangingClient()
    client.hangs = {JOIN}
    said: list[Sequence[GroupShard]] = []
    consumer = GroupConsumer(client, "readers", do_nothing, on_assigned=said.append)
    consumer._membership.session_s = SESSION_S
    with running(client, consumer) as thread:
        wait_for(lambda: client.hung, "the join")
        consumer.stop()
        assert ends(thread)
        client.lives.set()
        wait_for(lambda: LEAVE in client.asked, "that it leaves")
    assert said == []


def test_a_heartbeat_that_is_answered_after_the_end_leaves_it_to_run_to_leave() -> None:
    client = HangingClient()
    consumer = GroupConsumer(client, "readers", do_nothing, spawn=lambda *_: None)
    assert consumer.beat_next()
    consumer._ended = True
    consumer._note_beat(client.tidegate_group_heartbeat(MemberEpoch=1), 0)
    assert client.asked == [JOIN, BEAT]
    assert consumer._membership.id == "me"


def test_a_session_that_is_over_is_not_left() -> None:
    client = HangingClient()
    consumer = GroupConsumer(client, "readers", do_nothing)
    with running(client, consumer) as thread:
        client.hangs = {COMMIT}
        wait_for(lambda: COMMIT in client.hung, "the commit that hangs")
        client.hangs = {BEAT, COMMIT, LEAVE}
        wait_for(lambda: BEAT in client.hung, "the heartbeat that hangs")
        consumer.stop()
        assert ends(thread)
    assert LEAVE not in client.asked


def test_a_handler_at_work_is_waited_for_also_where_its_shard_is_lost() -> None:
    client, may_end, lost = HangingClient(), threading.Event(), threading.Event()
    begun, done = threading.Event(), threading.Event()

    def handle(_batch: RecordBatch) -> None:
        begun.set()
        may_end.wait(FACT_S_MAX)
        done.set()

    consumer = GroupConsumer(client, "readers", handle, on_lost=lambda _: lost.set())
    with running(client, consumer) as thread:
        assert begun.wait(FACT_S_MAX)
        client.hangs = {BEAT, LEAVE}
        consumer.stop()
        assert lost.wait(FACT_S_MAX)
        assert thread.is_alive()
        may_end.set()
        assert ends(thread)
        assert done.is_set()
