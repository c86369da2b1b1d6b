"""Planted bugs of FIFO queues' logs, those of writers: slots, stamps, duplicates, generations."""

from functools import partial
from typing import Any, Final

from data_plane.core.digests import deduplication_hash
from data_plane.core.queue import Queue
from data_plane.log import appending, ends, generations, receiving, sending, tails, upkeep, window
from data_plane.log.desk import Access
from data_plane.log.generations import Inherited
from data_plane.log.partition import Tail
from data_plane.log.slots import START, Slot, common_attributes
from data_plane.log.window import Original, Window
from data_plane.ports import (
    ALWAYS,
    ITEM_ABSENT,
    Attributes,
    CellUnavailableError,
    Item,
    Tallies,
    Value,
    no_tallies,
)
from data_plane.stored.segment import number
from tests.simulation.fifo.plan import make_fifo_plan
from tests.simulation.fifo.universe import run
from tests.simulation.planted import PlantedBug

SLOTS = frozenset({"slots are written once"})
DELIVERED = frozenset({"acknowledged is delivered"})
ONCE = frozenset({"duplicates are stored once"})
ALIKE = frozenset({"duplicates are answered alike"})
HELD = frozenset({"a group is held"})
ORDER = frozenset({"groups stay in order"})
BUDGETS = frozenset({"budgets are kept"})

NEVER: Final = 1 << 62

_put_next = appending.put_next
_place = appending.place
_begin = tails._begin
_current = tails.current
_inherited = generations.inherited
_pack_after = Window.pack_after
_find = Window.find


FifoBug: Final = partial(PlantedBug, run=run)


def _ages_are_real(seed: int) -> bool:
    """The universe leaves the bounds on ages alone."""
    return make_fifo_plan(seed).haste == 1


# Slots


def _never_past(_expires_s: int, _now_us: int) -> bool:
    return False


def _place_by_own_retention(
    at: Access, tail: Tail, kind: str, nonce: bytes, stamp_us: int
) -> dict[str, Value]:
    return {**_place(at, tail, kind, nonce, stamp_us), "x": at.slot_ttl_s(stamp_us)}


async def _begin_at_the_first_slot(at: Access, last: Slot | None) -> None:
    partition, cell = at.partition, at.cell
    start = last.number + 1 if last is not None else 1
    stamp_us = max(cell.now_us(), last.stamp_us + 1 if last is not None else 0)
    record = common_attributes(START, at.desk.new_token(), stamp_us, at.slot_ttl_s(stamp_us))
    block = {"b": start, "i": 64, "n": 0}
    await cell.put(partition.slot_key(start), {**record, **block}, ITEM_ABSENT)


async def _counted_whenever_it_came(
    at: Access, tail: Tail, attributes: Attributes, tallies: Tallies = no_tallies
) -> bool:
    key = at.partition.slot_key(tail.last.number + 1)
    try:
        return await _put_next(at, tail, attributes, tallies)
    except CellUnavailableError as error:
        if "too late" not in str(error):
            raise
        tail.take_over(Item(key, attributes))
        tail.unsure = False
        at.partition.tail = tail
        return True


async def _failed_is_passed_over(
    at: Access, tail: Tail, attributes: Attributes, tallies: Tallies = no_tallies
) -> bool:
    try:
        return await _put_next(at, tail, attributes, tallies)
    except CellUnavailableError:
        if at.partition.tail is tail:
            key = at.partition.slot_key(tail.last.number + 1)
            tail.take_over(Item(key, attributes))
            tail.unsure = False
        raise


async def _failed_is_acknowledged(
    at: Access, tail: Tail, attributes: Attributes, tallies: Tallies = no_tallies
) -> bool:
    try:
        return await _put_next(at, tail, attributes, tallies)
    except CellUnavailableError:
        return True


# Duplicates


async def _walked_past(
    at: Access, tail: Tail, attributes: Attributes, tallies: Tallies = no_tallies
) -> bool:
    """What took the slot, the own write maybe, is not looked at: the next one is tried."""
    stored = await _put_next(at, tail, attributes, tallies)
    if not stored and at.partition.tail is tail:
        tail.last = tail.last._replace(number=tail.last.number + 1)
        tail.unsure = False
    return stored


async def _no_pages(_at: Access, _newest: list[Item], _window_us: int) -> list[Item]:
    return []


def _pack_with_a_gap(self: Window, stamp_us: int) -> bytes:
    return _pack_after(self, stamp_us)[window._ENTRY.size :]


def _no_purge(_self: Window, _stamp_us: int) -> None:
    return None


def _number_without_purge(item: Attributes, name: str) -> int:
    return 0 if name == "p" else number(item, name)


def _find_unpurged(self: Window, hashed: bytes, stamp_us: int, _purged_us: int) -> Original | None:
    return _find(self, hashed, stamp_us, 0)


def _hash_without_scope(queue: Queue, _scope: str, deduplication_id: str) -> bytes:
    return deduplication_hash(queue, "", deduplication_id)


# Generations


async def _not_ended(at: Access, _following: object) -> Tail:
    return await _current(at)


async def _nothing_inherited(at: Access) -> Inherited:
    await _inherited(at)
    return []


async def _inherited_from_the_last(at: Access) -> Inherited:
    """Ends, and looks into, the generation before alone."""
    earlier = at.desk.generations(at.queue)
    kept = [one for one in earlier if one.number < at.partition.generation][-1:]
    if not kept:
        return []
    following = next(one for one in earlier if one.number == at.partition.generation)
    found: Inherited = []
    for number_ in range(kept[0].partitions):
        partition = at.desk.partition(at.queue, number_, kept[0].number)
        tail = await generations.ended(Access(at.desk, at.queue, partition), following)
        at.partition.stamp_us_min = max(at.partition.stamp_us_min, tail.last.stamp_us + 1)
        found.append((tail.window, number_))
    return found


# Upkeep, budgets


async def _restamp_nothing(_desk: object, _queue: Queue) -> None:
    return None


async def _look_before_each_append(at: Access) -> Tail:
    tail = at.partition.tail
    if tail is not None:
        tail.unsure = True
    return await _current(at)


def _is_sequential(seed: int) -> bool:
    return make_fifo_plan(seed).sequential


def _put(wrong: Any) -> tuple[tuple[Any, str, Any], ...]:
    return ((appending, "put_next", wrong), (sending, "put_next", wrong))


LOG_BUGS: Final = (
    FifoBug(
        "a slot taken for another's is overwritten",
        SLOTS,
        ((ends, "ITEM_ABSENT", ALWAYS),),
        first=5,
    ),
    FifoBug(
        "a log goes on where its last slot is past its time",
        SLOTS,
        (
            (ends, "is_past", _never_past),
            *_put(_counted_whenever_it_came),
        ),
        first=17,
    ),
    FifoBug(
        "the time to live of slots falls",
        SLOTS,
        (
            (appending, "place", _place_by_own_retention),
            (sending, "place", _place_by_own_retention),
        ),
    ),
    FifoBug(
        "a log begins where it had begun", SLOTS, ((tails, "_begin", _begin_at_the_first_slot),)
    ),
    FifoBug(
        "the slot of a failed append is passed over",
        SLOTS | ONCE,
        _put(_failed_is_passed_over),
        first=9,
    ),
    FifoBug("a failed append is acknowledged", DELIVERED, _put(_failed_is_acknowledged), first=9),
    FifoBug("a lost race is walked past", ONCE, _put(_walked_past), first=5),
    FifoBug("deduplication pages are not read", ONCE, ((tails, "_pages", _no_pages),), first=2),
    FifoBug(
        "a deduplication page has a gap", ONCE, ((Window, "pack_after", _pack_with_a_gap),), first=2
    ),
    FifoBug("a purge forgets no duplicates", ALIKE, ((Window, "purge", _no_purge),), first=54),
    FifoBug(
        "pages and definitions forget the purge",
        ALIKE,
        ((tails, "number", _number_without_purge), (Window, "find", _find_unpurged)),
        first=526,
    ),
    FifoBug(
        "duplicates are none after a second",
        ONCE,
        ((window, "WINDOW_US", 1_000_000),),
        fit=_ages_are_real,
    ),
    FifoBug(
        "duplicates are some for ever",
        ALIKE,
        tuple((where, "WINDOW_US", 1 << 50) for where in (window, tails, generations)),
        26,
        _ages_are_real,
    ),
    FifoBug(
        "the group is not in the scope",
        ALIKE,
        ((sending, "deduplication_hash", _hash_without_scope),),
        first=15,
    ),
    FifoBug(
        "a log has no end",
        HELD | ORDER | ONCE | DELIVERED,
        ((generations, "ended", _not_ended), (receiving, "ended", _not_ended)),
    ),
    FifoBug(
        "duplicates in earlier generations are forgotten",
        ONCE,
        ((generations, "inherited", _nothing_inherited),),
        first=8,
    ),
    FifoBug(
        "the generation before the last goes on",
        ONCE | HELD,
        ((generations, "inherited", _inherited_from_the_last),),
        first=21,
    ),
    FifoBug(
        "a raised retention keeps nothing",
        DELIVERED,
        ((upkeep, "restamp", _restamp_nothing),),
        first=21,
    ),
    FifoBug(
        "the end of the log is read before each append",
        BUDGETS,
        ((tails, "current", _look_before_each_append),),
        fit=_is_sequential,
    ),
)
