"""Generations: a queue whose throughput limit changes goes on in other logs (docs/storage.md).

An earlier generation gets an end before anything is appended to the next, or read from it.
"""

from data_plane.core.queue import Generation
from data_plane.log import appending, tails
from data_plane.log.bounds import WINDOW_US
from data_plane.log.desk import Access, open_generations
from data_plane.log.partition import Tail
from data_plane.log.slots import END
from data_plane.log.window import Window
from data_plane.ports import Value

Inherited = list[tuple[Window, int]]
"""Deduplication windows of earlier partitions, with the numbers of those."""


async def inherited(at: Access) -> Inherited:
    """The windows in which a message of this partition may have its original, too.

    Ends the earlier logs first, the earliest before the others: several generations may have begun
    within one window. Raises CellUnavailableError.
    """
    partition = at.partition
    if not partition.has_earlier:
        return []
    windows: Inherited = []
    generations = open_generations(at.desk, at.queue)
    known = at.desk.generations(at.queue)
    for partitions, following in zip(generations, known[1:], strict=False):
        if following.number > partition.generation:
            break
        for earlier in partitions:
            tail = await ended(earlier, following)
            partition.stamp_us_min = max(partition.stamp_us_min, tail.last.stamp_us + 1)
            # Who has the definition of before a raised retention goes by the raised one here, too.
            partition.expires_s_min = max(partition.expires_s_min, tail.expires_s)
            windows.append((tail.window, earlier.partition.number))
    ended_ago_us = partition.eras.between_us(partition.stamp_us_min, at.cell.now_us())
    partition.has_earlier = ended_ago_us < WINDOW_US
    return windows


async def ended(at: Access, following: Generation) -> Tail:
    """The tail of a log with its end, which it gets if it has none. Raises CellUnavailableError."""
    tail = await tails.current(at)
    if tail.last.kind != END:
        number, partitions, since_s = following
        record: dict[str, Value] = {"l": number, "m": partitions, "s": since_s}
        await appending.append_record(at, END, record)
        tail = await tails.current(at)
    return tail
