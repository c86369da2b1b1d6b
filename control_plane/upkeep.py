"""Work beside requests: steps that a server repeats, each by itself, until it stops."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from data_plane.http.logs import LogWriter
from data_plane.http.tracebacks import traceback_text
from data_plane.ports import CellUnavailableError

PERIOD_S: Final = 1.0


class Rest(NamedTuple):
    """What a step returns after which the next one is due so much later, instead of its period."""

    seconds: float


class Upkeep:
    """Repeats steps, one not waiting for another; a step that fails is told, and tried again.

    Where it fails for the same reason again that is not told again.
    """

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._repeating: set[asyncio.Task[None]] = set()

    def repeat(
        self,
        step: Callable[[], Awaitable[object]],
        period_s: float = PERIOD_S,
        due: asyncio.Event | None = None,
    ) -> None:
        """Take the step every `period_s`, and at once when `due` is set, which it clears.

        A step that returns a Rest says itself when the next one is due.
        """
        self._repeating.add(asyncio.create_task(self._repeat(step, period_s, due)))

    async def _repeat(
        self, step: Callable[[], Awaitable[object]], period_s: float, due: asyncio.Event | None
    ) -> None:
        told = ""
        wait_s = period_s
        while True:
            if due is None:
                await asyncio.sleep(wait_s)
            else:
                await _set_within(due, wait_s)
                due.clear()
            wait_s = period_s
            try:
                outcome = await step()
                if isinstance(outcome, Rest):
                    wait_s = outcome.seconds
            except CellUnavailableError as error:
                if str(error) != told:
                    self._log.event("warning", "upkeep", error=str(error))
                told = str(error)
            except Exception as error:  # noqa: BLE001 - serving goes on, and the log says it all
                self._log.event("error", "upkeep", traceback=traceback_text(error))

    async def end(self) -> None:
        """Take no more steps; those under way are cut off."""
        for task in self._repeating:
            task.cancel()
        if self._repeating:
            await asyncio.wait(self._repeating)


async def _set_within(due: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await due.wait()
    except TimeoutError:
        return
