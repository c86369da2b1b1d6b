"""What is left to do when an invocation has its answer: afterwards nothing runs, perhaps for ever.

A long-lived server does this beside its requests. In a function whatever is not written when the
answer goes is written by the sandbox's next invocation, or never. So what would stay wrong is
written before, and what only costs somebody else a little is written now and then.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from data_plane.core.deadline import deadline_at_most
from data_plane.engine import Engine
from data_plane.ports import Cell, CellUnavailableError, Clock, Key
from data_plane.stored.bodies import BodyStore
from data_plane.stored.counting import is_lasting

FLUSH_PERIOD_US: Final = 10_000_000
"""Counters that are right again by themselves are written so often: many come and go within it."""

SWEEP_PERIOD_US: Final = 60_000_000
"""So often low-water marks follow, beside what receives carry along and what was much to read."""

PATIENCE_US: Final = 500_000
"""An answer waits for so long at most; what was not written stays due."""

LOG: Final = logging.getLogger(__name__)


@runtime_checkable
class Flushing(Protocol):
    """A cell that gathers counters in memory."""

    async def flush(self, is_wanted: Callable[[Key], bool] = ...) -> None:
        """Write those that are wanted, all of them by default. Raises CellUnavailableError."""
        ...


class Closing:
    """One sandbox's part in what a server's upkeep does.

    `ship` tells copies of queues what consumers did, where there are copies, within its own time.
    `mark` notes how far this sandbox's records go, where that is due.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all that is left to do
        self,
        engine: Engine,
        cells: Mapping[str, Cell],
        bodies: Mapping[str, BodyStore],
        clock: Clock,
        ship: Callable[[], Awaitable[None]] | None = None,
        mark: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._engine = engine
        self._ship = ship
        self._mark = mark
        self._cells = [cell for cell in cells.values() if isinstance(cell, Flushing)]
        self._bodies = tuple(bodies.values())
        self._clock = clock
        self._flush_due_us = 0
        self._sweep_due_us = 0

    async def close(self) -> None:
        """Write what must not wait for the next invocation. Fails nobody: it was answered."""
        now_us = self._clock.now_us()
        await _left(self._close(now_us))
        if self._mark is not None:
            with deadline_at_most(now_us + PATIENCE_US):
                await _left(self._mark())

    async def _close(self, now_us: int) -> None:
        if self._ship is not None:
            await self._ship()
        with deadline_at_most(now_us + PATIENCE_US):
            await self._flush(now_us)
            await self._sweep(now_us)

    async def _flush(self, now_us: int) -> None:
        if now_us < self._flush_due_us:
            for cell in self._cells:
                await cell.flush(is_lasting)
            return
        for cell in self._cells:
            await cell.flush()
        self._flush_due_us = now_us + FLUSH_PERIOD_US

    async def _sweep(self, now_us: int) -> None:
        if now_us < self._sweep_due_us and not self._engine.upkeep_is_due:
            return
        await self._engine.sweep()
        for bodies in self._bodies:
            await bodies.delete_unneeded()
        self._sweep_due_us = now_us + SWEEP_PERIOD_US


async def _left(work: Awaitable[None]) -> None:
    """Do it; what fails is left to the next invocation."""
    try:
        await work
    except CellUnavailableError as error:
        LOG.warning("left to the next invocation: %s", error)
    except Exception:
        LOG.exception("closing an invocation")  # the answer stands, and the log says it all
