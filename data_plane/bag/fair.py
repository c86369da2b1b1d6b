"""Fair lanes: which lane the messages of a group go to, and what front ends tell each other.

See docs/storage.md, "Fair lanes".
"""

from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from data_plane.bag import upkeep
from data_plane.bag.block import Block
from data_plane.bag.bounds import (
    GROUPS_TOLD_MAX,
    KNOWN_FOR_US,
    KNOWN_WHILE_OVER_US,
    NOISY_AFTER_US,
    PROGRESS_EVERY_US,
)
from data_plane.bag.desk import Access
from data_plane.bag.tenants import NO_TAG, LanePlacement, Tenants, tag_of
from data_plane.core.message import Delivery, Message
from data_plane.ports import Attributes, Item, Update, Value, is_replicated
from data_plane.stored import keys
from data_plane.stored.bounds import FAIR_LANES
from data_plane.stored.coalescing import coalesce
from data_plane.stored.lease import Lease
from data_plane.stored.low_water import LowWaterMark, read_mark
from data_plane.stored.segment import FORMAT_VERSION, check_version

_TAG_PREFIX = "g"
_PROGRESS = ("r0", "r1", "r2")
_US_PER_S = 1_000_000

assert len(_PROGRESS) == FAIR_LANES  # noqa: S101 - a relation between constants


# Knowing


async def learn(at: Access) -> None:
    """Ask which lanes are in use and where they begin, and what others know of groups.

    One query. Lanes that are not open yet begin at their low-water marks.
    """
    await coalesce(at.desk, ("learn", at.lanes), None, partial(_learn_for_all, at))


async def _learn_for_all(at: Access, askers: list[object]) -> list[object | Exception]:
    asked_us, present_us = at.now_us(), at.cell.now_us()
    items = await at.cell.query(keys.marks(at.lanes.uid), limit=FAIR_LANES + 1)
    lanes, groups = at.lanes, None
    low_water: dict[int, LowWaterMark] = {}
    for item in items:
        check_version(item.attributes)
        if item.key == keys.groups(lanes.uid):
            groups = item.attributes
            continue
        number = _lane_number(item)
        low_water[number] = read_mark(item.attributes, lanes.eras)
        lanes.use(number)
        if item.attributes.get("a") and number == lanes.announced + 1:
            lanes.announced = number
    lanes.learnt_us = present_us
    for number in range(lanes.deepest + 1):
        lane = lanes.lane(number)
        lane.low_known, lane.low_doubted = low_water.get(number, LowWaterMark())
    if groups is not None:
        _learn_groups(at, groups, lanes.known_tenants())
    if lanes.tenants is not None:
        lanes.tenants.known_us = asked_us
    return [None] * len(askers)


def _lane_number(item: Item) -> int:
    return int(item.key.sort.split(b"|")[0], 16)


def _learn_groups(at: Access, item: Attributes, tenants: Tenants) -> None:
    _look_at_progress(at, tenants)
    for lane, name in enumerate(_PROGRESS):
        passed_us = item.get(name)
        if isinstance(passed_us, int):
            tenants.handed_out(lane, passed_us)
    placements: dict[bytes, LanePlacement] = {}
    for name, value in item.items():
        if name[0] == _TAG_PREFIX and isinstance(value, bytes):
            tag = bytes.fromhex(name[1:])
            placements[tag] = LanePlacement(value[0], int.from_bytes(value[1:], "big"))
    tenants.learn(placements)


def _look_at_progress(at: Access, tenants: Tenants) -> None:
    """Take over how far this front end's own receives have come."""
    expired_us = at.lanes.eras.before_us(at.now_us(), at.queue.retention_s * _US_PER_S)
    over_us = max(at.queue.purged_us, expired_us)
    tenants.deepest, tenants.present_us = at.lanes.deepest, at.cell.now_us()
    for number in range(at.lanes.deepest + 1):
        tenants.handed_out(number, max(over_us, at.lanes.lane(number).progress_us()))


# Sending


async def place(at: Access, groups: Sequence[str], delays_s: Sequence[int]) -> list[int]:
    """The lanes for messages of these groups ("": of none), announced where they are new."""
    tags = [tag_of(at.queue, group) for group in groups]
    amounts = Counter(zip(tags, delays_s, strict=True))
    tenants = at.lanes.known_tenants()
    _look_at_progress(at, tenants)
    lanes = _lanes_for(at, tenants, amounts)
    age_us = at.now_us() - tenants.known_us
    known_for_us = KNOWN_WHILE_OVER_US if any(lanes.values()) else KNOWN_FOR_US
    if not 0 <= age_us < known_for_us:
        await learn(at)
        lanes = _lanes_for(at, tenants, amounts)
    for (tag, delay_s), amount in amounts.items():
        # No stamp that is still to come is below this one.
        slice_us = at.cell.now_us() + delay_s * _US_PER_S + 1
        lane = lanes[tag, delay_s]
        tenants.place(tag, amount, lane, slice_us, at.now_us(), delayed=delay_s > 0)
    await _announce(at, max(lanes.values()))
    return [lanes[tag, delay_s] for tag, delay_s in zip(tags, delays_s, strict=True)]


def _lanes_for(
    at: Access, tenants: Tenants, amounts: Counter[tuple[bytes, int]]
) -> dict[tuple[bytes, int], int]:
    present_us = at.cell.now_us()
    return {
        (tag, delay_s): tenants.lane_for(
            tag, amount, present_us + delay_s * _US_PER_S, delayed=delay_s > 0
        )
        for (tag, delay_s), amount in amounts.items()
    }


async def _announce(at: Access, deepest: int) -> None:
    """See that every reader, present or to come, knows of the lanes up to this one."""
    lanes, home = at.lanes, at.in_lane(0)
    for number in range(lanes.announced + 1, deepest + 1):
        key = lanes.lane(number).low_water_key
        await at.cell.update(key, Update(assign={"v": FORMAT_VERSION}))
        if is_replicated(cell := at.cell):
            await cell.share(key)  # who serves next has to know of the lane, too
        await upkeep.append_in_time(
            home,
            at.desk.new_block() + keys.LANE_FIRST,  # two of one moment are not one item
            {"v": FORMAT_VERSION, "k": "n", "l": number, "x": at.state_ttl_s()},
        )
        await at.cell.update(key, Update(assign={"v": FORMAT_VERSION, "a": 1}))
        lanes.use(number)
        lanes.announced = max(lanes.announced, number)


async def announce(at: Access) -> None:
    """See that every reader knows of this lane, as before a send to it."""
    await _announce(at, at.lane.number)


# Receiving


def should_learn(at: Access) -> bool:
    """Whether to ask who is noisy: a message of a group has waited, in the quiet lane."""
    lane = at.lane
    if lane.number or not lane.ready:
        return False
    visible_us, _, block, index = lane.ready[0]
    if block.tags.get(index, NO_TAG) == NO_TAG:
        return False
    known_us = at.lanes.known_tenants().known_us
    is_recent = 0 <= at.now_us() - known_us < KNOWN_WHILE_OVER_US
    return not is_recent and at.now_us() - visible_us >= NOISY_AFTER_US


def look_at_time(at: Access) -> None:
    """By the time it is groups cease to be noisy, also where nothing is sent or asked."""
    if at.lanes.tenants is not None:
        at.lanes.tenants.present_us = at.cell.now_us()


def handed_out(
    at: Access, block: Block, messages: Mapping[int, Message], leases: Mapping[int, Lease]
) -> None:
    """Messages of a block are being handed to a consumer: watch what it does with them."""
    if at.lanes.tenants is None and not any(messages[index].group for index in leases):
        return
    tenants, now_us = at.lanes.known_tenants(), at.now_us()
    tenants.consumption.forget_ended(now_us // 1000)
    for index, new in leases.items():
        tag = tag_of(at.queue, messages[index].group)
        place_ = (at.lane.number, block.id, index)
        tenants.consumption.delivered(place_, tag, new.leased_ms, new.visible_ms)
        waited_us = now_us - block.slices[block.first_of[index]]
        if new.receive_count == 1 and waited_us >= NOISY_AFTER_US:
            tenants.noticed(tag, now_us)
    at.lanes.has_progress = True


def deleted(at: Access, block_id: bytes, indexes: Iterable[int]) -> None:
    """A consumer is done with these messages."""
    if at.lanes.tenants is not None:
        for index in indexes:
            place_ = (at.lane.number, block_id, index)
            at.lanes.tenants.consumption.finished(place_, at.now_ms())


def visibility_changed(at: Access, block_id: bytes, leases: Mapping[int, Lease]) -> None:
    """A consumer keeps these messages for longer, or gives them back."""
    if at.lanes.tenants is not None:
        for index, new in leases.items():
            place_ = (at.lane.number, block_id, index)
            at.lanes.tenants.consumption.changed(place_, new.visible_ms, at.now_ms())


# Telling


def news(at: Access) -> Coroutine[Any, Any, list[Delivery]] | None:
    """What others should know by now, if anything, as a call that delivers nothing."""
    lanes = at.lanes
    if lanes.tenants is None:
        return None
    is_due = abs(at.now_us() - lanes.progress_told_us) >= PROGRESS_EVERY_US
    if lanes.tenants.untold or (lanes.deepest and lanes.has_progress and is_due):
        return _tell(at, lanes.tenants)
    return None


async def _tell(at: Access, tenants: Tenants) -> list[Delivery]:
    """Write the hints: placements that others do not know, and how far lanes were handed out."""
    lanes, now_us = at.lanes, at.now_us()
    _look_at_progress(at, tenants)
    lanes.has_progress, lanes.progress_told_us = False, now_us
    told, obsolete = tenants.take_untold(GROUPS_TOLD_MAX)
    assign: dict[str, Value] = {"v": FORMAT_VERSION, "x": at.state_ttl_s()}
    for number in range(lanes.deepest + 1):
        assign[_PROGRESS[number]] = tenants.passed_us[number]
    for tag, placement in told.items():
        slice_bytes = placement.until_us.to_bytes(8, "big")
        assign[_TAG_PREFIX + tag.hex()] = bytes((placement.lane,)) + slice_bytes
    await at.cell.update(
        keys.groups(lanes.uid),
        Update(assign=assign, remove=frozenset(_TAG_PREFIX + tag.hex() for tag in obsolete)),
    )
    tenants.told(told, now_us)
    return []
