"""TidegateCreateGroup, TidegateListGroups and TidegateDeleteGroup."""

from collections.abc import Sequence
from typing import Final

from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.consumer_groups.positions import LATEST, StartingPosition, beginning
from control_plane.core.consumer_group import STICKY, ConsumerGroup
from control_plane.stream_operations import paging
from control_plane.stream_operations.grouped import on_group, operation, own_stream, told_group
from control_plane.stream_operations.starting import time_of
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.core.limits import GROUP_REBALANCE_S_DEFAULT, GROUP_SESSION_S_DEFAULT
from data_plane.core.sealing import TokenSeal
from data_plane.operations.stream_address import on_stream, present_stream_of
from data_plane.protocol.group_shapes import (
    CREATE_GROUP_INPUT,
    CREATE_GROUP_OUTPUT,
    DELETE_GROUP_INPUT,
    DELETE_GROUP_OUTPUT,
    LIST_GROUPS_INPUT,
    LIST_GROUPS_OUTPUT,
)
from data_plane.protocol.operation import Call, Operation, Params, Permission

GROUPS_MAX: Final = 100
"""Groups on a page."""

_CREATE: Final = "TidegateCreateGroup"
_LIST: Final = "TidegateListGroups"
_SCOPE: Final = "groups"


def create_group(groups: ConsumerGroups) -> Operation:
    """The operation on these groups."""

    async def perform(call: Call) -> Params:
        params = call.params
        names = [own_stream(call.account, call.region, arn) for arn in params["StreamARNs"]]
        if len(set(names)) < len(names):
            raise RefusedError(INVALID_ARGUMENT, "StreamARNs name a stream twice.")
        position = _position(call)
        streams = [await present_stream_of(groups.streams, name) for name in names]
        wanted = ConsumerGroup(
            account=call.account,
            region=call.region,
            name=params["GroupName"],
            uid=groups.registry.new_uid(),
            created_ms=call.now_us // 1_000,
            # Above those of groups that had the name before: an epoch takes a write, which takes
            # longer than a microsecond.
            epoch=call.now_us,
            session_s=params.get("SessionTimeoutSeconds", GROUP_SESSION_S_DEFAULT),
            rebalance_s=params.get("RebalanceTimeoutSeconds", GROUP_REBALANCE_S_DEFAULT),
            assignor=params.get("Assignor", STICKY),
            streams=tuple(beginning(stream, position) for stream in streams),
        )
        return {"Group": told_group(await groups.positions.create(wanted, streams, position))}

    async def needed(account: str, region: str, params: Params) -> Sequence[Permission]:
        """For the group, and for each stream."""
        arns = params.get("StreamARNs")
        names = [own_stream(account, region, arn) for arn in arns] if isinstance(arns, list) else []
        return [
            on_group(_CREATE, account, region, params.get("GroupName") or ""),
            *(on_stream(_CREATE, name) for name in names),
        ]

    return operation(_CREATE, CREATE_GROUP_INPUT, CREATE_GROUP_OUTPUT, perform, needed)


def _position(call: Call) -> StartingPosition:
    given = call.params.get("StartingPosition") or {"Type": LATEST}
    return StartingPosition(given["Type"], time_of(given, call.now_us))


def delete_group(groups: ConsumerGroups) -> Operation:
    """The operation on these groups: one without members goes, with its offsets."""

    async def perform(call: Call) -> Params:
        group = await groups.registry.read(call.account, call.region, call.params["GroupName"])
        await groups.registry.delete(group)
        return {}

    return operation("TidegateDeleteGroup", DELETE_GROUP_INPUT, DELETE_GROUP_OUTPUT, perform)


def list_groups(groups: ConsumerGroups, seal: TokenSeal) -> Operation:
    """The operation on these groups, in order of their names."""

    async def perform(call: Call) -> Params:
        token = call.params.get("NextToken")
        after = paging.read(seal, call, _SCOPE, token) if token is not None else ""
        limit = call.params.get("MaxResults", GROUPS_MAX)
        found = await groups.registry.page(call.account, call.region, after=after, limit=limit + 1)
        page = found[:limit]
        output: dict[str, object] = {"Groups": [told_group(group) for group in page]}
        if len(found) > limit:
            output["NextToken"] = paging.to_text(seal, call, _SCOPE, page[-1].name)
        return output

    async def needed(account: str, region: str, _params: Params) -> Sequence[Permission]:
        return [on_group(_LIST, account, region, "*")]

    return operation(_LIST, LIST_GROUPS_INPUT, LIST_GROUPS_OUTPUT, perform, needed)
