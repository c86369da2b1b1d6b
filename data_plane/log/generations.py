"""Generations: a queue whose throughput limit changes goes on in other logs (docs/storage.md).

An earlier generation gets an end before anything is appended to the next, or read from it.
"""

from collections.abc import Sequence

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

    Ends the earlier logs first. Raises CellUnavailableError.
    """
    partition = at.partition
    if not partition.has_earlier:
        return []
    windows: Inherited = []
    for earlier in _generation_before(at):
        tail = await ended(earlier, _following(at))
        partition.stamp_us_min = max(partition.stamp_us_min, tail.last.stamp_us + 1)
        windows.append((tail.window, earlier.partition.number))
    partition.has_earlier = at.cell.now_us() < partition.stamp_us_min + WINDOW_US
    return windows


def _generation_before(at: Access) -> Sequence[Access]:
    before: Sequence[Access] = ()
    for partitions in open_generations(at.desk, at.queue):
        if partitions[0].partition.generation >= at.partition.generation:
            break
        before = partitions
    return before


def _following(at: Access) -> Generation:
    return next(
        generation
        for generation in at.desk.generations(at.queue)
        if generation.number == at.partition.generation
    )


async def ended(at: Access, following: Generation) -> Tail:
    """The tail of a log with its end, which it gets if it has none. Raises CellUnavailableError."""
    tail = await tails.current(at)
    if tail.last.kind != END:
        number, partitions, since_s = following
        record: dict[str, Value] = {"l": number, "m": partitions, "s": since_s}
        await appending.append_record(at, END, record)
        tail = await tails.current(at)
    return tail
