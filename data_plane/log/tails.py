"""Knowing the end of a log: opening it cold, reading on, beginning it anew.

Who appends at a slot must have read what lies below it (docs/storage.md, "Slot").
"""

from collections.abc import Awaitable
from functools import partial

from data_plane.log import ends
from data_plane.log.bounds import (
    PAGES_PER_QUERY,
    START_VALID_S,
    WINDOW_US,
)
from data_plane.log.desk import Access
from data_plane.log.partition import Tail
from data_plane.log.slots import PURGE, START, Slot, common_attributes, purged_by, read_slot
from data_plane.log.window import Window
from data_plane.ports import (
    ITEM_ABSENT,
    Absent,
    Attributes,
    Equals,
    Item,
    Update,
)
from data_plane.stored import keys
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.stored.segment import FORMAT_VERSION, number, octets

_BLOCK_FULL = 64
"""A start's index: what follows opens a block of its own."""


async def current(at: Access) -> Tail:
    """The partition's tail, as of at most TAIL_AGE_US_MAX ago. Raises CellUnavailableError."""
    return await ends.current(at, at.partition, partial(_open, at))


def _number(item: Item) -> int:
    return keys.slot_of(item.key.sort)


async def _open(at: Access) -> bool:
    """Learn the tail from the cell alone; False where it had to be begun, or moved meanwhile."""
    partition = at.partition
    asked_us = at.cell.now_us()
    newest, pages = await _both(
        at,
        at.cell.query(partition.slots, limit=QUERY_PAGE, reverse=True),
        at.cell.query(partition.pages, limit=PAGES_PER_QUERY, reverse=True),
    )
    last = read_slot(newest[0]) if newest else None
    if last is None or ends.is_past(last.expires_s, asked_us):
        await _begin(at, last)
        return False
    window_us = partition.eras.before_us(max(last.stamp_us, asked_us), WINDOW_US)
    covered = _number(pages[0]) if pages else 0
    uncovered = await _uncovered(at, newest, covered, window_us)
    older = await _pages(at, pages, window_us)
    window = Window(partition.eras)
    before = 0
    for page in older:
        if not partition.eras.is_plain:
            await _fill_gap(at, window, before, number(page.attributes, "f"), window_us)
        window.purge(number(page.attributes, "p"))
        window.add_page(octets(page.attributes, "z"))
        before = _number(page)
    # A page that is written later must not claim what was not read here.
    below, below_us = last.number, last.stamp_us
    if uncovered:
        below, below_us = uncovered[0].number - 1, uncovered[0].stamp_us - 1
    tail = Tail(last.without_bodies(), window, asked_us, max(covered, below), below_us)
    for slot in uncovered:
        tail.slots += 1
        tail.add_to_window(slot)
    partition.tail = tail
    return True


async def _fill_gap(at: Access, window: Window, page: int, following: int, window_us: int) -> None:
    """Add what lies between a page and the first slot of the following one.

    Who wrote that took it for older than the window, by a clock that was ahead.
    """
    if following <= page + 1:
        return
    until = keys.be64(following - 1)
    newest = await at.cell.query(at.partition.slots, until=until, limit=QUERY_PAGE, reverse=True)
    for slot in await _uncovered(at, newest, page, window_us):
        if slot.kind == PURGE:
            window.purge(purged_by(slot))
        else:
            window.add(slot.stamp_us, slot.messages)


async def _both(at: Access, *calls: Awaitable[list[Item]]) -> list[list[Item]]:
    pages: list[list[Item]] = []
    for outcome in await at.desk.waits.all_of(calls):
        if isinstance(outcome, Exception):
            raise outcome
        pages.append(outcome)
    return pages


async def _uncovered(at: Access, newest: list[Item], covered: int, window_us: int) -> list[Slot]:
    """The slots above the last page that are in the window, oldest first."""
    found: list[Slot] = []
    page = newest
    while page:
        for item in page:
            slot = read_slot(item)
            if slot.number <= covered or slot.stamp_us <= window_us:
                return found[::-1]
            found.append(slot)
        if ends.is_last_page(page):
            break
        page = await at.cell.query(
            at.partition.slots,
            until=keys.be64(found[-1].number - 1),
            limit=QUERY_PAGE,
            reverse=True,
        )
    return found[::-1]


async def _pages(at: Access, newest: list[Item], window_us: int) -> list[Item]:
    """The deduplication pages that reach into the window, oldest first."""
    found: list[Item] = []
    page = newest
    while page:
        for item in page:
            if number(item.attributes, "t") <= window_us:
                return found[::-1]
            found.append(item)
        page = await at.cell.query(
            at.partition.pages,
            until=keys.before(page[-1].key.sort),
            limit=PAGES_PER_QUERY,
            reverse=True,
        )
    return found[::-1]


async def _begin(at: Access, last: Slot | None) -> None:
    """Begin the log anew at a slot above all that were ever used. To be opened again after it."""
    partition, cell = at.partition, at.cell
    mark = await cell.get(partition.low_water_key)
    start, chosen_s = _start_of(mark)
    now_us = cell.now_us()
    if start is None or now_us // 1_000_000 >= chosen_s + START_VALID_S:
        low = keys.slot_of(octets(mark, "w")) if mark is not None and "w" in mark else 0
        above = max(start or 0, low, last.number if last is not None else 0)
        chosen = {"j": max(now_us, above + 1), "s": now_us // 1_000_000}
        written = await cell.update(
            partition.low_water_key,
            Update(assign={"v": FORMAT_VERSION, **chosen}),
            (
                (
                    Absent("j") if start is None else Equals("j", start),
                    Equals("j", chosen["j"]),
                ),
            ),
        )
        if not written.applied:
            return
        start, chosen_s = chosen["j"], chosen["s"]
    stamp_us = max(now_us, last.stamp_us + 1 if last is not None else 0)
    record = common_attributes(START, at.desk.new_token(), stamp_us, at.slot_ttl_s(stamp_us))
    await cell.put(
        partition.slot_key(start),
        {**record, "b": start, "i": _BLOCK_FULL, "n": 0},
        ITEM_ABSENT,
    )


def _start_of(mark: Attributes | None) -> tuple[int | None, int]:
    if mark is None or "j" not in mark:
        return None, 0
    return number(mark, "j"), number(mark, "s")
