"""Asks for a cell's file and disk on the thread that commits, and when a full one is tried."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from data_plane.ports import CellUnavailableError, Clock

T = TypeVar("T")

TRY_EVERY_US: Final = 1_000_000
"""To try a disk that is full takes longer than most writes do."""


class RoomTries:
    """When it is time to try whether a disk that was full has room again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tried_us = 0

    def are_due(self) -> bool:
        """Whether it is; who is told so tries."""
        now_us = self._clock.now_us()
        if abs(now_us - self._tried_us) < TRY_EVERY_US:
            return False
        self._tried_us = now_us
        return True


async def asked_on(hand_over: Callable[[Callable[[], None]], None], look: Callable[[], T]) -> T:
    """What `look` answers there, behind what was handed over before.

    Raises CellUnavailableError where it raises OSError.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def answered(tell: Callable[[], None]) -> None:
        if not answer.done():
            tell()

    def ask() -> None:
        try:
            tell = partial(answer.set_result, look())
        except OSError as raised:
            error = CellUnavailableError(f"the disk cannot be read: {raised}")
            tell = partial(answer.set_exception, error)
        loop.call_soon_threadsafe(answered, tell)

    hand_over(ask)
    return await answer
