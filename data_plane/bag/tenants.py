"""What one front end knows of a standard queue's message groups, its tenants.

It decides into which lane a group's messages go (docs/storage.md, "Fair lanes"). All of it is
bounded and may be forgotten: a wrong lane costs order, never messages.
"""

from collections import Counter, OrderedDict
from typing import NamedTuple

from data_plane.bag.bounds import (
    DEEPER_LANE_FACTOR,
    DELAYED_BEHIND_US,
    DELIVERIES_WATCHED_MAX,
    GROUP_SHARE,
    GROUP_WAITING_MIN,
    GROUPS_COUNTED_MAX,
    GROUPS_PLACED_MAX,
    NOISY_FOR_US,
    RECENT_US,
    TELL_AGAIN_US,
)
from data_plane.core.digests import TAG_BYTES, group_tag
from data_plane.core.queue import Queue
from data_plane.stored.bounds import FAIR_LANES

NO_TAG = bytes(TAG_BYTES)
DEEPEST = FAIR_LANES - 1


def tag_of(queue: Queue, group: str) -> bytes:
    """A group as segments and hints name it; `NO_TAG` for a message without one."""
    return group_tag(queue, group) if group else NO_TAG


class LanePlacement(NamedTuple):
    """A group has messages waiting in this lane, the latest of them at this slice."""

    lane: int
    until_us: int


class Heavy:
    """Amounts by group of those that have most (Misra and Gries): never above the truth.

    What is missing of an amount is at most the sum of all through `GROUPS_COUNTED_MAX`.
    """

    __slots__ = ("amounts", "total")

    def __init__(self) -> None:
        self.amounts: dict[bytes, int] = {}
        self.total = 0

    def add(self, tag: bytes, amount: int) -> None:
        """Count an amount, of a group or of none."""
        self.total += amount
        if tag == NO_TAG:
            return
        known = self.amounts.get(tag, 0)
        if not known and len(self.amounts) >= GROUPS_COUNTED_MAX:
            least = min(amount, *self.amounts.values())
            self.amounts = {t: a - least for t, a in self.amounts.items() if a > least}
            amount -= least
        if amount:
            self.amounts[tag] = known + amount

    def of(self, tag: bytes) -> int:
        """What is known of the group's amount."""
        return self.amounts.get(tag, 0)


class Waiting:
    """How many messages were sent to a lane, by group, and are not known to be handed out.

    In two generations, of which the earlier one is forgotten when all of it was handed out: so a
    count is above the truth by at most what was handed out of one generation.
    """

    __slots__ = ("_earlier", "_earlier_until_us", "_latest", "_latest_until_us")

    def __init__(self) -> None:
        self._earlier, self._earlier_until_us = Heavy(), 0
        self._latest, self._latest_until_us = Heavy(), 0

    def add(self, tag: bytes, amount: int, slice_us: int) -> None:
        """Messages were sent that are visible from `slice_us` on."""
        self._latest.add(tag, amount)
        self._latest_until_us = max(self._latest_until_us, slice_us)

    def of(self, tag: bytes) -> int:
        """How many messages of the group are waiting."""
        return self._earlier.of(tag) + self._latest.of(tag)

    def handed_out(self, passed_us: int) -> None:
        """All messages up to this slice were handed out."""
        for _ in range(2):
            if self._earlier_until_us <= passed_us and (self._earlier.total or self._latest.total):
                self._earlier, self._earlier_until_us = self._latest, self._latest_until_us
                self._latest, self._latest_until_us = Heavy(), 0


class _Delivery(NamedTuple):
    """A message in flight: its group, since when, and until when at the latest."""

    tag: bytes
    leased_ms: int
    visible_ms: int


Place = tuple[int, bytes, int]
"""Of a message: lane, block, index."""


class Consumption:
    """What consumers have in flight, and had: SQS's measure of who is noisy."""

    def __init__(self) -> None:
        self._in_flight: OrderedDict[Place, _Delivery] = OrderedDict()
        self._held: Counter[bytes] = Counter()
        self._spent, self._spent_before = Heavy(), Heavy()
        self._spent_since_ms = 0

    @property
    def in_flight(self) -> int:
        """Messages in flight, as far as they are watched."""
        return len(self._in_flight)

    def delivered(self, place: Place, tag: bytes, leased_ms: int, visible_ms: int) -> None:
        """A message was handed to a consumer."""
        self._drop(place)
        self._in_flight[place] = _Delivery(tag, leased_ms, visible_ms)
        self._held[tag] += 1
        while len(self._in_flight) > DELIVERIES_WATCHED_MAX:
            self._drop(next(iter(self._in_flight)))

    def changed(self, place: Place, visible_ms: int, now_ms: int) -> None:
        """A consumer keeps its message until then."""
        known = self._in_flight.get(place)
        if known is not None:
            self._in_flight[place] = known._replace(visible_ms=visible_ms)
            if visible_ms <= now_ms:
                self.finished(place, now_ms)

    def finished(self, place: Place, now_ms: int) -> None:
        """A consumer is done with a message."""
        known = self._in_flight.get(place)
        if known is None:
            return
        self._drop(place)
        if now_ms - self._spent_since_ms > RECENT_US // 1000:
            is_next = now_ms - self._spent_since_ms <= 2 * RECENT_US // 1000
            self._spent_before = self._spent if is_next else Heavy()
            self._spent, self._spent_since_ms = Heavy(), now_ms
        until_ms = min(now_ms, known.visible_ms)
        self._spent.add(known.tag, max(0, until_ms - known.leased_ms))

    def forget_ended(self, now_ms: int) -> None:
        """Let go of the oldest deliveries whose visibility has ended."""
        while self._in_flight:
            place, oldest = next(iter(self._in_flight.items()))
            if oldest.visible_ms > now_ms:
                return
            self.finished(place, now_ms)

    def is_noisy(self, tag: bytes) -> bool:
        """Whether the group has more than its share, by SQS's thresholds."""
        held = self._held[tag]
        if held >= GROUP_WAITING_MIN and held * GROUP_SHARE > len(self._in_flight):
            return True
        spent = self._spent.of(tag) + self._spent_before.of(tag)
        return spent * GROUP_SHARE > self._spent.total + self._spent_before.total

    def _drop(self, place: Place) -> None:
        known = self._in_flight.pop(place, None)
        if known is not None:
            self._held[known.tag] -= 1
            if not self._held[known.tag]:
                del self._held[known.tag]


class Tenants:
    """See the module's docstring. No method awaits.

    `known_us` is when this front end has last asked what others know. `passed_us` is, by lane, up
    to which slice all messages were handed out; lanes beyond `deepest` are empty up to the present.
    """

    def __init__(self) -> None:
        self.known_us = 0
        self.consumption = Consumption()
        self.passed_us = [0] * FAIR_LANES
        self.deepest = 0
        self.present_us = 0
        self.untold: dict[bytes, LanePlacement] = {}
        self._stored: dict[bytes, LanePlacement] = {}
        self._told_us: OrderedDict[bytes, int] = OrderedDict()
        self._placed: OrderedDict[bytes, LanePlacement] = OrderedDict()
        self._waiting = [Waiting() for _ in range(DEEPEST)]
        self._delayed = [Waiting() for _ in range(DEEPEST)]

    # Placing

    def lane_for(self, tag: bytes, amount: int, slice_us: int, *, delayed: bool) -> int:
        """The lane for so many messages of a group; nothing is noted yet."""
        if tag == NO_TAG:
            return 0
        lane = self.lane_of(tag)
        counted = self._delayed if delayed else self._waiting
        while lane < DEEPEST:
            if delayed:
                counted[lane].handed_out(slice_us - DELAYED_BEHIND_US)
            if counted[lane].of(tag) + amount <= self._waiting_max(lane):
                break
            lane += 1
        return lane

    def _waiting_max(self, lane: int) -> int:
        quiet_max = max(GROUP_WAITING_MIN, self.consumption.in_flight // GROUP_SHARE)
        return quiet_max if lane == 0 else quiet_max * DEEPER_LANE_FACTOR

    def place(  # noqa: PLR0913 - a placing is these facts
        self, tag: bytes, amount: int, lane: int, slice_us: int, now_us: int, *, delayed: bool
    ) -> None:
        """Messages of a group are being sent to a lane."""
        if lane < DEEPEST:
            (self._delayed if delayed else self._waiting)[lane].add(tag, amount, slice_us)
        if lane:
            self._note(tag, LanePlacement(lane, slice_us), now_us)

    def lane_of(self, tag: bytes) -> int:
        """The lane in which the group has messages waiting behind which others should queue."""
        placed = self._placed.get(tag)
        if placed is None:
            return 0
        if self._is_over(placed):
            del self._placed[tag]
            return 0
        return placed.lane

    def _is_over(self, placement: LanePlacement) -> bool:
        lane = placement.lane
        passed_us = self.passed_us[lane] if lane <= self.deepest else self.present_us
        return placement.until_us <= passed_us

    def is_aside(self, tag: bytes) -> bool:
        """Whether messages of the group should let those of others pass."""
        return tag != NO_TAG and self.lane_of(tag) > 0

    def _note(self, tag: bytes, placement: LanePlacement, now_us: int) -> None:
        self.lane_of(tag)  # lets go of what is over
        known = self._placed.get(tag)
        self._remember(tag, placement)
        told_us = self._told_us.get(tag, 0)
        if known is None or known.lane != placement.lane or now_us - told_us >= TELL_AGAIN_US:
            self.untold[tag] = self._placed[tag]

    def _remember(self, tag: bytes, placement: LanePlacement) -> None:
        """Keep the deeper lane; in the same one the later slice."""
        self._placed[tag] = max(placement, self._placed.get(tag, placement))
        self._placed.move_to_end(tag)
        while len(self._placed) > GROUPS_PLACED_MAX:
            self._placed.popitem(last=False)

    # Handing out

    def handed_out(self, lane: int, passed_us: int) -> None:
        """All messages of the lane up to this slice were handed out."""
        if passed_us <= self.passed_us[lane]:
            return
        self.passed_us[lane] = passed_us
        if lane < DEEPEST:
            self._waiting[lane].handed_out(passed_us)

    def noticed(self, tag: bytes, now_us: int) -> None:
        """A message of this group has waited and is being handed out: is the group noisy?"""
        if tag == NO_TAG or not self.consumption.is_noisy(tag):
            return
        placed = self._placed.get(tag)
        if placed is None or placed == (1, placed.until_us):
            left_us = placed.until_us - now_us if placed else 0
            if left_us < NOISY_FOR_US - TELL_AGAIN_US:
                self._note(tag, LanePlacement(1, now_us + NOISY_FOR_US), now_us)

    # Telling

    def take_untold(self, most: int) -> tuple[dict[bytes, LanePlacement], list[bytes]]:
        """What others do not know, and what is obsolete, so that `most` placements are stored."""
        untold, self.untold = self.untold, {}
        obsolete = [
            tag
            for tag, placement in self._stored.items()
            if tag not in untold and self._is_over(placement)
        ]
        for tag in obsolete:
            del self._stored[tag]
        room = most - len(self._stored.keys() - untold.keys())
        return dict(list(untold.items())[: max(0, room)]), obsolete

    def told(self, placements: dict[bytes, LanePlacement], now_us: int) -> None:
        """Others may know of these placements now."""
        self._stored |= placements
        for tag in placements:
            self._told_us[tag] = now_us
            self._told_us.move_to_end(tag)
        while len(self._told_us) > GROUPS_PLACED_MAX:
            self._told_us.popitem(last=False)

    def learn(self, placements: dict[bytes, LanePlacement]) -> None:
        """What other front ends have told."""
        self._stored = dict(placements)
        for tag, placement in placements.items():
            self.lane_of(tag)
            if not self._is_over(placement):
                self._remember(tag, placement)
