"""Looks for items whose time to live (`x`) is over, a few at a time."""

import asyncio
from collections.abc import Callable
from typing import Final

from data_plane.embedded.encoding import time_to_live_s
from data_plane.embedded.store import Store

_LOOKED_AT_ONCE: Final = 50
_LOOK_PAUSE_S: Final = 0.01
"""Between looks for items whose time is over. Each step of LMDB's cursor gives up the interpreter,
and waits until other threads do: a thousand on end hold up requests for tens of milliseconds."""


class DeadItems:
    """Walks over all items of a store, again and again."""

    def __init__(self) -> None:
        self._walked_to = b""

    async def among_next(self, store: Callable[[], Store], now_s: int, count: int) -> list[bytes]:
        """Stored keys of those among the next `count` items, or as many as are left of this walk.

        `store` is asked before each look, and raises where there is none any more.
        """
        dead: list[bytes] = []
        while count > 0:
            looked_at = min(count, _LOOKED_AT_ONCE)
            dead += self._look(store(), now_s, looked_at)
            count -= looked_at
            if not self._walked_to:
                break
            if count > 0:
                await asyncio.sleep(_LOOK_PAUSE_S)
        return dead

    def _look(self, store: Store, now_s: int, count: int) -> list[bytes]:
        dead: list[bytes] = []
        for seen, (key, stored) in enumerate(store.scan(self._walked_to), start=1):
            self._walked_to = key
            if 0 < time_to_live_s(stored) < now_s:
                dead.append(key)
            if seen == count:
                return dead
        self._walked_to = b""
        return dead
