"""Places for calls that block, when there are fewer than are wanted: who gets the next one.

First come, first served would let a store that is slow do nothing of use: every request would wait
with each of its calls, until its time is over in the middle of its work. So who has begun goes
first, and of the others who came last, whose time has only begun. While not all get a place for
longer, who has not begun is told soon, for nothing is lost by that.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

CROWDED_AFTER_S: Final = 1.0
"""A crowd that waits for so long does not go by itself."""

CROWDED_PATIENCE_S: Final = 0.4
"""Who has not begun then waits for so long. A send that is stored two seconds after its time costs
further writes, and it has still to get there."""


class Turnstile:
    """Lets as many in as `places` says at the time. Belongs to one event loop."""

    def __init__(self, places: Callable[[], int]) -> None:
        self._places = places
        self._taken = 0
        self._begun: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()
        self._crowded_since_s: float | None = None

    async def enter(self, patience_s: float, *, begun: bool) -> None:
        """Take a place, which `leave` gives back. Raises TimeoutError."""
        if self._taken < self._places() and not self._begun and not self._others:
            self._taken += 1
            self._crowded_since_s = None
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if self._crowded_since_s is None:
            self._crowded_since_s = now_s
        elif not begun and now_s - self._crowded_since_s >= CROWDED_AFTER_S:
            patience_s = min(patience_s, CROWDED_PATIENCE_S)
        place: asyncio.Future[None] = loop.create_future()
        waiting = self._begun if begun else self._others
        waiting.append(place)
        try:
            async with asyncio.timeout(patience_s):
                await place
        except BaseException:
            if place.done() and not place.cancelled():
                self.leave()  # it was given one at the same moment
            else:
                with suppress(ValueError):  # it was passed over already
                    waiting.remove(place)
            raise

    def leave(self) -> None:
        """Give the place to who is next."""
        self._taken -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._taken < self._places():
            if self._begun:
                place = self._begun.popleft()
            elif self._others:
                place = self._others.pop()
            else:
                self._crowded_since_s = None
                return
            if not place.done():
                self._taken += 1
                place.set_result(None)
