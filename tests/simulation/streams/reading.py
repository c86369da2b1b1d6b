"""What one reader has read of a stream, in its order: a parent before its children."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from data_plane.core.sequence_number import parse


class Place(NamedTuple):
    """Where a record is: its shard, and its offset there."""

    shard: int
    offset: int


class Seen(NamedTuple):
    """A record as somebody saw it."""

    place: Place
    number: str
    data: str


class Reading:
    """A reading of a stream from its oldest record on, from `began_us`; `ended_us`: it had all."""

    def __init__(self, reader: str, stream: str, began_us: int) -> None:
        self.reader = reader
        self.stream = stream
        self.began_us = began_us
        self.ended_us: int | None = None
        self.seen: list[Seen] = []
        self.parents: dict[int, tuple[int, ...]] = {}
        self.ended_shards: list[int] = []
        self.waiting: dict[int, str | None] = {}
        """Shards that may be read, each with the iterator to go on from."""

    def begin(self, shards: Sequence[Mapping[str, Any]]) -> None:
        """With the shards that have no parents that are listed."""
        listed = {number_of(shard["ShardId"]) for shard in shards}
        for shard in shards:
            number = number_of(shard["ShardId"])
            parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
            there = tuple(number_of(one) for one in parents if one)
            self.parents[number] = tuple(one for one in there if one in listed)
            if not self.parents[number]:
                self.waiting[number] = None

    def take(self, shard: int, output: Mapping[str, Any]) -> None:
        """A page of a shard."""
        for record in output["Records"]:
            self.seen.append(seen(record, record["Data"]))
        following = output.get("NextShardIterator")
        if following is not None:
            self.waiting[shard] = following
            return
        del self.waiting[shard]
        self.ended_shards.append(shard)
        for child in output["ChildShards"]:
            parents = tuple(number_of(one) for one in child["ParentShards"])
            self.parents.setdefault(number_of(child["ShardId"]), parents)
        done = {*self.ended_shards}
        for child, parents_of in self.parents.items():
            if child not in done and child not in self.waiting and done.issuperset(parents_of):
                self.waiting[child] = None


def seen(record: Mapping[str, Any], data: str) -> Seen:
    """A record, by what an answer says of it."""
    number = parse(record["SequenceNumber"])
    return Seen(Place(number.shard, number.offset), record["SequenceNumber"], data)


def number_of(shard_id: str) -> int:
    """A shard's number, by its id."""
    return int(shard_id.partition("-")[2])


def text_of(name: str) -> str:
    """Data as JSON has them."""
    return b64encode(name.encode()).decode()
