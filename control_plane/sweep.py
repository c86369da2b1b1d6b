"""The sweep of deleted queues: what they leave behind in cells goes, a bounded step at a time."""

from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from control_plane.last_known import LAST_KNOWN_US_MAX
from control_plane.registry import Dropped, Registry
from data_plane.ports import Cell
from data_plane.stored.keys import log_partitions, partitions

SWEPT_AFTER_US: Final = LAST_KNOWN_US_MAX + 300_000_000
"""Until then a front end that cannot reach the registry may still write to the queue."""
ITEMS_PER_STEP_MAX: Final = 1_000

_QUEUES_PER_STEP_MAX: Final = 10


@runtime_checkable
class Dropping(Protocol):
    """A cell that removes items of a partition faster than one by one."""

    async def drop(self, partition: str, budget: int) -> int:
        """Remove up to `budget` items; how many it were, 0 if the partition was empty."""
        ...


async def sweep_dropped(
    registry: Registry,
    cells: Mapping[str, Cell],
    now_us: int,
    items_max: int = ITEMS_PER_STEP_MAX,
) -> int:
    """Remove up to `items_max` items of queues deleted long enough ago; how many it were.

    A step that answers 0 found nothing to do. It may run on several servers, and be cut off
    anywhere. Raises CellUnavailableError.
    """
    removed = 0
    for queue in await registry.dropped(_QUEUES_PER_STEP_MAX):
        if now_us - queue.deleted_us < SWEPT_AFTER_US or removed >= items_max:
            break
        definition = await registry.read(queue.account, queue.region, queue.name)
        if definition is None or definition.uid != queue.uid:
            removed += await _empty(cells[queue.cell], queue, items_max - removed)
        if removed < items_max:
            # Where the queue is still there its deletion was cut off at the start: all is as was.
            await registry.swept(queue)
    return removed


async def is_due(registry: Registry, now_us: int) -> bool:
    """Whether there is a queue that was deleted long enough ago. Raises CellUnavailableError."""
    return any(now_us - one.deleted_us >= SWEPT_AFTER_US for one in await registry.dropped(1))


async def _empty(cell: Cell, queue: Dropped, budget: int) -> int:
    """Remove items of the queue; fewer than `budget` means that none is left."""
    removed = 0
    for partition in (*partitions(queue.uid), *log_partitions(queue.uid, queue.generations)):
        while removed < budget:
            count = await _drop(cell, partition, budget - removed)
            if count == 0:
                break
            removed += count
    return removed


async def _drop(cell: Cell, partition: str, budget: int) -> int:
    if isinstance(cell, Dropping):
        return await cell.drop(partition, budget)
    items = await cell.query(partition, limit=budget)
    for item in items:
        await cell.delete(item.key)
    return len(items)
