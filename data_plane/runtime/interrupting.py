"""Calls on the event loop that are given up once somebody learns that they lead nowhere."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Interrupting:
    """Waits for calls that have a name in common, until they are given up together.

    `given_up` makes the error that those raise. What such a call has sent may still take effect, as
    when its answer does not come.
    """

    def __init__(self, given_up: Callable[[str], Exception]) -> None:
        self._given_up = given_up
        self._calls: dict[str, set[asyncio.Timeout]] = {}

    async def __call__(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """What the call answers or raises, or what `given_up` makes."""
        limit = asyncio.timeout(None)
        calls = self._calls.setdefault(name, set())
        calls.add(limit)
        try:
            async with limit:
                return await call()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise self._given_up(name) from error
        finally:
            calls.discard(limit)

    def give_up(self, name: str) -> None:
        """Let the calls of this name that are under way end now."""
        now_s = asyncio.get_running_loop().time()
        for limit in self._calls.pop(name, ()):
            limit.reschedule(now_s)
