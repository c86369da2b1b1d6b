"""Budgets of accounts as they are stored, and the step that looks whether one is reached."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from control_plane.core.budgets import (
    FAILED,
    NOBODY,
    PENDING,
    SENT,
    AccountBudgets,
    Budget,
    check_budgets,
    is_allowed,
    read_budgets,
)
from control_plane.core.month_usage import NoPriceError, TenantUsage, total_of
from data_plane.core.errors import SERVICE_UNAVAILABLE, RefusedError
from data_plane.core.utc import utc_time
from data_plane.ports import ITEM_ABSENT, Cell, CellUnavailableError, Clock, Entropy, Equals, Key

BUDGETS: Final = "M|budgets"
ATTEMPTS_MAX: Final = 5
"""So often somebody is told in vain before that ends."""

RETRY_S: Final = 120
"""So long a server that began to tell somebody may take before another one tells."""

_WRITES_MAX: Final = 10
_NONCE_BYTES: Final = 8
_PAGE: Final = 500


class UndeliveredError(Exception):
    """Somebody could not be told; the reason is one line."""


Tell = Callable[[str, Budget, str], Awaitable[None]]
"""Tells the webhook or the queue of a budget of an account, in a period. Raises UndeliveredError,
CellUnavailableError."""


class Record(Protocol):
    """Writes one line of the log."""

    def __call__(self, level: str, event: str, **fields: object) -> None:
        """Note an event."""
        ...


class Budgets:
    """The budgets of all accounts. `webhooks` are what the operator allows."""

    def __init__(
        self, cell: Cell, clock: Clock, entropy: Entropy, webhooks: Sequence[str] = ()
    ) -> None:
        self._cell = cell
        self._clock = clock
        self._entropy = entropy
        self.webhooks = webhooks

    async def of(self, account: str) -> AccountBudgets:
        """Those of an account, as they are stored now. Raises CellUnavailableError."""
        item = await self._cell.get(_key(account))
        return AccountBudgets(account) if item is None else read_budgets(account, item)

    async def all(self) -> list[AccountBudgets]:
        """Those of all accounts that have some. Raises CellUnavailableError."""
        found: list[AccountBudgets] = []
        after = b""
        while items := await self._cell.query(BUDGETS, after=after, limit=_PAGE):
            after = items[-1].key.sort
            found += [read_budgets(item.key.sort.decode(), item.attributes) for item in items]
        return [one for one in found if one.budgets]

    async def set(self, account: str, wanted: Sequence[Budget]) -> AccountBudgets:
        """Put these in the place of all others. Raises RefusedError, CellUnavailableError."""
        check_budgets(wanted, self.webhooks)
        return await self.change(account, lambda held: held.with_wanted(wanted))

    async def change(
        self, account: str, edit: Callable[[AccountBudgets], AccountBudgets]
    ) -> AccountBudgets:
        """Store what `edit` makes of them, and answer it; what it leaves is not written.

        Raises RefusedError, CellUnavailableError.
        """
        nonce = self._entropy.random_bytes(_NONCE_BYTES)
        for _ in range(_WRITES_MAX):
            held = await self.of(account)
            wanted = edit(held)
            if wanted == held:
                return held
            condition = ((Equals("w", held.nonce),),) if held.nonce else ITEM_ABSENT
            wanted = wanted.stored(nonce)
            written = await self._cell.put(_key(account), wanted.encode(), condition)
            if written.applied or (written.before or {}).get("w") == nonce:
                return wanted
        raise RefusedError(SERVICE_UNAVAILABLE, f"Too many concurrent changes of {account}.")


class BudgetWatch:
    """Looks whether budgets are reached, and tells: each once a month, by one of all servers.

    Who is first to store that a budget is reached logs and counts it. If it is cut off before
    somebody was told, another one tells after `RETRY_S`.
    """

    def __init__(
        self, budgets: Budgets, usage: TenantUsage, clock: Clock, tell: Tell, record: Record
    ) -> None:
        self._budgets = budgets
        self._usage = usage
        self._clock = clock
        self._tell = tell
        self._record = record
        self.reached = self.told = self.failures = 0

    def gauges(self) -> dict[str, float]:
        """What became of budgets on this server, by names of metrics."""
        return {
            "budgets_reached_total": self.reached,
            "budget_notifications_total": self.told,
            "budget_notification_failures_total": self.failures,
        }

    async def step(self) -> None:
        """Look at all budgets. Raises CellUnavailableError."""
        at = utc_time(self._now_s())
        period = f"{at.year:04}-{at.month:02}"
        for held in await self._budgets.all():
            if all(one.is_settled(period) for one in held.budgets):
                continue
            try:
                month = await self._usage.month(held.account, period)
            except NoPriceError as error:
                self._record("error", "budget", account=held.account, error=str(error))
                continue
            used = total_of(month.lines.values())
            for one in held.budgets:
                if not one.is_settled(period) and one.is_reached_by(used):
                    await self._settle(held.account, one, period)

    async def _settle(self, account: str, budget: Budget, period: str) -> None:
        now_s = self._now_s()
        claimed = await self._claim(account, budget, period, now_s)
        if claimed is None:
            return
        if budget.period != period:
            self.reached += 1
            self._record(
                *("warning", "budget"),
                account=account,
                period=period,
                of=budget.of,
                limit=budget.limit,
            )
        if claimed.told == PENDING:
            await self._notify(account, claimed, period)

    async def _claim(self, account: str, budget: Budget, period: str, now_s: int) -> Budget | None:
        """The budget as this server is to go on with it; None: another one does, or has."""
        claimed: Budget | None = None

        def edit(held: AccountBudgets) -> AccountBudgets:
            nonlocal claimed
            claimed = None
            found = next((one for one in held.budgets if one.is_same(budget)), None)
            if found is None or found.is_settled(period):
                return held
            if found.period == period and now_s - found.tried_s < RETRY_S:
                return held
            if found.period != period:
                told = PENDING if found.webhook or found.queue else NOBODY
                found = replace(found, period=period, reached_s=now_s, told=told, attempts=0)
            claimed = replace(found, attempts=found.attempts + 1, tried_s=now_s)
            return held.with_state(claimed)

        await self._budgets.change(account, edit)
        return claimed

    async def _notify(self, account: str, budget: Budget, period: str) -> None:
        told = SENT
        try:
            if budget.webhook and not is_allowed(budget.webhook, self._budgets.webhooks):
                raise UndeliveredError("the operator does not allow its webhook any more")
            await self._tell(account, budget, period)
            self.told += 1
        except (UndeliveredError, CellUnavailableError) as error:
            self.failures += 1
            self._record("warning", "budget", account=account, of=budget.of, error=str(error))
            if budget.attempts < ATTEMPTS_MAX:
                return
            told = FAILED
        settled = replace(budget, told=told)
        await self._budgets.change(account, lambda held: held.with_state(settled))

    def _now_s(self) -> int:
        return self._clock.now_us() // 1_000_000


def _key(account: str) -> Key:
    return Key(BUDGETS, account.encode())
