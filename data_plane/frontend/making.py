"""How much is held for long answers that are still to be encoded, for each account."""

from typing import Final

from data_plane.core.deadline import deadline_us
from data_plane.core.limits import ANSWERS_MADE_BYTES_MAX
from data_plane.core.long_answers import AnswerRoom
from data_plane.frontend.exchange import Exchange
from data_plane.ports import Clock, DeadlinePassedError, Waits

_CHANNEL: Final = "answers made"


class Making:
    """Each account has `bytes_max`, or one answer of any length; its other long answers wait.

    So many clients at once that ask for much cost their account time, and nobody memory.
    """

    def __init__(self, clock: Clock, waits: Waits, bytes_max: int = ANSWERS_MADE_BYTES_MAX) -> None:
        self._clock = clock
        self._waits = waits
        self._bytes_max = bytes_max
        self._held: dict[str, int] = {}
        self._waiting: dict[str, int] = {}

    def room(self, exchange: Exchange) -> AnswerRoom:
        """That of a request, which leaves it when its answer is encoded."""
        return _Room(self, exchange)

    async def wait_for(self, account: str, size_bytes: int) -> None:
        """Return when there is room for so much. Raises DeadlinePassedError."""
        if not self.has_room(account, size_bytes):
            await self._wait_for(account, size_bytes)

    def has_room(self, account: str, size_bytes: int) -> bool:
        """Whether so much more fits, and nobody waits for that."""
        return self._fits(account, size_bytes) and not self._waiting.get(account)

    def take(self, account: str, size_bytes: int) -> None:
        """Count so much more."""
        self._held[account] = self._held.get(account, 0) + size_bytes

    def leave(self, account: str, size_bytes: int) -> None:
        """So much of what was taken is not held any more."""
        self._held[account] -= size_bytes
        if not self._held[account]:
            del self._held[account]
        self._wake(account)

    async def _wait_for(self, account: str, size_bytes: int) -> None:
        seen = self._waits.signals((_CHANNEL, account))
        self._waiting[account] = self._waiting.get(account, 0) + 1
        until_us = deadline_us()
        try:
            while until_us is not None:
                goes_on = await self._waits.wait_for((_CHANNEL, account), seen, until_us)
                seen = self._waits.signals((_CHANNEL, account))
                if self._fits(account, size_bytes) or not goes_on:
                    return
                if self._clock.now_us() >= until_us:
                    raise DeadlinePassedError("too many long answers of the account are under way")
        finally:
            self._waiting[account] -= 1
            if not self._waiting[account]:
                del self._waiting[account]
            self._wake(account)  # There may be room for another one, too.

    def _fits(self, account: str, size_bytes: int) -> bool:
        held = self._held.get(account, 0)
        return not held or held + size_bytes <= self._bytes_max

    def _wake(self, account: str) -> None:
        if self._waiting.get(account) and self._fits(account, 0):
            self._waits.signal((_CHANNEL, account))


class _Room:
    """What one request holds. Its account is known when it reads."""

    def __init__(self, making: Making, exchange: Exchange) -> None:
        self._making = making
        self._exchange = exchange
        self._held_bytes = 0

    async def take(self, size_bytes: int) -> None:
        if not self.take_now(size_bytes):
            await self._making.wait_for(self._exchange.account, size_bytes)
            self._take(size_bytes)

    def take_now(self, size_bytes: int) -> bool:
        # Who holds something waits no more: two that wait for each other would wait for ever.
        has_room = self._held_bytes or self._making.has_room(self._exchange.account, size_bytes)
        if has_room:
            self._take(size_bytes)
        return bool(has_room)

    def _take(self, size_bytes: int) -> None:
        self._making.take(self._exchange.account, size_bytes)
        self._held_bytes += size_bytes

    def leave(self) -> None:
        if self._held_bytes:
            self._making.leave(self._exchange.account, self._held_bytes)
            self._held_bytes = 0
