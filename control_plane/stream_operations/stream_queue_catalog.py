"""The operations on queues of the Kinesis API that a front end serves."""

from control_plane.kinesis_queues import KinesisQueues, RecordReaders
from control_plane.stream_operations.create_stream_queue import (
    create_stream_queue,
    update_stream_queue,
)
from control_plane.stream_operations.describe_stream_queue import (
    delete_stream_queue,
    describe_stream_queue,
    list_stream_queues,
)
from control_plane.streams import StreamRegistry
from data_plane.core.sealing import TokenSeal
from data_plane.protocol.operation import Operation


def stream_queue_operations(
    queues: KinesisQueues, streams: StreamRegistry, readers: RecordReaders, seal: TokenSeal
) -> tuple[Operation, ...]:
    """All operations on these queues as such; those on their records are the data plane's.

    `seal` is that of tokens that continue lists.
    """
    return (
        create_stream_queue(queues, streams, readers),
        update_stream_queue(queues),
        describe_stream_queue(queues),
        delete_stream_queue(queues, readers),
        list_stream_queues(queues, seal),
    )
