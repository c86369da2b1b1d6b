"""Which shards are read when: a child behind its parents, whatever is answered first."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from threading import enumerate as enumerate_threads
from threading import get_ident
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from control_plane.cli import shard_walk
from control_plane.cli.shard_walk import Got, ShardWalk, follow, stored
from control_plane.cli.stream_position import LATEST, OLDEST, StreamPosition, since

BY_TIME = since(datetime(2026, 11, 26, tzinfo=UTC))
OPEN: Mapping[str, Any] = {"StartingSequenceNumber": "1"}
CLOSED: Mapping[str, Any] = {**OPEN, "EndingSequenceNumber": "9"}


class FakeStream:
    """Shards by name, each with its parents and records; those with `children` are closed.

    An iterator is a shard, where it began, and how many records are read. Two come on a page.
    """

    def __init__(self, shards: Mapping[str, tuple[Sequence[str], Sequence[bytes]]]) -> None:
        self.shards = shards
        self.unlisted: set[str] = set()
        self.failures: list[Exception] = []
        self.begun: list[tuple[str, str]] = []
        self.asked: list[dict[str, Any]] = []

    def children(self, shard: str) -> list[str]:
        return [name for name, (parents, _) in self.shards.items() if shard in parents]

    def list_shards(self, **params: Any) -> dict[str, Any]:
        """A shard a page, as Kinesis takes them: by the stream's name, or by a token alone."""
        assert len(params) == 1
        listed = [name for name in self.shards if name not in self.unlisted]
        at = int(params.get("NextToken", 0))
        name = listed[at]
        named = zip(("ParentShardId", "AdjacentParentShardId"), self.shards[name][0], strict=False)
        numbers = CLOSED if self.children(name) else OPEN
        shard = {"ShardId": name, "SequenceNumberRange": numbers, **dict(named)}
        following = {"NextToken": str(at + 1)} if at + 1 < len(listed) else {}
        return {"Shards": [shard], **following}

    def get_shard_iterator(self, **params: Any) -> dict[str, str]:
        shard, kind = params["ShardId"], params["ShardIteratorType"]
        self.begun.append((shard, kind))
        read = len(self.shards[shard][1]) if kind == "LATEST" else 0
        return {"ShardIterator": f"{shard} {read}"}

    def get_records(self, **params: Any) -> dict[str, Any]:
        self.asked.append(params)
        if self.failures:
            raise self.failures.pop()
        shard, read = params["ShardIterator"].split()
        records = self.shards[shard][1][int(read) : int(read) + 2]
        read_now = int(read) + len(records)
        ended = read_now == len(self.shards[shard][1])
        page: dict[str, Any] = {"Records": [{"Data": data} for data in records]}
        page["MillisBehindLatest"] = 0 if ended else 1
        if not (ended and self.children(shard)):
            return {**page, "NextShardIterator": f"{shard} {read_now}"}
        children = [
            {"ShardId": child, "ParentShards": list(self.shards[child][0])}
            for child in self.children(shard)
        ]
        return {**page, "ChildShards": children}


def lineage() -> FakeStream:
    """A is split into B and C; C and D are merged to E."""
    return FakeStream(
        {
            "A": ((), [b"a1", b"a2", b"a3"]),
            "D": ((), [b"d1"]),
            "B": (("A",), [b"b1"]),
            "C": (("A",), [b"c1"]),
            "E": (("C", "D"), [b"e1"]),
        }
    )


def texts(fake: FakeStream, position: StreamPosition, shard: str | None = None) -> list[str]:
    walk = ShardWalk(fake, "s", position, shard)
    return [record["Data"].decode() for _, record in stored(walk, page_max=9)]


def test_children_come_behind_all_their_parents() -> None:
    found = texts(lineage(), OLDEST)
    assert sorted(found) == ["a1", "a2", "a3", "b1", "c1", "d1", "e1"]
    assert found.index("c1") > found.index("a3")
    assert found.index("e1") > max(found.index("c1"), found.index("d1"))


def test_a_parent_that_is_gone_is_not_waited_for() -> None:
    fake = lineage()
    fake.unlisted = {"A", "D"}
    assert texts(fake, OLDEST) == ["b1", "c1", "e1"]


def test_one_shard_is_read_with_what_it_became() -> None:
    assert texts(lineage(), OLDEST, "D") == ["d1", "e1"]
    assert texts(lineage(), StreamPosition(OLDEST.iterator, "C")) == ["c1", "e1"]


def test_the_latest_of_all_are_those_of_open_shards() -> None:
    fake = lineage()
    assert texts(fake, LATEST) == []
    assert fake.begun == [("B", "LATEST"), ("E", "LATEST")]


def test_children_are_read_from_the_same_time_on() -> None:
    fake = lineage()
    texts(fake, BY_TIME)
    assert {kind for _, kind in fake.begun} == {"AT_TIMESTAMP"}
    assert len(fake.begun) == 5


def following(fake: FakeStream, position: StreamPosition, records: int) -> list[Got]:
    """What comes until so many records are there."""
    found: list[Got] = []
    for got in follow(ShardWalk(fake, "s", position)):
        if got is not None and (got.records or got.failure):
            found.append(got)
        if sum(len(one.records) for one in found) >= records:
            return found
    raise AssertionError(found)


def test_all_shards_are_followed_at_once() -> None:
    fake = lineage()
    found = [record["Data"] for got in following(fake, OLDEST, 7) for record in got.records]
    assert found.index(b"e1") > max(found.index(b"c1"), found.index(b"d1"), found.index(b"a3"))
    assert {asked["TidegateWaitTimeSeconds"] for asked in fake.asked} == {20}


def test_of_many_shards_none_keeps_the_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeStream({f"S{number}": ((), [b"x"]) for number in range(64)})
    paused_s: list[float] = []
    of_before = {thread.ident for thread in enumerate_threads()}  # they may be at work still

    def pause(pause_s: float) -> None:
        if get_ident() not in of_before:
            paused_s.append(pause_s)

    monkeypatch.setattr(shard_walk, "sleep", pause)
    assert len(following(fake, OLDEST, 64)) == 64
    assert {asked["TidegateWaitTimeSeconds"] for asked in fake.asked} == {0}
    assert set(paused_s) == {0.25}, "sixteen at a time, and each once a second"


def refusal(status: int, code: str) -> ClientError:
    told: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(told, "GetRecords")


@pytest.mark.parametrize(
    "failure",
    [
        EndpointConnectionError(endpoint_url="http://x"),
        refusal(503, "ServiceUnavailable"),
        refusal(400, "ThrottlingException"),
    ],
    ids=["away", "busy", "throttled"],
)
def test_what_passes_is_told_and_asked_again(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_walk, "_PAUSE_S", 0.0)
    fake = FakeStream({"A": ((), [b"a1"])})
    fake.failures = [failure]
    told, got = following(fake, OLDEST, 1)
    assert told == Got("A", [], failure)
    assert got.records == [{"Data": b"a1"}]


def test_what_does_not_pass_is_raised() -> None:
    fake = FakeStream({"A": ((), [b"a1"])})
    fake.failures = [refusal(400, "ResourceNotFoundException")]
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        following(fake, OLDEST, 1)
