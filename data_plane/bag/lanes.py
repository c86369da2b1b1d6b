"""A queue's lanes in one front end: those that are in use, and what is known of all of them."""

from collections.abc import Iterator

from data_plane.bag.lane import Lane
from data_plane.bag.tenants import Tenants
from data_plane.core.eras import ONE_TIME, Eras
from data_plane.core.queue import Queue
from data_plane.stored.bounds import FAIR_LANES
from data_plane.stored.in_flight import InFlight
from data_plane.stored.shelf import Shelf


class QueueLanes:
    """See the module's docstring.

    Lanes up to `announced` need no announcement by this front end. Those that were announced before
    `learnt_us`, by the cell's time, are known. `tenants` is None as long as it
    has met no message group. `decider` is the member that decided what is remembered, of several.
    What has expired is decided by `eras`, and by `queue`, the newest definition that was met,
    whatever a request says. What they have at hand lies on a `shelf`.
    """

    def __init__(
        self,
        queue: Queue,
        writer: bytes,
        decider: str = "",
        eras: Eras = ONE_TIME,
        shelf: Shelf | None = None,
    ) -> None:
        self.queue = queue
        self.uid = queue.uid
        self.cell = queue.cell
        self.decider = decider
        self.eras = eras
        self.dropped = False
        self.announced = 0
        self.learnt_us = 0
        self.in_flight = InFlight()
        self.tenants: Tenants | None = None
        self.progress_told_us = 0
        self.has_progress = False
        self._deepest = 0
        self._writer = writer
        self._shelf = shelf or Shelf()
        self._lanes = [Lane(queue, writer, 0, eras, self._shelf)]
        self._lanes[0].is_aside = self._is_aside

    def newest(self, queue: Queue) -> Queue:
        """This definition of the queue, or the one that is known here if that is newer.

        A call that began with an older one must not decide by it what has expired: what is passed
        over so is gone for good.
        """
        return queue if queue.version >= self.queue.version else self.queue

    def __iter__(self) -> Iterator[Lane]:
        """The lanes that this front end has to do with, from the quiet one on."""
        return iter(self._lanes)

    @property
    def deepest(self) -> int:
        """The number of the last lane in use, as far as it is known."""
        return max(self._deepest, self._lanes[0].lanes_told)

    def lane(self, number: int) -> Lane:
        """A lane, below `FAIR_LANES`."""
        if not 0 <= number < FAIR_LANES:
            raise ValueError(f"a queue has no lane {number}")
        while len(self._lanes) <= number:
            number_ = len(self._lanes)
            self._lanes.append(Lane(self.queue, self._writer, number_, self.eras, self._shelf))
        return self._lanes[number]

    def leave_shelf(self) -> None:
        """Nobody receives from here any more."""
        for lane in self._lanes:
            self._shelf.forget(lane.held)

    def use(self, number: int) -> None:
        """Lanes up to this one are in use."""
        self._deepest = max(self._deepest, number)

    def known_tenants(self) -> Tenants:
        """What is known of the queue's groups, from now on."""
        if self.tenants is None:
            self.tenants = Tenants()
        return self.tenants

    def _is_aside(self, tag: bytes) -> bool:
        return self.tenants is not None and self.tenants.is_aside(tag)
