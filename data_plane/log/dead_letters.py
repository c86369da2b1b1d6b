"""Dead letters of queues of the Kinesis API, which stay in their queue: who is one, and where.

A record becomes one when the lease of its last allowed receive ends, and that is written in the
lease (docs/storage.md, "Queues of the Kinesis API"). So nothing has to be done then, by nobody.
"""

from typing import Final

from data_plane.core.queue import Queue
from data_plane.log.bounds import BLOCK_FULL_MESSAGES
from data_plane.log.desk import Access
from data_plane.log.sources import place_of
from data_plane.stored import keys
from data_plane.stored.lease import DEAD, LAST, Lease

STATES_MAX: Final = 100
"""States of blocks that are read at a time, to find what died at other front ends."""

PAGES_MAX: Final = 4
"""So often in one look; the next one goes on from there."""


def with_fate(queue: Queue, prior: Lease | None, new: Lease) -> Lease:
    """The lease of a receive, which says what becomes of the record if it ends."""
    if not queue.is_kinesis:
        return new
    if prior is not None:
        new = new._replace(forgiven=prior.forgiven)
    if queue.of_dead:
        return new._replace(fate=DEAD)
    if queue.dies_after and new.counted >= queue.dies_after:
        return new._replace(fate=LAST)
    return new


async def may_be_behind(at: Access) -> bool:
    """Whether anybody has received something behind what was read: only such can be dead.

    So dead letters are found without a backlog being read. Raises CellUnavailableError.
    """
    for item in await at.cell.query(at.partition.states, limit=1, reverse=True):
        last = keys.slot_of(item.key.sort) + BLOCK_FULL_MESSAGES - 1
        return last > at.partition.reader.cursor
    return False


async def look(at: Access) -> None:
    """Learn what other front ends have done to blocks that were read, some at a time.

    Raises CellUnavailableError.
    """
    reader = at.partition.reader
    for _ in range(PAGES_MAX):
        first = place_of(max(reader.low + 1, 1)).block
        after = keys.be64(max(first - 1, reader.looked_behind))
        asked_us = at.now_us()
        page = await at.cell.query(at.partition.states, after=after, limit=STATES_MAX)
        for item in page:
            block = reader.blocks.get(keys.slot_of(item.key.sort))
            if block is not None:
                reader.learn(block, item.attributes, asked_us, touched=True)
        reader.looked_behind = keys.slot_of(page[-1].key.sort) if page else 0
        if not page:
            return
