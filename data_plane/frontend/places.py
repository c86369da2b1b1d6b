"""The stage that bounds how many calls are served at a time: of each account, and of all.

Two kinds of places are counted apart. A long poll costs next to nothing while it waits, so its
account's quota bounds it, and a number for all. Every other call has a place while its operation
is performed, and an account gets one only while it holds fewer than are free: alone it may hold
half of them, `n` accounts that want more get one part in `n + 1` each, and whoever comes then finds
as many free. (These are the dynamic thresholds of shared buffers in switches; they need no memory
of who wanted what.)
"""

from collections.abc import Awaitable, Callable
from typing import Final

from data_plane.core.errors import SERVICE_UNAVAILABLE, RefusedError
from data_plane.frontend.deadlines import asked_wait_s
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.refusals import ThrottledError
from data_plane.ports import AccountQuotas

_RETRY_AFTER_US: Final = 1_000_000


class Places:
    """Who has a place now. Without `quotas` (signatures are not verified) all may have the same."""

    def __init__(self, calls_max: int, long_polls_max: int, quotas: AccountQuotas | None) -> None:
        self._calls_max = calls_max
        self._long_polls_max = long_polls_max
        self._quotas = quotas
        self._calls = _Held()
        self._long_polls = _Held()

    @property
    def long_polls(self) -> int:
        """Long polls that have a place now."""
        return self._long_polls.total

    def around(self, perform: Callable[[Exchange], Awaitable[None]]) -> Stage:
        """Perform the operation in a place that is given back afterwards.

        Raises ThrottledError for a long poll too many, RefusedError (503) for another call.
        """

        async def stage(exchange: Exchange) -> None:
            account = exchange.account
            if asked_wait_s(exchange) > 0:
                held = self._long_polls
                await self._check_long_poll(account)
            else:
                held = self._calls
                self._check_call(account)
            held.take(account)
            try:
                await perform(exchange)
            finally:
                held.leave(account)

        return stage

    async def _check_long_poll(self, account: str) -> None:
        if self._long_polls.total >= self._long_polls_max:
            raise ThrottledError(_RETRY_AFTER_US)
        if self._quotas is None:
            return
        most = (await self._quotas.find_quotas(account)).long_polls
        if most and self._long_polls.of(account) >= most:
            raise ThrottledError(_RETRY_AFTER_US)

    def _check_call(self, account: str) -> None:
        if self._quotas is None:
            return
        held = self._calls
        if held.of(account) >= max(1, self._calls_max - held.total):
            raise RefusedError(SERVICE_UNAVAILABLE, "The service is busy. Try again.")


class _Held:
    """How many places are held, in all and by account."""

    __slots__ = ("_by_account", "total")

    def __init__(self) -> None:
        self.total = 0
        self._by_account: dict[str, int] = {}

    def of(self, account: str) -> int:
        return self._by_account.get(account, 0)

    def take(self, account: str) -> None:
        self.total += 1
        self._by_account[account] = self._by_account.get(account, 0) + 1

    def leave(self, account: str) -> None:
        self.total -= 1
        left = self._by_account[account] - 1
        if left:
            self._by_account[account] = left
        else:
            del self._by_account[account]
