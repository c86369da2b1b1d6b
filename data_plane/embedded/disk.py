"""Asks for a cell's file and disk on the thread that commits."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from data_plane.ports import CellUnavailableError

T = TypeVar("T")


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
