"""What a queue's receives read, and in which order: its generations, or the shards of a stream.

A shard comes behind its parents, so that records of a key keep their order over splits and merges.
"""

from dataclasses import replace

from data_plane.core.digests import group_hash
from data_plane.core.errors import queue_does_not_exist
from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.core.stream import Stream
from data_plane.log.bounds import PARTITIONS_MAX
from data_plane.log.desk import Access, Desk, open_generations
from data_plane.log.reader import Reader


async def layers(desk: Desk, queue: Queue) -> list[list[Access]]:
    """Access to what is to be read, each layer behind those before it.

    None where the stream that the queue reads was deleted. Raises RefusedError where the queue was,
    CellUnavailableError.
    """
    if not queue.reads_stream:
        return _generations(desk, queue)
    if queue.uid in desk.dropped:
        raise queue_does_not_exist()
    stream = await desk.sources.stream_of(queue) if desk.sources is not None else None
    if stream is not None and desk.sources is not None and _is_past(desk, queue, stream):
        stream = await desk.sources.renewed(stream)
    return [] if stream is None else _shards(desk, _as_known(desk, queue, stream), stream)


def _is_past(desk: Desk, queue: Queue, stream: Stream) -> bool:
    """Whether a shard that the definition has as open was read to its end."""
    partitions = desk.partitions
    return any(
        known.reader.end is not None
        for shard in stream.open_shards
        if (known := partitions.get((queue.uid, shard.number, 0))) is not None
    )


def _generations(desk: Desk, queue: Queue) -> list[list[Access]]:
    """None is read before all earlier ones were read to their ends."""
    generations = open_generations(desk, queue)
    behind: tuple[Reader, ...] = ()
    for number, partitions in enumerate(generations[1:], start=1):
        behind += tuple(at.partition.reader for at in generations[number - 1])
        generations[number] = [replace(at, behind=behind) for at in partitions]
    return generations


async def read_by(desk: Desk, queue: Queue) -> Queue:
    """The queue as what is done to its messages goes by: those of a stream stay as long as there.

    Raises CellUnavailableError.
    """
    if not queue.reads_stream or desk.sources is None:
        return queue
    stream = await desk.sources.stream_of(queue)
    return queue if stream is None else _as_known(desk, queue, stream)


async def meet_stream(desk: Desk, queue: Queue) -> None:
    """See for how long the stream that the queue reads keeps records by now.

    Raises CellUnavailableError.
    """
    if queue.reads_stream and desk.sources is not None:
        stream = await desk.sources.stream_of(queue)
        if stream is not None:
            desk.meet(stream)


def _as_known(desk: Desk, queue: Queue, stream: Stream) -> Queue:
    """As `as_read`; made once for all calls by the same definitions."""
    desk.meet(stream)
    known = desk.as_read.get(queue.uid)
    if known is None or known[0] is not queue or known[1] is not stream:
        known = desk.as_read[queue.uid] = (queue, stream, as_read(queue, stream))
        if len(desk.as_read) > PARTITIONS_MAX:
            desk.as_read.popitem(last=False)
    return known[2]


def as_read(queue: Queue, stream: Stream) -> Queue:
    """The queue with the stream's retention."""
    return replace(queue, retention_s=stream.retention_s, expired_us=stream.expired_us)


def _shards(desk: Desk, queue: Queue, stream: Stream) -> list[list[Access]]:
    """By how many shards come before; numbers of children are above those of their parents.

    A shard that was made closed, on the way to others, stands for its parents. Of one that nothing
    waits for any more the children take turns with shards that it took turns with. What a shard
    waits for its children wait for, too: a reader may have been forgotten, and those behind it not.
    Dead letters come in no order, and shards of which nothing was received are not read for them:
    none waits for others.
    """
    layers: list[list[Access]] = []
    depths: dict[int, int] = {}
    ends: dict[int, tuple[Reader, ...]] = {}
    for shard in stream.shards:
        before = () if queue.of_dead else shard.parents
        parents = [number for number in before if number in depths]
        depth = max((depths[number] for number in parents), default=0)
        behind = tuple(dict.fromkeys(reader for number in parents for reader in ends[number]))
        if shard.was_never_open:
            depths[shard.number], ends[shard.number] = depth, behind
            continue
        partition = desk.partition(queue, shard.number, 0)
        if desk.sources is not None:
            partition.source = desk.sources.source(queue, stream, shard, partition.source)
        unread = [reader for reader in behind if reader.end is None]
        depths[shard.number] = depth + _is_waited_for(queue, partition.reader)
        ends[shard.number] = (partition.reader, *unread)
        while len(layers) <= depth:
            layers.append([])
        layers[depth].append(Access(desk, queue, partition, behind))
    return layers


def _is_waited_for(queue: Queue, reader: Reader) -> bool:
    """Whether records of children may have to wait: in others than FIFO queues, for its end."""
    return not reader.is_drained if queue.fifo else reader.end is None


def order_hash(queue: Queue, message: Message) -> bytes:
    """What a message has in common with those that it waits for.

    In a FIFO queue its group; in others, which read a stream, it waits for none.
    """
    return group_hash(queue, message.group) if queue.fifo else message.id
