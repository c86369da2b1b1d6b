"""The end of a log, as whoever appends knows it: what FIFO queues and streams have in common.

Who wins the next slot is decided by one conditional put, and who appends must have read what lies
below it (docs/storage.md, "Slot").
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar, cast

from data_plane.log.bounds import APPEND_AGE_US_MAX, TAIL_AGE_US_MAX
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    Cell,
    CellUnavailableError,
    Item,
    Key,
    Tallies,
    Written,
    no_tallies,
)
from data_plane.stored import coalescing, keys
from data_plane.stored.bodies import BodyStore
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.stored.coalescing import coalesce

_PAGE_BYTES_SAFE = 512 * 1024
"""A page of a query that has fewer bytes was not cut off because of its size."""

_OPEN_ATTEMPTS_MAX = 8


class Tail(Protocol):
    """The last slot of a log, and what an append must know of those below.

    `seen_us` is when the cell last said, or let follow, that nothing lies above. `unsure`: a write
    to the next slot may have taken effect.
    """

    seen_us: int
    unsure: bool

    @property
    def number(self) -> int:
        """Of the last slot."""
        ...

    @property
    def following(self) -> int:
        """Of the next one."""
        ...

    @property
    def expires_s(self) -> int:
        """Until when the last slot is there, and nobody can have removed what lies above it."""
        ...

    def take_over(self, item: Item) -> None:
        """The next slot was written, by whomever. One that is known changes nothing."""
        ...


T = TypeVar("T", bound=Tail)


class LogEnd(Protocol[T]):
    """What one front end knows of the end of the log in the partition `slots`; None: nothing."""

    slots: str
    tail: T | None

    def slot_key(self, slot: int) -> Key:
        """The key of a slot."""
        ...


class AppendGround(Protocol):
    """What an append stands on: the log's cell, where big bodies go, and its front end."""

    @property
    def desk(self) -> coalescing.Desk:
        """The front end's."""
        ...

    @property
    def cell(self) -> Cell:
        """The cell that has the log."""
        ...

    @property
    def bodies(self) -> BodyStore | None:
        """Where that cell has bodies that are too big for it, if it has such a place."""
        ...

    def now_us(self) -> int:
        """This front end's clock, in microseconds."""
        ...


Open = Callable[[], Awaitable[bool]]
"""Learns the tail from the cell alone; False where it had to be begun, or moved meanwhile."""


async def current(at: AppendGround, end: LogEnd[T], open_: Open) -> T:
    """The log's tail, as of at most TAIL_AGE_US_MAX ago. Raises CellUnavailableError."""
    tail = end.tail
    if tail is None or tail.unsure or at.cell.now_us() - tail.seen_us > TAIL_AGE_US_MAX:
        # One at a time: the others are told what the first has read. They do not look for it at
        # the end itself, where somebody else may have forgotten it again.
        found = await coalesce(at.desk, ("tail", end.slots), None, partial(_look, at, end, open_))
        if found is None:
            raise CellUnavailableError("the end of the log changes faster than it can be read")
        return cast(T, found)
    return tail


async def _look(
    at: AppendGround, end: LogEnd[T], open_: Open, waiting: list[object]
) -> list[object | Exception]:
    tail = end.tail
    if tail is None or not await _read_on(at, end, tail):
        end.tail = tail = None
        for _ in range(_OPEN_ATTEMPTS_MAX):
            if await open_():
                tail = end.tail
                break
    return [tail] * len(waiting)


async def _read_on(at: AppendGround, end: LogEnd[T], tail: T) -> bool:
    """Read what was appended meanwhile; False where the last slot is no more, or past its `x`."""
    known = tail.number
    after = known - 1
    while True:
        asked_us = at.cell.now_us()
        items = await at.cell.query(end.slots, after=keys.be64(max(0, after)), limit=QUERY_PAGE)
        if after < known and (not items or keys.slot_of(items[0].key.sort) != known):
            return False
        for item in items:
            tail.take_over(item)
        if is_last_page(items):
            tail.seen_us, tail.unsure = asked_us, False
            return not is_past(tail.expires_s, asked_us)
        after = known = tail.number


def is_past(expires_s: int, now_us: int) -> bool:
    """Whether what was behind such a slot may have been removed: nobody knows of it any more."""
    return expires_s * 1_000_000 <= now_us


def is_last_page(items: list[Item]) -> bool:
    """Whether nothing can have followed a page: it is short, and not because of its size."""
    sizes = (len(body) for item in items if isinstance(body := item.attributes.get("z"), bytes))
    return len(items) < QUERY_PAGE and sum(sizes) < _PAGE_BYTES_SAFE


async def put_next(  # noqa: PLR0913, PLR0917 - a slot, where it goes, and what goes with it
    at: AppendGround,
    end: LogEnd[T],
    tail: T,
    attributes: Attributes,
    tallies: Tallies = no_tallies,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> bool:
    """Store the slot behind the tail; False where another writer was faster.

    What is to be written `beside` it may fail by CellUnavailableError, and is due again then.
    Raises CellUnavailableError; then the slot may have been stored, and whoever appends next reads
    on before.
    """
    key = end.slot_key(tail.following)
    if not _is_next(end, tail, key):
        return False
    if at.bodies is not None:
        attributes = await at.bodies.put_slot_apart(key, attributes, at.now_us())
        if not _is_next(end, tail, key):
            return False
    tail.unsure = True
    asked_us = at.cell.now_us()
    put = at.cell.put(key, attributes, ITEM_ABSENT, tallies)
    written = await put if beside is None else await _both(at, put, beside())
    if not written.applied and (written.before or {}).get("w") != attributes["w"]:
        return False
    came_us = written.time_ms * 1000
    if came_us >= tail.expires_s * 1_000_000 or came_us - tail.seen_us > APPEND_AGE_US_MAX:
        # Others may hold the slot for one that was collected.
        end.tail = None
        raise CellUnavailableError("the slot was stored too late to count")
    tail.take_over(Item(key, attributes))
    tail.seen_us, tail.unsure = max(tail.seen_us, asked_us), False
    return True


def _is_next(end: LogEnd[T], tail: T, key: Key) -> bool:
    """Whether this slot still is the next one, as far as this front end knows."""
    return end.tail is tail and not tail.unsure and end.slot_key(tail.following) == key


async def _both(at: AppendGround, put: Awaitable[Written], beside: Awaitable[None]) -> Written:
    stored, other = await at.desk.waits.all_of([put, beside])
    if isinstance(other, Exception) and not isinstance(other, CellUnavailableError):
        raise other
    if isinstance(stored, Exception):
        raise stored
    return cast(Written, stored)
