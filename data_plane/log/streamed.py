"""What a queue over a stream has other than by its log: where it starts, its counts, its purges."""

from data_plane.core.queue import AT_TIMESTAMP, LATEST, Queue
from data_plane.log.desk import Desk
from data_plane.ports import CellUnavailableError
from data_plane.stored.cell_of_queue import Placed, cell_of


def starting_us(desk: Desk, stream: Placed, position: str, time_us: int) -> int:
    """The stamp that all records of a queue which starts there are above.

    `time_us` is that of AT_TIMESTAMP, in the world's time. With LATEST no record is left out that
    is put after this call, whatever front end stamps it.
    """
    cell = cell_of(desk.cells, stream)
    if position == AT_TIMESTAMP:
        now_us = desk.clock.now_us()
        return cell.eras.before_us(now_us, cell.eras.world_us(now_us) - time_us + 1)
    return cell.settled_us() - 1 if position == LATEST else 0


async def records(desk: Desk, queue: Queue) -> int:
    """How many records there are that the queue has, or has deleted.

    Raises CellUnavailableError.
    """
    stream = await desk.sources.stream_of(queue) if desk.sources is not None else None
    if stream is None or desk.sources is None:
        return 0
    cell = cell_of(desk.cells, queue)
    expired_us = cell.eras.before_us(cell.now_us(), queue.retention_s * 1_000_000)
    return await desk.sources.records_above(
        stream, max(queue.purged_us, stream.expired_us, expired_us)
    )


async def purge(desk: Desk, queue: Queue) -> int:
    """A stamp that all records have at most which are there now, and none that comes later.

    Stamps of a shard that was just made are some seconds ahead: as long this waits. Raises
    CellUnavailableError.
    """
    if desk.sources is None:
        raise CellUnavailableError("this front end serves no queues over streams")
    present_us = cell_of(desk.cells, queue).now_us()
    stream = await desk.sources.stream_of(queue)
    if stream is not None:
        # A shard that another server has just made may have records ahead of all others.
        stream = await desk.sources.renewed(stream)
    last_us = 0 if stream is None else await desk.sources.last_stamp_us(stream)
    if last_us >= present_us:
        await desk.waits.sleep_until(desk.clock.now_us() + last_us - present_us + 1)
    return max(present_us, last_us)
