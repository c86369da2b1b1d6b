"""TidegateGroupHeartbeat: a member joins, goes on, or leaves, and learns what it is to read."""

import hashlib
from typing import Any, Final

from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.consumer_groups.heartbeats import (
    JOINS,
    LEAVES,
    LEAVES_FOR_NOW,
    Beat,
    BeatAnswer,
    interval_ms,
)
from control_plane.core.consumer_group import ConsumerGroup, ShardKey
from control_plane.stream_operations.grouped import (
    operation,
    own_stream,
    present_stream,
    told_position,
    told_shard,
)
from data_plane.operations.stream_address import shard_number
from data_plane.protocol.constraints import missing, refuse
from data_plane.protocol.group_shapes import HEARTBEAT_INPUT, HEARTBEAT_OUTPUT, WAIT_S
from data_plane.protocol.operation import Call, Operation, Params

_ID_BYTES: Final = 16
_US_PER_S: Final = 1_000_000


def group_heartbeat(groups: ConsumerGroups) -> Operation:
    """The operation on these groups."""

    async def perform(call: Call) -> Params:
        params = call.params
        epoch = params["MemberEpoch"]
        member = params.get("MemberId")
        if member is None and epoch != JOINS:
            refuse([missing("memberId")])
        group = await groups.registry.read(call.account, call.region, params["GroupName"])
        beat = Beat(
            member=member or _new_id(groups, group, call),
            epoch=epoch,
            instance=params.get("InstanceId", ""),
            owned=_owned(group, call),
        )
        if epoch in (LEAVES, LEAVES_FOR_NOW):
            await groups.heartbeats.leave(group, beat)
            return {"MemberId": beat.member, "MemberEpoch": epoch}
        if epoch == JOINS:
            answer = await groups.heartbeats.join(group, beat)
        else:
            until_us = call.now_us + params.get(WAIT_S, 0) * _US_PER_S
            answer = await groups.heartbeats.go_on(group, beat, until_us)
        return {
            "MemberId": beat.member,
            "MemberEpoch": answer.group.epoch,
            "HeartbeatIntervalMillis": interval_ms(answer.group),
            "RebalanceTimeoutSeconds": answer.group.rebalance_s,
            "Assignment": await _assignment(groups, answer),
        }

    return operation(
        "TidegateGroupHeartbeat", HEARTBEAT_INPUT, HEARTBEAT_OUTPUT, perform, wait_member=WAIT_S
    )


def _new_id(groups: ConsumerGroups, group: ConsumerGroup, call: Call) -> str:
    """An id for a member: the same for a call that an SDK repeats."""
    if not call.invocation_id:
        return groups.entropy.random_bytes(_ID_BYTES).hex()
    caller = f"{group.uid} {call.account} {call.invocation_id}"
    return hashlib.blake2b(caller.encode(), digest_size=_ID_BYTES).hexdigest()


def _owned(group: ConsumerGroup, call: Call) -> dict[ShardKey, int] | None:
    """The shards that a member says it has; what is none of the group's does not matter."""
    owned = call.params.get("OwnedShards")
    if owned is None:
        return None
    found: dict[ShardKey, int] = {}
    for one in owned:
        name = own_stream(call.account, call.region, one["StreamARN"])
        at = group.position_of(name.name)
        if at is not None:
            found[ShardKey(at, shard_number(one["ShardId"], name))] = one["AssignmentEpoch"]
    return found


async def _assignment(groups: ConsumerGroups, answer: BeatAnswer) -> list[dict[str, Any]]:
    group = answer.group
    assignment: list[dict[str, Any]] = []
    for key, epoch in sorted(answer.shards.items()):
        known = group.streams[key.stream]
        stream = await present_stream(groups, group, known)
        shard = stream.shard(key.shard) if stream is not None else None
        if stream is None or shard is None:
            continue  # It is gone since, and the next heartbeat knows.
        told: dict[str, Any] = {**told_shard(stream, shard), "AssignmentEpoch": epoch}
        if key in answer.told:
            told["Position"] = told_position(shard, answer.told[key])
        assignment.append(told)
    return assignment
