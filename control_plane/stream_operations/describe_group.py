"""TidegateDescribeGroup: who its members are, who has which shard, and how far behind they are."""

from collections.abc import Mapping
from typing import Any, Final

from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.core.consumer_group import ConsumerGroup, ShardHold, ShardKey
from control_plane.core.group_offset import GroupOffset, is_taken_up
from control_plane.stream_operations.group_offsets import page_of
from control_plane.stream_operations.grouped import (
    GroupShard,
    operation,
    shards_read,
    told_group,
    told_offset,
    told_shard,
)
from data_plane.core.sealing import TokenSeal
from data_plane.protocol.group_shapes import DESCRIBE_GROUP_INPUT, DESCRIBE_GROUP_OUTPUT
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.streams.lag import Lag

_NOTHING_BEHIND: Final = Lag(0, 0)


def describe_group(groups: ConsumerGroups, seal: TokenSeal) -> Operation:
    """The operation on these groups. Members whose sessions are over are gone by then."""

    async def perform(call: Call) -> Params:
        group = await groups.registry.read(call.account, call.region, call.params["GroupName"])
        group = await groups.registry.change(group, lambda known: known)
        page, token = page_of(seal, call, group, await shards_read(groups, group))
        keys = {*group.holds, *(one.key for one in page)}
        offsets = await groups.offsets.read(group, keys)
        lags = await groups.offsets.all_of([lag_of(groups, one, offsets[one.key]) for one in page])
        return {
            "Group": told_group(group),
            "State": state(group, offsets),
            "Members": [
                {
                    "MemberId": member.id,
                    "MemberEpoch": member.joined,
                    **({"InstanceId": member.instance} if member.instance else {}),
                }
                for member in group.members.values()
            ],
            "Shards": [
                _told(group, one, offsets[one.key], lag)
                for one, lag in zip(page, lags, strict=True)
            ],
            **token,
        }

    return operation("TidegateDescribeGroup", DESCRIBE_GROUP_INPUT, DESCRIBE_GROUP_OUTPUT, perform)


def state(group: ConsumerGroup, offsets: Mapping[ShardKey, GroupOffset]) -> str:
    """What a group is at.

    `Empty`: nobody is there. `Reconciling`: a member is to give up a shard that it has.
    `Assigning`: a member has not come yet for a shard that it is to read.
    """
    if not group.members:
        return "Empty"
    if any(hold.owner != hold.target for hold in group.holds.values()):
        return "Reconciling"
    if not all(is_taken_up(offsets[key], hold) for key, hold in group.holds.items()):
        return "Assigning"
    return "Stable"


async def lag_of(groups: ConsumerGroups, one: GroupShard, known: GroupOffset) -> Lag:
    """How much of a shard there is behind what is done. Raises CellUnavailableError."""
    if known.is_end:
        return _NOTHING_BEHIND
    return await groups.places.lag(one.stream, one.shard, known.offset or 0)


def _told(group: ConsumerGroup, one: GroupShard, known: GroupOffset, lag: Lag) -> dict[str, Any]:
    hold = group.holds.get(one.key, ShardHold())
    return {
        **told_shard(one.stream, one.shard),
        **told_offset(one.shard, known),
        **({"OwnerMemberId": hold.owner, "AssignmentEpoch": hold.epoch} if hold.owner else {}),
        **({"TargetMemberId": hold.target} if hold.target else {}),
        "LagRecords": lag.records,
        "MillisBehindLatest": lag.behind_ms,
    }
