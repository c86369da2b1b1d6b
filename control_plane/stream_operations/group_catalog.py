"""The operations on consumer groups that a front end serves."""

from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.stream_operations.commit_offsets import commit_offsets
from control_plane.stream_operations.create_group import create_group, delete_group, list_groups
from control_plane.stream_operations.describe_group import describe_group
from control_plane.stream_operations.group_heartbeat import group_heartbeat
from control_plane.stream_operations.group_offsets import get_offsets, reset_offsets
from data_plane.core.sealing import TokenSeal
from data_plane.protocol.operation import Operation


def group_operations(groups: ConsumerGroups, seal: TokenSeal) -> tuple[Operation, ...]:
    """All operations on groups; `seal` is that of tokens that continue lists."""
    return (
        create_group(groups),
        group_heartbeat(groups),
        commit_offsets(groups),
        get_offsets(groups, seal),
        reset_offsets(groups),
        describe_group(groups, seal),
        list_groups(groups, seal),
        delete_group(groups),
    )
