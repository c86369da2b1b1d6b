"""The operations on streams that a front end serves."""

from control_plane.stream_operations.change_retention import (
    decrease_stream_retention_period,
    increase_stream_retention_period,
)
from control_plane.stream_operations.create_stream import create_stream
from control_plane.stream_operations.delete_stream import delete_stream
from control_plane.stream_operations.describe_limits import describe_limits
from control_plane.stream_operations.describe_stream import (
    describe_stream,
    describe_stream_summary,
)
from control_plane.stream_operations.list_shards import list_shards
from control_plane.stream_operations.list_streams import list_streams
from control_plane.stream_operations.shard_room import ShardRoom
from control_plane.stream_operations.split_shard import merge_shards, split_shard
from control_plane.stream_operations.stream_encryption import (
    start_stream_encryption,
    stop_stream_encryption,
)
from control_plane.stream_operations.stream_policy import (
    delete_resource_policy,
    get_resource_policy,
    put_resource_policy,
)
from control_plane.stream_operations.tag_stream import (
    add_tags_to_stream,
    list_tags_for_resource,
    list_tags_for_stream,
    remove_tags_from_stream,
    tag_resource,
    untag_resource,
)
from control_plane.stream_operations.update_shard_count import update_shard_count
from control_plane.stream_operations.update_stream import (
    update_max_record_size,
    update_stream_mode,
    update_stream_record_distribution_strategy,
)
from control_plane.streams import StreamRegistry
from data_plane.ports import AccountQuotas
from data_plane.protocol.operation import Operation


def stream_operations(
    registry: StreamRegistry, quotas: AccountQuotas | None = None
) -> tuple[Operation, ...]:
    """All operations on streams as such; those on records are the data plane's."""
    room = ShardRoom(registry, quotas)
    return (
        create_stream(registry, room),
        delete_stream(registry),
        describe_stream(registry),
        describe_stream_summary(registry),
        list_streams(registry),
        list_shards(registry),
        increase_stream_retention_period(registry),
        decrease_stream_retention_period(registry),
        split_shard(registry, room),
        merge_shards(registry),
        update_shard_count(registry, room),
        update_stream_mode(registry),
        update_stream_record_distribution_strategy(registry),
        update_max_record_size(registry),
        add_tags_to_stream(registry),
        remove_tags_from_stream(registry),
        list_tags_for_stream(registry),
        tag_resource(registry),
        untag_resource(registry),
        list_tags_for_resource(registry),
        put_resource_policy(registry),
        get_resource_policy(registry),
        delete_resource_policy(registry),
        start_stream_encryption(registry),
        stop_stream_encryption(registry),
        describe_limits(registry, room),
    )
