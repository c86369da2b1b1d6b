"""A consumer group: which streams it reads, who its members are, and who has which shard.

All of it is one item, which changes by compare-and-set; docs/storage.md names its attributes. Its
*epoch* grows with each change. A shard is held under the epoch at which it was handed over, its
*assignment epoch*: no two holders of a shard ever have the same one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import msgspec

from control_plane.core.definition import FORMAT
from control_plane.core.item_field import UnknownItemFormatError, integer, octets, text
from data_plane.core.partitions import arn_of
from data_plane.core.stream import Stream
from data_plane.ports import Attributes, Value

STICKY: Final = "sticky"
RANGE: Final = "range"
NOBODY: Final = ""
_GROUP: Final = "g"
_DELETED: Final = "x"
_NO_MEMBER: Final = -1


class ShardKey(NamedTuple):
    """A shard of the stream at this position among those of a group."""

    stream: int
    shard: int


class ShardHold(NamedTuple):
    """Who has a shard, since which epoch of the group, and who is to have it.

    While `owner` is another one than `target` it is asked to give the shard up, since `moving_us`.
    """

    owner: str = NOBODY
    epoch: int = 0
    target: str = NOBODY
    moving_us: int = 0


class GroupMember(NamedTuple):
    """A member: since which epoch, and under which name of its own it comes back (`instance`).

    One that `left` keeps its shards until its session ends. It took over those of the member
    `before`.
    """

    id: str
    joined: int
    instance: str = ""
    left: bool = False
    before: str = NOBODY


class GroupedStream(NamedTuple):
    """A stream of a group, as the definition of this version had it.

    Of the shards below `next_shard` the group reads those in `first` alone, and of all others each.
    Those that are `done` are committed to their end.
    """

    name: str
    uid: str
    version: int = 0
    next_shard: int = 0
    first: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()

    def is_settled(self, shard: int) -> bool:
        """Whether the group does not read the shard, or has read it to its end."""
        return shard in self.done or (shard < self.next_shard and shard not in self.first)


@dataclass(frozen=True)
class ConsumerGroup:
    """A group as it is stored.

    `uid` names this incarnation and is 16 hexadecimal digits. `session_s` after its last heartbeat
    a member is taken for dead; one that does not give up a shard within `rebalance_s` is dropped.
    `holds` are the shards that may be read by now. `nonce` (8 bytes) names the write that stored
    it. One that `is_deleted` is about to be removed.
    """

    account: str
    region: str
    name: str
    uid: str
    created_ms: int
    session_s: int
    rebalance_s: int
    assignor: str
    streams: tuple[GroupedStream, ...]
    epoch: int = 0
    members: Mapping[str, GroupMember] = field(default_factory=dict)
    holds: Mapping[ShardKey, ShardHold] = field(default_factory=dict)
    is_deleted: bool = False
    nonce: bytes = b""

    @property
    def arn(self) -> str:
        """Amazon Resource Name, as it would be."""
        return arn_of("kinesis", self.region, self.account, f"group/{self.name}")

    def shards_of(self, member: str) -> dict[ShardKey, int]:
        """The shards that the member has, and is to keep, with their assignment epochs."""
        return {
            key: hold.epoch
            for key, hold in self.holds.items()
            if hold.owner == member == hold.target
        }

    def position_of(self, stream: str) -> int | None:
        """Where a stream stands among the group's; None where it does not read it."""
        return next((at for at, one in enumerate(self.streams) if one.name == stream), None)

    def with_stream(self, position: int, stream: GroupedStream) -> "ConsumerGroup":
        """The group with another state of one of its streams."""
        streams = (*self.streams[:position], stream, *self.streams[position + 1 :])
        return replace(self, streams=streams)


def readable(grouped: GroupedStream, stream: Stream) -> list[int]:
    """The shards of a stream that the group may read by now, in order.

    A shard is read when all that its records follow has been read: each parent is committed to its
    end, is not read by the group, or has expired.
    """
    present = {shard.number for shard in stream.shards}

    def is_behind(number: int) -> bool:
        return number not in present or grouped.is_settled(number)

    return [
        shard.number
        for shard in stream.shards
        if not grouped.is_settled(shard.number) and all(map(is_behind, shard.parents))
    ]


_Stream = tuple[str, str, int, int, list[int], list[int]]
_Member = tuple[str, int, str, bool, str]
_Hold = tuple[int, int, int, int, int, int]


def encode(group: ConsumerGroup) -> Attributes:
    """The group as the attributes of an item; account, region and name are in its key."""
    numbers = {member: number for number, member in enumerate(group.members)}
    streams: list[_Stream] = [
        (*one[:4], sorted(one.first), sorted(one.done)) for one in group.streams
    ]
    holds: list[_Hold] = [
        (
            *key,
            numbers.get(hold.owner, _NO_MEMBER),
            hold.epoch,
            numbers.get(hold.target, _NO_MEMBER),
            hold.moving_us,
        )
        for key, hold in group.holds.items()
    ]
    item: dict[str, Value] = {
        "v": FORMAT,
        "k": _DELETED if group.is_deleted else _GROUP,
        "w": group.nonce,
        "u": group.uid,
        "b": group.created_ms,
        "s": group.session_s,
        "t": group.rebalance_s,
        "a": group.assignor,
        "e": group.epoch,
        "l": msgspec.msgpack.encode(streams),
        "m": msgspec.msgpack.encode(list(group.members.values())),
        "h": msgspec.msgpack.encode(holds),
    }
    return item


def decode(account: str, region: str, name: str, item: Attributes) -> ConsumerGroup:
    """Read what `encode` wrote. Raises UnknownItemFormatError for anything else."""
    kind = item.get("k")
    if item.get("v") != FORMAT or kind not in (_GROUP, _DELETED):
        raise UnknownItemFormatError(
            f"group {account}/{region}/{name}: format {item.get('v')!r}, kind {kind!r}"
        )
    members = [
        GroupMember(*member)
        for member in msgspec.msgpack.decode(octets(item, "m"), type=list[_Member])
    ]
    names = [*(member.id for member in members), NOBODY]  # The last one is at _NO_MEMBER.
    return ConsumerGroup(
        account=account,
        region=region,
        name=name,
        uid=text(item, "u"),
        created_ms=integer(item, "b"),
        session_s=integer(item, "s"),
        rebalance_s=integer(item, "t"),
        assignor=text(item, "a"),
        streams=tuple(
            GroupedStream(*one[:4], frozenset(one[4]), frozenset(one[5]))
            for one in msgspec.msgpack.decode(octets(item, "l"), type=list[_Stream])
        ),
        epoch=integer(item, "e"),
        members={member.id: member for member in members},
        holds={
            ShardKey(stream, shard): ShardHold(names[owner], epoch, names[target], moving_us)
            for stream, shard, owner, epoch, target, moving_us in msgspec.msgpack.decode(
                octets(item, "h"), type=list[_Hold]
            )
        },
        is_deleted=kind == _DELETED,
        nonce=octets(item, "w"),
    )
