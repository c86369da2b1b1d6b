"""A room for answers that notes what it is asked for."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_TURNS = 50


class RoomAskedFor:
    """`taken` has the sizes since it was left last.

    With a `failure` it has none, and where it `is_busy` there is none at once.
    """

    def __init__(self, failure: Exception | None = None, *, is_busy: bool = False) -> None:
        self.taken: list[int] = []
        self.left = 0
        self._failure = failure
        self._is_busy = is_busy

    def take_now(self, size_bytes: int) -> bool:
        if self._is_busy or self._failure is not None:
            return False
        self.taken.append(size_bytes)
        return True

    async def take(self, size_bytes: int) -> None:
        self.taken.append(size_bytes)
        if self._failure is not None:
            raise self._failure

    def leave(self) -> None:
        self.left += sum(self.taken)
        self.taken.clear()


async def let_wait(long_poll: Coroutine[Any, Any, object]) -> None:
    """Begin it, and end it when it has done what it can."""
    waiting = asyncio.create_task(long_poll)
    await let_others_run()
    assert not waiting.done()
    waiting.cancel()


async def let_others_run() -> None:
    """Return when tasks that wait for nothing but each other have done what they can."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
