"""Upkeep: the durable low-water mark, and the collection of blocks that are done.

Nothing here runs by itself: receives carry it along, and the server calls `sweep`.
"""

from collections.abc import Coroutine
from itertools import chain
from typing import Any

from data_plane.core.message import Delivery
from data_plane.core.queue import Queue
from data_plane.log import appending, reading
from data_plane.log.bounds import COLLECT_BLOCKS_MAX, IDLE_US_MAX, LOW_WATER_MESSAGES
from data_plane.log.desk import Access, Desk, open_generations
from data_plane.log.slots import START
from data_plane.ports import CellUnavailableError, Equals, Key, LessThan, Update
from data_plane.stored import keys
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.stored.low_water import may_follow, new_mark
from data_plane.stored.segment import FORMAT_VERSION, number, octets


def write_due(at: Access) -> Coroutine[Any, Any, list[Delivery]] | None:
    """The upkeep that has become due, if any, as a call that delivers nothing."""
    reader = at.partition.reader
    passed = reader.passed_messages
    if passed < LOW_WATER_MESSAGES:
        return None
    reader.passed_messages = 0  # Before it runs, so that no other receive does it, too.
    return _write_low_water(at, passed)


async def _write_low_water(at: Access, passed: int) -> list[Delivery]:
    """Make durable what needs not be read again.

    Raises CellUnavailableError; then the messages `passed` make it due again.
    """
    reader = at.partition.reader
    low = reader.low
    if not reader.opened or low < reader.low_written:
        return []
    try:
        written = await at.cell.update(
            at.partition.low_water_key,
            new_mark(
                {
                    "v": FORMAT_VERSION,
                    "w": keys.be64(low),
                    "r": reading.pack_ranges(reader.closed_ranges()),
                },
                reader.eras,
            ),
            may_follow(keys.be64(low + 1), reader.low_doubted),
        )
    except CellUnavailableError:
        reader.passed_messages += passed
        raise
    reader.low_written, reader.low_doubted = low, None
    if not written.applied and written.before is not None:
        reader.low_written = max(low, keys.slot_of(octets(written.before, "w")))
    return []


async def sweep(desk: Desk) -> None:
    """One bounded step of upkeep for every partition that this front end knows.

    Raises CellUnavailableError; what was not done stays due.
    """
    now_us = desk.clock.now_us()
    for key, partition in list(desk.partitions.items()):
        at = Access(desk, partition.queue, partition)
        passed, partition.reader.passed_messages = partition.reader.passed_messages, 0
        if passed:
            await _write_low_water(at, passed)
        # What says what was sent stays until that is recorded.
        collect(at, min(now_us, desk.sent.recorded_us()))
        if now_us - partition.used_us > IDLE_US_MAX and not partition.reader.finished:
            desk.forget(key)


def collect(at: Access, now_us: int) -> None:
    """Hand blocks that are long done to the cell as no longer needed.

    Never the last block: the end of the log must stay to be found.
    """
    partition, finished = at.partition, at.partition.reader.finished
    for _ in range(COLLECT_BLOCKS_MAX):
        if not finished or finished[0].due_us > now_us:
            return
        if finished[0].last >= partition.reader.cursor:
            finished.rotate(-1)
            return
        block = finished.popleft()
        slots = [partition.slot_key(slot) for slot in range(block.first, block.last + 1)]
        at.cell.expire([*slots, partition.state_key(block.first)])
        if block.apart and at.bodies is not None:
            at.bodies.unneeded_names(block.apart)


async def restamp(desk: Desk, queue: Queue) -> None:
    """Let everything stored live as long as the queue's retention, which was raised, asks for.

    `x` must not fall from slot to slot: so the end of the log goes first, and then all below it.
    A log that has an end already says what it goes on in: that comes next.
    """
    done = 0
    while len(generations := open_generations(desk, queue)) > done:
        for at in chain.from_iterable(generations[done:]):
            await _restamp(at)
        done = len(generations)


async def _restamp(at: Access) -> None:
    await appending.append_record(at, START)  # raises `x` of all that follows
    until: bytes | None = None
    while page := await at.cell.query(
        at.partition.slots, until=until, limit=QUERY_PAGE, reverse=True
    ):
        until = keys.before(page[-1].key.sort)
        for item in page:
            expires_s = at.slot_ttl_s(number(item.attributes, "t"))
            if number(item.attributes, "x") < expires_s:
                await _raise_ttl(at, item.key, expires_s)


async def _raise_ttl(at: Access, key: Key, expires_s: int) -> None:
    await at.cell.update(
        key,
        Update(assign={"x": expires_s}),
        # Not into being again where it was collected meanwhile.
        ((Equals("v", FORMAT_VERSION),), (LessThan("x", expires_s),)),
    )
