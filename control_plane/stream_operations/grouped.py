"""What operations on consumer groups have in common: names, permissions, and how they are shown."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.core.consumer_group import ConsumerGroup, GroupedStream, ShardKey
from control_plane.core.group_offset import END_OFFSET, SHARD_END, GroupOffset
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError, shard_not_found
from data_plane.core.sequence_number import parse, sequence_number
from data_plane.core.stream import Shard, Stream
from data_plane.operations.stream_address import (
    SERVICE,
    StreamName,
    named,
    shard_id,
    shard_of,
)
from data_plane.protocol.operation import Call, Operation, Params, Permission, PermissionsOf
from data_plane.protocol.shapes import Structure

_US_PER_S: Final = 1_000_000


class GroupShard(NamedTuple):
    """A shard of a stream of a group."""

    key: ShardKey
    stream: Stream
    shard: Shard


def on_group(action: str, account: str, region: str, name: str) -> Permission:
    """An action on a group, or on all that an account has ("*")."""
    return Permission(action, account, region, f"group/{name}", SERVICE)


def operation(  # noqa: PLR0913, PLR0917 - what an operation is
    name: str,
    input_: Structure,
    output: Structure,
    perform: Callable[[Call], Awaitable[Params]],
    permissions: PermissionsOf | None = None,
    wait_member: str = "",
) -> Operation:
    """An operation on the group that its parameters name."""

    async def needed(account: str, region: str, params: Params) -> Sequence[Permission]:
        return [on_group(name, account, region, params.get("GroupName") or "")]

    return Operation(
        name,
        input_,
        output,
        perform,
        on_queue=False,
        permissions=permissions or needed,
        wait_member=wait_member,
    )


def own_stream(account: str, region: str, arn: str) -> StreamName:
    """A stream of the caller's own, in its region. Raises RefusedError."""
    name = named(account, region, {"StreamARN": arn})
    if (name.account, name.region) != (account, region):
        raise RefusedError(
            INVALID_ARGUMENT, f"StreamARN {arn} is not of the group's account and region."
        )
    return name


async def shard_named(groups: ConsumerGroups, call: Call, entry: Params) -> tuple[Stream, Shard]:
    """The shard that an entry names. Raises RefusedError (ResourceNotFound)."""
    name = own_stream(call.account, call.region, entry["StreamARN"])
    return await shard_of(groups.streams, name, entry["ShardId"])


async def present_stream(
    groups: ConsumerGroups, group: ConsumerGroup, known: GroupedStream
) -> Stream | None:
    """A stream of a group as it is now; None where it is gone, be there another one by now."""
    stream = await groups.streams.find(group.account, group.region, known.name)
    if stream is None or stream.uid == known.uid:
        return stream
    try:
        # It was made anew, and the group may know that before this front end does.
        return await groups.streams.renewed(replace(stream, uid=known.uid))
    except RefusedError:
        return None


def key_of(group: ConsumerGroup, stream: Stream, shard: Shard) -> ShardKey:
    """The shard as the group knows it. Raises RefusedError where it is none of its streams'."""
    at = group.position_of(stream.name)
    if at is None:
        raise shard_not_found(shard_id(shard.number), stream.name, stream.account)
    return ShardKey(at, shard.number)


async def shards_read(groups: ConsumerGroups, group: ConsumerGroup) -> list[GroupShard]:
    """The shards that a group reads, has read, or is to read, in order."""
    found: list[GroupShard] = []
    for at, known in enumerate(group.streams):
        stream = await groups.streams.find(group.account, group.region, known.name)
        if stream is None or stream.uid != known.uid:
            continue
        unread = known._replace(done=frozenset())
        found += [
            GroupShard(ShardKey(at, shard.number), stream, shard)
            for shard in stream.shards
            if not unread.is_settled(shard.number)
        ]
    return found


def offset_of(stream: Stream, shard: Shard, text: str) -> int:
    """The offset of a sequence number of this very shard. Raises RefusedError."""
    try:
        number = parse(text)
    except ValueError:
        number = None
    if number is None or (number.shard, number.made_s) != (shard.number, shard.made_s):
        raise RefusedError(
            INVALID_ARGUMENT,
            f"SequenceNumber {text} is none of shard {shard_id(shard.number)} in stream"
            f" {stream.name} under account {stream.account}.",
        )
    return number.offset


def told_offset(shard: Shard, known: GroupOffset) -> dict[str, str]:
    """Up to where a shard is done: nothing where nothing is."""
    if known.offset is None:
        return {}
    if known.offset == END_OFFSET:
        return {"SequenceNumber": SHARD_END}
    return {"SequenceNumber": _number(shard, known.offset, known)}


def told_position(shard: Shard, known: GroupOffset) -> dict[str, str]:
    """Where to begin, as GetShardIterator is asked for it."""
    if known.offset is None:
        return {"ShardIteratorType": "TRIM_HORIZON"}
    number = _number(shard, known.offset, known)
    return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": number}


def _number(shard: Shard, offset: int, known: GroupOffset) -> str:
    # Where it was not told by a commit: iterators go by the offset in it.
    return known.number or sequence_number(shard, offset, shard.made_s * _US_PER_S)


def told_shard(stream: Stream, shard: Shard) -> dict[str, str]:
    """Which shard it is."""
    return {"StreamARN": stream.arn, "ShardId": shard_id(shard.number)}


def told_group(group: ConsumerGroup) -> Mapping[str, Any]:
    """A Group."""
    arn = group.arn.removesuffix(f"group/{group.name}")
    return {
        "GroupName": group.name,
        "GroupARN": group.arn,
        "GroupCreationTimestamp": group.created_ms,
        "StreamARNs": [f"{arn}stream/{stream.name}" for stream in group.streams],
        "SessionTimeoutSeconds": group.session_s,
        "RebalanceTimeoutSeconds": group.rebalance_s,
        "Assignor": group.assignor,
        "GroupEpoch": group.epoch,
    }
