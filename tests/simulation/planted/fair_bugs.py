"""Planted bugs of fair lanes; see bugs.py. They show only where messages have groups."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from data_plane.bag import deleting, fair, sending
from data_plane.bag.calls import CallPart
from data_plane.bag.desk import Access, Desk, open_lane
from data_plane.bag.lane import Lane
from data_plane.bag.lanes import QueueLanes
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from tests.simulation.plan import make_plan
from tests.simulation.planted import PlantedBug

DELIVERED = frozenset({"acknowledged is delivered"})
DELETED = frozenset({"deletes last"})
REPEATS = frozenset({"repeats are stored once"})

_look_back = sending._look_back


def _has_groups(seed: int) -> bool:
    return make_plan(seed).groups > 0


GroupBug: Final = partial(PlantedBug, fit=_has_groups)


async def _announce_here(at: Access, deepest: int) -> None:
    at.lanes.use(deepest)


def _own_lane_alone(desk: Desk, queue: Queue, handles: Iterable[ReceiptHandle]) -> Any:
    return {handle.lane: open_lane(desk, queue) for handle in handles}


async def _look_back_in_the_quiet_lane(at: Access, *rest: Any) -> dict[int, bytes]:
    return await _look_back(at, *rest) if at.lane.number == 0 else {}


def _name_of_the_call(part: CallPart) -> bytes:
    return part.call


def _nothing_aside(_lane: Lane, _queue: Queue, _count: int, _now_us: int) -> list[Any]:
    return []


def _quiet_lane_alone(_lanes: QueueLanes) -> int:
    return 0


FAIR_BUGS: Final = (
    GroupBug("lanes not announced", DELIVERED, ((fair, "_announce", _announce_here),)),
    GroupBug(
        "only the quiet lane is read",
        DELIVERED,
        ((QueueLanes, "deepest", property(_quiet_lane_alone)),),
    ),
    GroupBug(
        "what was put aside stays there",
        DELIVERED,
        ((Lane, "take_aside", _nothing_aside),),
        first=30,
    ),
    GroupBug("deletes in the quiet lane", DELETED, ((deleting, "open_lanes_of", _own_lane_alone),)),
    GroupBug(
        "earlier attempts looked for in the quiet lane",
        REPEATS,
        ((sending, "_look_back", _look_back_in_the_quiet_lane),),
        first=38,
    ),
    GroupBug(
        "a part of a call named as the whole",
        REPEATS,
        ((CallPart, "name", property(_name_of_the_call)),),
        first=38,
    ),
)
