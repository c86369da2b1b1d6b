"""What a month costs so far: kept from question to question, and equal to what is made anew."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from control_plane import tenant_usage
from control_plane.billing_terms import BillingTerms, read_terms
from control_plane.cells import StartError
from control_plane.core.month_usage import (
    Amounts,
    LineKey,
    MonthUsage,
    NoPriceError,
    cost_text,
    grouped,
    total_of,
)
from control_plane.tenant_usage import MonthCosts
from data_plane.memory.blobs import MemoryBlobs
from data_plane.ports import CellUnavailableError
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import SCHEMA, US_PER_MINUTE, UsageRecord
from data_plane.usage.summary import UsageSummary
from glue_jobs.price_book import BOOKS, PriceBook
from glue_jobs.rating import Charge, Quantity, rate_in_proportion
from tests.unit.data_plane.usage.places import at_once
from tests.unit.repeatable import HandClock, SeededEntropy

ACCOUNT, OTHER = "111122223333", "222233334444"
PERIOD = "2026-09"  # in which a HandClock begins
HOUR_S = 3600


T = TypeVar("T")


class Draws:
    """Choices that are the same in every run."""

    def __init__(self) -> None:
        self._entropy = SeededEntropy(3)

    def below(self, end: int) -> int:
        return int.from_bytes(self._entropy.random_bytes(8), "big") % end

    def one_of(self, *choices: T) -> T:
        return choices[self.below(len(choices))]


class Tenants:
    """A server that counts and stores, and what it answers of a month."""

    def __init__(self, terms: BillingTerms | None = None) -> None:
        self.clock = HandClock()
        self.blobs = MemoryBlobs(self.clock)
        self.place = UsagePlace(self.blobs, at_once)
        self.terms = terms or BillingTerms()
        self.counted: list[UsageRecord] = []
        self.written = 0
        self._number = 0
        self.costs = self.another()

    def another(self) -> MonthCosts:
        summary = UsageSummary(self.blobs, at_once, self.clock)
        return MonthCosts(summary, self.pending, lambda: self.written, self.terms, self.clock)

    async def pending(self) -> list[UsageRecord]:
        return list(self.counted)

    def count(
        self, units: int = 1, account: str = ACCOUNT, hours_ago: int = 0, **its: Any
    ) -> UsageRecord:
        self._number += 1
        minute = self.clock.now_us() // US_PER_MINUTE - hours_ago * 60
        queue, operation = its.get("queue", "orders"), its.get("operation", "SendMessage")
        self.counted.append(
            UsageRecord(
                *(SCHEMA, "a" * 16, self._number, minute, account, "eu-west-1"),
                *(queue, operation, its.get("status", "2xx"), its.get("code", "")),
                *(its.get("requests", 1), units, its.get("messages", 1), 100, 0),
            )
        )
        return self.counted[-1]

    def write(self) -> None:
        asyncio.run(self.place.put(self.counted))
        self.written += len(self.counted)
        self.counted = []

    def month(self, account: str = ACCOUNT, costs: MonthCosts | None = None) -> MonthUsage:
        return asyncio.run((costs or self.costs).month(account, PERIOD))


def total(month: MonthUsage) -> Amounts:
    return total_of(month.lines.values())


def costs_of_queues(month: MonthUsage) -> dict[str, str]:
    return {key[0]: cost_text(its.cost) for key, its in grouped(month.lines, ("queue",), {})}


@pytest.fixture
def tenants() -> Tenants:
    return Tenants()


def test_what_is_counted_shows_at_once_and_never_twice(tenants: Tenants) -> None:
    tenants.count(2)
    assert total(tenants.month()).units == 2
    tenants.write()
    assert total(tenants.month()).units == 2
    tenants.count(3)
    assert total(tenants.month()).units == 5
    assert total(tenants.month(OTHER)) == Amounts()
    # Stored, and not known to be: both have it.
    asyncio.run(tenants.place.put(tenants.counted))
    tenants.clock.advance(60)
    assert total(tenants.month()).units == 5


def test_records_that_go_over_while_a_question_looks_are_there_once(tenants: Tenants) -> None:
    tenants.count(2)
    tenants.month()
    pending = tenants.pending

    async def going_over() -> list[UsageRecord]:
        found = await pending()
        if tenants.counted:
            await tenants.place.put(tenants.counted)
            tenants.written, tenants.counted = tenants.written + 1, []
        return found

    tenants.costs = MonthCosts(
        UsageSummary(tenants.blobs, at_once, tenants.clock),
        *(going_over, lambda: tenants.written, tenants.terms, tenants.clock),
    )
    assert total(tenants.month()).units == 2
    assert total(tenants.month()).units == 2


def test_the_free_quantity_and_what_costs_nothing(tenants: Tenants) -> None:
    tenants.count(1_000_000, hours_ago=30)
    tenants.count(1_000_000, hours_ago=3, queue="mail.fifo", requests=5)
    tenants.count(7, status="5xx", code="InternalFailure", requests=7)
    tenants.write()
    month = tenants.month()
    # Half of each is free: the book spreads in proportion.
    assert cost_text(total(month).cost) == "0.45"
    assert total(month).requests == 1 + 5 + 7
    assert LineKey("2026-09-21", "eu-west-1", "mail.fifo", "SendMessage") in month.lines
    assert costs_of_queues(month) == {"orders": "0.2", "mail.fifo": "0.25"}


@pytest.mark.parametrize("spread", ["in order", "in proportion"])
def test_what_is_kept_is_what_is_made_anew(tmp_path: Path, spread: str) -> None:
    draws = Draws()
    prices = book_file(tmp_path, "own", spread=spread)
    tenants = Tenants(read_terms(terms_file(tmp_path, prices=prices), PERIOD))
    for _ in range(60):
        for _ in range(1 + draws.below(4)):
            tenants.count(
                draws.below(200_000),
                draws.one_of(ACCOUNT, OTHER),
                # Now and then something comes late, and all that follows costs something else.
                draws.one_of(0, 0, 0, 1, 20),
                queue=draws.one_of("orders", "mail.fifo", ""),
                operation=draws.one_of("SendMessage", "ReceiveMessage", "ListQueues"),
            )
        if draws.below(10) < 7:
            tenants.write()
        tenants.clock.advance(draws.one_of(20, HOUR_S, 5 * HOUR_S))
        account = draws.one_of(ACCOUNT, OTHER)
        if draws.below(10) < 3:
            tenants.clock.advance(HOUR_S)  # What came late is seen by then.
            anew = tenants.month(account, tenants.another())
            kept = tenants.month(account)
            assert kept.lines == anew.lines
    assert total(tenants.month()).cost > 0


def test_servers_of_one_place_see_what_others_stored(tenants: Tenants) -> None:
    other = Tenants()
    other.blobs, other.place, other.clock = tenants.blobs, tenants.place, tenants.clock
    other.costs = other.another()
    tenants.count(2)
    assert (total(tenants.month()).units, total(other.month()).units) == (2, 0)
    tenants.write()
    tenants.clock.advance(10)
    assert (total(tenants.month()).units, total(other.month()).units) == (2, 2)


def test_a_question_again_reads_no_old_hour(tenants: Tenants) -> None:
    for hours_ago in range(60, 0, -1):
        tenants.count(10, hours_ago=hours_ago)
    tenants.write()
    assert total(tenants.month()).units == 600
    before = tenants.blobs.requests["get"]
    tenants.clock.advance(20)
    assert total(tenants.month()).units == 600
    assert tenants.blobs.requests["get"] == before


def test_a_question_that_is_cut_off_goes_on_where_it_was(tenants: Tenants) -> None:
    for hours_ago in range(200, 3, -1):
        tenants.count(10, hours_ago=hours_ago)
    tenants.write()
    get, left = tenants.blobs.get, [300]

    async def refusing(name: str) -> bytes | None:
        left[0] -= 1
        if left[0] < 0:
            raise CellUnavailableError("its time is over")
        return await get(name)

    tenants.blobs.get = refusing  # type: ignore[method-assign]
    with pytest.raises(CellUnavailableError):
        tenants.month()
    left[0] = 330  # From the beginning it takes 391.
    assert total(tenants.month()).units == 197 * 10


def test_by_books_in_order_what_comes_first_is_free(tmp_path: Path) -> None:
    prices = book_file(tmp_path, "own", spread="in order")
    tenants = Tenants(read_terms(terms_file(tmp_path, prices=prices), PERIOD))
    tenants.count(1_000_000, hours_ago=30)
    tenants.count(1_000_000, hours_ago=3, queue="mail.fifo")
    tenants.write()
    assert costs_of_queues(tenants.month()) == {"orders": "0", "mail.fifo": "0.5"}


def test_administration_is_counted_and_costs_nothing(tenants: Tenants) -> None:
    tenants.count(9_000_000, operation="TidegateGetUsage")
    assert total(tenants.month()) == Amounts(1, 9_000_000, 0, 100, 0)


def test_what_changes_of_streams_say_is_no_message(tenants: Tenants) -> None:
    """Their records have hours and shards in the column of messages."""
    for name in ("IncreaseStreamRetentionPeriod", "UpdateShardCount", "CreateStream/on-demand"):
        tenants.count(operation=f"kinesis:{name}", messages=8760)
    assert total(tenants.month()).messages == 0
    for name in ("kinesis:PutRecords", "kinesis:GetRecords/long-term", "DeleteMessageBatch"):
        tenants.count(operation=name, messages=25)
    assert total(tenants.month()).messages == 75


def test_where_nothing_came_nothing_is_rated_again(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    rated = []

    def counted(rows: Sequence[Quantity], book: PriceBook) -> Iterator[Charge]:
        rated.append(len(rows))
        return rate_in_proportion(rows, book)

    monkeypatch.setattr(tenant_usage, "rate_in_proportion", counted)
    for hours_ago in (50, 25, 1):
        tenants.count(1_000_000, hours_ago=hours_ago)
    tenants.write()
    first = tenants.month()
    tenants.clock.advance(20)
    assert tenants.month().lines == first.lines
    assert rated == [3]
    tenants.count(1_000_000, hours_ago=1)
    tenants.write()
    assert cost_text(total(tenants.month()).cost) == "1.2"
    assert rated == [3, 3]


def test_payers_have_books_and_discounts_of_their_own(tmp_path: Path) -> None:
    own = book_file(tmp_path, "acme", free={"quantity": 0, "skus": []}, currency="EUR")
    of_acme = {"name": "ACME", "accounts": [ACCOUNT], "prices": str(tmp_path / own)}
    customers = {
        "schema": "tidegate.customers/1",
        "seller": {"id": "tide", "name": "Tide", "due_days": 9},
        "customers": {
            "acme": {**of_acme, "discounts": {"requests-standard": "0.25"}},
            "tide": {"name": "Tide", "accounts": [OTHER], "discounts": {"*": "1"}},
        },
    }
    (tmp_path / "customers.json").write_text(json.dumps(customers))
    tenants = Tenants(read_terms(terms_file(tmp_path, customers="customers.json"), PERIOD))
    third = "333344445555"
    for account in (ACCOUNT, OTHER, third):
        tenants.count(2_000_000, account)
    told = {its: tenants.month(its) for its in (ACCOUNT, OTHER, third)}
    costs = {its: (cost_text(total(month).cost), month.currency) for its, month in told.items()}
    assert costs == {ACCOUNT: ("0.6", "EUR"), OTHER: ("0", "USD"), third: ("0.4", "USD")}
    assert told[ACCOUNT].book == "acme"


def test_months_without_a_price_say_so(tenants: Tenants) -> None:
    with pytest.raises(NoPriceError, match="no price book for 2025-12"):
        asyncio.run(tenants.costs.month(ACCOUNT, "2025-12"))


def book_file(folder: Path, name: str, **changes: Any) -> str:
    """The name of a file with Tidegate's own book but for what is changed."""
    book = json.loads((BOOKS / "2026-01.json").read_bytes()) | {"id": name, **changes}
    (folder / f"{name}.json").write_text(json.dumps(book))
    return f"{name}.json"


def terms_file(folder: Path, **its: Any) -> Path:
    path = folder / "billing.json"
    path.write_text(json.dumps({"schema": "tidegate.billing/1", **its}))
    return path


def test_the_operator_says_what_things_cost_and_which_queues_are_fair(tmp_path: Path) -> None:
    book = json.loads((BOOKS / "2026-01.json").read_bytes())
    book |= {"id": "mine", "free": {"quantity": 0, "skus": book["free"]["skus"]}}
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices/mine.json").write_text(json.dumps(book))
    accounts = {ACCOUNT: {"name": "A", "fair_queues": ["orders"]}}
    (tmp_path / "accounts.json").write_text(
        json.dumps({"schema": "tidegate.accounts/1", "accounts": accounts})
    )
    its = {"prices": "prices", "accounts": "accounts.json", "webhooks": ["https://a.example/"]}
    terms = read_terms(terms_file(tmp_path, **its), PERIOD)
    assert terms.webhooks == ("https://a.example/",)
    tenants = Tenants(terms)
    tenants.count(1_000_000)
    month = tenants.month()
    assert (month.book, month.currency) == ("mine", "USD")
    assert cost_text(total(month).cost) == "0.5"


@pytest.mark.parametrize(
    ("its", "told"),
    [
        ({"schema": "other"}, "Invalid enum value 'other'"),
        ({"price": "x"}, "unknown field"),
        ({"webhooks": ["ftp://a/"]}, "no URL of a webhook"),
        ({"webhooks": ["https://a.example"]}, "no URL of a webhook"),
        ({"webhooks": ["https://a.example/../b/"]}, "no URL of a webhook"),
        ({"accounts": "none.json"}, "none.json: No such file"),
        ({"customers": "none.json"}, "customers .*none.json: No such file"),
        ({"prices": "none.json"}, "price book"),
    ],
)
def test_wrong_terms_stop_the_start_in_one_line(
    tmp_path: Path, its: dict[str, Any], told: str
) -> None:
    with pytest.raises(StartError, match=told) as stopped:
        read_terms(terms_file(tmp_path, **its), PERIOD)
    assert str(stopped.value).startswith("billing: ")
    assert "\n" not in str(stopped.value)
