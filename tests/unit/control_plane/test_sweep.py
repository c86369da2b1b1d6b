import asyncio
from typing import Any

import pytest

from control_plane.sweep import SWEPT_AFTER_US, sweep_dropped
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Key
from data_plane.stored.keys import partitions


class DroppingCell(MemoryCell):
    """A cell that removes many items at once, as the embedded one does."""

    drops = 0

    async def drop(self, partition: str, budget: int) -> int:
        self.drops += 1
        items = await self.query(partition, limit=budget)
        self.expire([item.key for item in items])
        return len(items)


def fill(cell: MemoryCell, uid: str, count: int) -> None:
    async def put_all() -> None:
        for partition in partitions(uid):
            for number in range(count):
                await cell.put(Key(partition, number.to_bytes(4, "big")), {"v": 1})

    asyncio.run(put_all())


def deleted_queue(control: Any) -> str:
    control.call("CreateQueue", QueueName="orders")
    uid = control.find("orders").uid
    control.call("DeleteQueue", QueueUrl="orders")
    return str(uid)


@pytest.mark.parametrize("kind", [MemoryCell, DroppingCell])
def test_a_deleted_queue_leaves_nothing_behind(control: Any, kind: type[MemoryCell]) -> None:
    data = kind(control.clock)
    uid = deleted_queue(control)
    fill(data, uid, 7)
    cells = {"a": data, "b": data}
    control.clock.advance(SWEPT_AFTER_US / 1_000_000)

    def step() -> int:
        now_us = control.clock.now_us()
        return asyncio.run(sweep_dropped(control.registry, cells, now_us, items_max=10))

    assert [step() for _ in range(7)] == [10, 10, 10, 10, 10, 6, 0]
    assert data.items() == []
    assert asyncio.run(control.registry.dropped(10)) == []


def test_nothing_is_removed_while_a_front_end_may_still_write(control: Any) -> None:
    data = MemoryCell(control.clock)
    fill(data, deleted_queue(control), 1)
    control.clock.advance(SWEPT_AFTER_US / 1_000_000 - 1)
    now_us = control.clock.now_us()
    assert asyncio.run(sweep_dropped(control.registry, {"a": data, "b": data}, now_us)) == 0
    assert len(data.items()) == 8


def test_a_deletion_that_was_cut_off_harms_nothing(control: Any) -> None:
    """The sweep's item was written, the tombstone was not."""
    control.call("CreateQueue", QueueName="orders")
    queue = control.find("orders")
    data = MemoryCell(control.clock)
    fill(data, queue.uid, 1)

    async def crash(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    control.registry._compare_and_set, kept = crash, control.registry._compare_and_set
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(control.registry.delete(queue, control.clock.now_us()))
    control.registry._compare_and_set = kept
    assert len(asyncio.run(control.registry.dropped(10))) == 1

    control.clock.advance(SWEPT_AFTER_US / 1_000_000)
    now_us = control.clock.now_us()
    assert asyncio.run(sweep_dropped(control.registry, {"a": data, "b": data}, now_us)) == 0
    assert len(data.items()) == 8
    assert asyncio.run(control.registry.dropped(10)) == []
