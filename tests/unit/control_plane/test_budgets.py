"""Budgets: told once a month by one of all servers, whatever is cut off, and to nobody else."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from control_plane.budgets import ATTEMPTS_MAX, RETRY_S, Budgets, BudgetWatch, UndeliveredError
from control_plane.core.budgets import Budget, check_budgets, is_allowed
from control_plane.core.month_usage import COST_PLACES, Amounts, LineKey, MonthUsage
from control_plane.telling import body_of
from data_plane.core.errors import RefusedError
from data_plane.core.limits import WEBHOOK_URL_CHARS_MAX
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError
from tests.unit.repeatable import HandClock, SeededEntropy

ACCOUNT, OTHER = "111122223333", "222233334444"
HOOK = "https://hooks.example.com/tidegate/a"
ALLOWED = ("https://hooks.example.com/tidegate/",)
MONTH_S = 31 * 24 * 3600
MILLION = 1_000_000


@dataclass
class Service:
    """What several servers share: a cell, a clock, what accounts have used, and who was told."""

    clock: HandClock = field(default_factory=HandClock)
    used: dict[str, Amounts] = field(default_factory=dict)
    told: list[tuple[str, str, str]] = field(default_factory=list)
    logged: list[dict[str, object]] = field(default_factory=list)
    asked: int = 0
    failing: BaseException | None = None

    def __post_init__(self) -> None:
        self.cell = MemoryCell(self.clock)
        self._servers = 0

    async def month(self, account: str, period: str) -> MonthUsage:
        self.asked += 1
        line = self.used.get(account, Amounts())
        key = LineKey(f"{period}-01", "eu-west-1", "orders", "SendMessage")
        return MonthUsage(period, "USD", "book", self.clock.now_us(), {key: line})

    async def tell(self, account: str, budget: Budget, period: str) -> None:
        if self.failing is not None:
            raise self.failing
        self.told.append((account, budget.limit, period))

    def log(self, level: str, event: str, **fields: object) -> None:
        self.logged.append({"level": level, "event": event, **fields})

    def server(self, webhooks: Sequence[str] = ALLOWED) -> BudgetWatch:
        self._servers += 1
        budgets = Budgets(self.cell, self.clock, SeededEntropy(self._servers), webhooks)
        return BudgetWatch(budgets, self, self.clock, self.tell, self.log)

    def set(self, *wanted: Budget, account: str = ACCOUNT) -> None:
        asyncio.run(Budgets(self.cell, self.clock, SeededEntropy(99), ALLOWED).set(account, wanted))

    def held(self, account: str = ACCOUNT) -> tuple[Budget, ...]:
        return asyncio.run(Budgets(self.cell, self.clock, SeededEntropy(98)).of(account)).budgets


def cost(limit: str, webhook: str = HOOK) -> Budget:
    return Budget("cost", limit, webhook)


@pytest.fixture
def service() -> Service:
    return Service()


def test_a_threshold_is_told_once_a_month_by_one_of_several_servers(service: Service) -> None:
    service.set(cost("2.5"), Budget("requests", "100"))
    servers = [service.server(), service.server()]
    service.used[ACCOUNT] = Amounts(requests=99, cost=25 * 10 ** (COST_PLACES - 1) - 1)

    async def steps() -> None:
        for _ in range(3):
            await asyncio.gather(*(server.step() for server in servers))
            service.clock.advance(60)

    asyncio.run(steps())
    assert not service.told
    assert not service.logged
    service.used[ACCOUNT] = Amounts(requests=100, cost=25 * 10 ** (COST_PLACES - 1))
    asyncio.run(steps())
    assert service.told == [(ACCOUNT, "2.5", "2026-09")]
    assert [(its["of"], its["limit"]) for its in service.logged] == [
        ("cost", "2.5"),
        ("requests", "100"),
    ]
    assert sum(server.gauges()["budgets_reached_total"] for server in servers) == 2
    # A server that starts, and the next month.
    asyncio.run(service.server().step())
    assert len(service.told) == 1
    service.clock.advance(MONTH_S)
    asyncio.run(service.server().step())
    assert service.told[1:] == [(ACCOUNT, "2.5", "2026-10")]


def test_settled_accounts_cost_no_question(service: Service) -> None:
    service.set(cost("1"))
    service.used[ACCOUNT] = Amounts(cost=10**COST_PLACES)
    server = service.server()
    for _ in range(5):
        asyncio.run(server.step())
    assert service.asked == 1


def test_a_server_that_is_cut_off_before_it_told_leaves_it_to_another(service: Service) -> None:
    service.set(cost("1"))
    service.used[ACCOUNT] = Amounts(cost=10**COST_PLACES)
    service.failing = KeyboardInterrupt()  # as a kill would
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(service.server().step())
    service.failing = None
    asyncio.run(service.server().step())
    assert service.told == []  # The first one may still be at it.
    service.clock.advance(RETRY_S)
    asyncio.run(service.server().step())
    assert service.told == [(ACCOUNT, "1", "2026-09")]
    assert len(service.logged) == 1


@pytest.mark.parametrize("error", [UndeliveredError("no"), CellUnavailableError("away")])
def test_a_webhook_that_fails_is_tried_a_few_times(service: Service, error: Exception) -> None:
    service.set(cost("1"))
    service.used[ACCOUNT] = Amounts(cost=10**COST_PLACES)
    service.failing = error
    server = service.server()
    for _ in range(ATTEMPTS_MAX + 3):
        asyncio.run(server.step())
        service.clock.advance(RETRY_S)
    assert server.failures == ATTEMPTS_MAX
    assert [one.told for one in service.held()] == ["failed"]
    service.failing = None
    asyncio.run(server.step())
    assert service.told == []


def test_what_the_operator_allows_no_more_is_not_called(service: Service) -> None:
    service.set(cost("1"))
    service.used[ACCOUNT] = Amounts(cost=10**COST_PLACES)
    asyncio.run(service.server(webhooks=()).step())
    assert service.told == []


def test_budgets_that_are_set_again_are_not_told_again(service: Service) -> None:
    service.set(cost("1"))
    service.used[ACCOUNT] = Amounts(cost=3 * 10**COST_PLACES)
    asyncio.run(service.server().step())
    service.set(cost("1"), cost("2"))
    asyncio.run(service.server().step())
    assert [limit for _, limit, _ in service.told] == ["1", "2"]
    service.set()
    assert service.held() == ()
    asyncio.run(service.server().step())


def test_one_account_that_fails_holds_up_no_other(service: Service) -> None:
    service.set(cost("1"))
    service.set(cost("1"), account=OTHER)
    service.used |= {ACCOUNT: Amounts(cost=10**COST_PLACES), OTHER: Amounts(cost=10**COST_PLACES)}
    service.failing = UndeliveredError("no")
    server = service.server()
    asyncio.run(server.step())
    assert server.failures == 2


def test_what_is_told_has_nothing_private() -> None:
    budget = Budget("cost", "1", HOOK, "alarms", "eu-west-1", "2026-09", 7)
    assert body_of(ACCOUNT, budget, "2026-09") == (
        b'{"schema":"tidegate.budget/1","account":"111122223333","period":"2026-09",'
        b'"of":"cost","limit":"1","reached":7}'
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/tidegate/a/b",
        "https://exact.example.com/hook",
        "http://inner.example.com:8080/",
    ],
)
def test_urls_that_the_operator_allows(url: str) -> None:
    allowed = (*ALLOWED, "https://exact.example.com/hook", "http://inner.example.com:8080/")
    assert is_allowed(url, allowed)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://hooks.example.com/tidegate/a",
        "https://hooks.example.com/other",
        "https://hooks.example.com/tidegate/../admin",
        "https://hooks.example.com/tidegate/./a",
        "https://hooks.example.com/tidegate/%2e%2e/admin",
        "https://hooks.example.com/tidegate/a?to=b",
        "https://hooks.example.com/tidegate/a#b",
        "https://hooks.example.com:444/tidegate/a",
        "https://hooks.example.com@evil.example/tidegate/a",
        "https://hooks.example.com.evil.example/tidegate/a",
        "https://hooks.example.com\\@evil.example/tidegate/a",
        "https://exact.example.com/hook/more",
        "https://hooks.example.com/tidegate/a\r\nX: y",
        "https://hooks.example.com/tidegate/a\n",
        "file:///etc/passwd",
        f"https://hooks.example.com/tidegate/{'a' * WEBHOOK_URL_CHARS_MAX}",
    ],
)
def test_urls_that_nobody_allowed(url: str) -> None:
    assert not is_allowed(url, (*ALLOWED, "https://exact.example.com/hook"))
    with pytest.raises(RefusedError, match="WebhookUrl"):
        check_budgets([cost("1", url)], ALLOWED)


@pytest.mark.parametrize(
    "budget",
    [
        cost("0"),
        cost("0.00"),
        cost("-1"),
        cost("1e3"),
        cost("01"),
        cost("1.12345678901"),
        cost("1234567890123456"),
        Budget("requests", "1.5"),
        Budget("requests", "0"),
        Budget("requests", "1" * 19),
        Budget("requests", "1", queue="a.fifo"),
        Budget("requests", "1", queue="a b"),
    ],
)
def test_budgets_that_are_none(budget: Budget) -> None:
    with pytest.raises(RefusedError):
        check_budgets([budget], ALLOWED)


def test_amounts_are_compared_exactly() -> None:
    limit = cost("0.0000000001")
    assert limit.is_reached_by(Amounts(cost=10**9))
    assert not limit.is_reached_by(Amounts(cost=10**9 - 1))
