"""What an operator says of bills to a server: the file of `tidegate serve --billing`.

    {"schema": "tidegate.billing/1",
     "prices": "prices/",
     "accounts": "accounts.json",
     "customers": "customers.json",
     "webhooks": ["https://hooks.example.com/tidegate/"]}

All members but the schema may be absent. `prices`, `accounts` and `customers` are what
`tidegate bill` takes, so that both come to the same; `webhooks` are beginnings of URLs that budgets
may name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from control_plane.cells import StartError
from control_plane.core.budgets import is_webhook_prefix
from glue_jobs.accounts import Accounts, read_accounts
from glue_jobs.arguments import JobError
from glue_jobs.customers import NO_CUSTOMERS, Customers, contracted_book, customers_at
from glue_jobs.price_book import PriceBook, book_for

SCHEMA: Final = "tidegate.billing/1"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal["tidegate.billing/1"]
    prices: str = ""
    accounts: str = ""
    customers: str = ""
    webhooks: tuple[str, ...] = ()


@dataclass(slots=True)
class BillingTerms:
    """What the file says; `prices` of "" are those that come with Tidegate.

    A customer's own `prices` begin in the working directory, where they are relative.
    """

    prices: str = ""
    accounts: Accounts = field(default_factory=Accounts)
    webhooks: tuple[str, ...] = ()
    customers: Customers = NO_CUSTOMERS
    _payers: dict[str, str] = field(init=False)
    _books: dict[tuple[str, str], PriceBook] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._payers = self.customers.payers()

    def book(self, account: str, period: str) -> PriceBook:
        """The book of an account in a period, as it was when it was asked for first.

        Its prices are less the discounts of the customer who pays. Raises JobError.
        """
        return self._book_of(self._payers.get(account, ""), period)

    def check(self, period: str) -> None:
        """Raise JobError unless everybody has a book in a period."""
        for payer in ("", *self.customers.of):
            self._book_of(payer, period)

    def _book_of(self, payer: str, period: str) -> PriceBook:
        if (payer, period) not in self._books:
            customer = self.customers.of.get(payer)
            own = customer.prices if customer is not None else ""
            book = book_for(period, own or self.prices)
            contracted = book if customer is None else contracted_book(book, customer)
            self._books[payer, period] = contracted
        return self._books[payer, period]

    @property
    def fair_queues(self) -> Mapping[str, tuple[str, ...]]:
        """Names of fair queues by their account."""
        return self.accounts.fair_queues


def read_terms(path: Path | None, period: str) -> BillingTerms:
    """What the file says (None: nothing), with the books of the present period. Raises StartError.

    Paths in it that are relative begin where it lies.
    """
    if path is None:
        return BillingTerms()
    try:
        said = msgspec.json.decode(path.read_bytes(), type=_File)
        for url in said.webhooks:
            if not is_webhook_prefix(url):
                raise ValueError(f"{url!r} is no URL of a webhook: http(s)://host[:port]/[path]")
        accounts = Accounts()
        if said.accounts:
            beside = path.parent / said.accounts
            accounts = read_accounts(beside.read_bytes(), str(beside))
        prices, customers = (_beside(path, its) for its in (said.prices, said.customers))
        terms = BillingTerms(prices, accounts, said.webhooks, customers_at(customers))
        terms.check(period)
    except OSError as error:
        raise StartError(f"billing: {error.filename}: {error.strerror}") from error
    except (JobError, ValueError) as error:
        raise StartError(f"billing: {path}: {error}") from error
    return terms


def _beside(path: Path, said: str) -> str:
    return str(path.parent / said) if said and "://" not in said else said
