"""The operations on streams that a front end serves."""

from control_plane.kinesis_queues import KinesisQueues
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
    registry: StreamRegistry,
    quotas: AccountQuotas | None = None,
    queues: KinesisQueues | None = None,
) -> tuple[Operation, ...]:
    """All operations on streams as such; those on records are the data plane's.

    `queues` are those that may read streams; without them there are none.
    """
    room = ShardRoom(registry, quotas)
    return (
        create_stream(registry, room),
        delete_stream(registry, queues),
        describe_stream(registry),
        describe_stream_summary(registry, queues),
        list_streams(registry),
        list_shards(registry),
        increase_stream_retention_period(registry),
        decrease_stream_retention_period(registry),
        split_shard(registry, room),
        merge_shards(registry),
        update_shard_count(registry, room),
        update_stream_mode(registry, queues),
        update_stream_record_distribution_strategy(registry),
        update_max_record_size(registry),
        add_tags_to_stream(registry),
        remove_tags_from_stream(registry),
        list_tags_for_stream(registry),
        tag_resource(registry, queues),
        untag_resource(registry, queues),
        list_tags_for_resource(registry, queues),
        put_resource_policy(registry, queues),
        get_resource_policy(registry, queues),
        delete_resource_policy(registry, queues),
        start_stream_encryption(registry),
        stop_stream_encryption(registry),
        describe_limits(registry, room),
    )
