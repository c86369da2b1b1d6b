"""On what terms each account is billed: who pays, by which book, with what discount and tax."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    DecimalType,
    StringType,
    StructField,
    StructType,
)

from glue_jobs import billing
from glue_jobs.arguments import JobError
from glue_jobs.billing import MONEY, PRICE
from glue_jobs.customers import (
    NO_CUSTOMERS,
    Customer,
    Customers,
    contracted_price,
    customers_at,
    read_customers,
)
from glue_jobs.invoice_terms import Tax
from glue_jobs.outputs import Pointer
from glue_jobs.places import Place
from glue_jobs.price_book import PLACES, PriceBook, book_for, read_book

_EACH: Final = DecimalType(PLACES, PLACES)
_CONTRACTED: Final = StructType(
    [
        StructField("account", StringType()),
        StructField("sku", StringType()),
        StructField("price", PRICE),
        StructField("contracted", PRICE),
        StructField("each", _EACH),
    ]
)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a period: its price book, customers, and books that customers have of their own.

    `books` are by the ids of customers.
    """

    book: PriceBook
    customers: Customers = NO_CUSTOMERS
    books: Mapping[str, PriceBook] = field(default_factory=dict)

    def payer(self, account: str) -> str:
        """Who pays for an account: a customer's id, or the account's own."""
        return self.customers.payers().get(account, account)

    def customer(self, payer: str) -> Customer | None:
        """The customer of that id, None where an account pays for itself."""
        return self.customers.of.get(payer)

    def book_of(self, payer: str) -> PriceBook:
        """The price book that a payer is billed by."""
        return self.books.get(payer, self.book)

    def tax_of(self, payer: str) -> Tax:
        """The tax that a payer owes."""
        customer = self.customer(payer)
        if customer is not None and customer.tax is not None:
            return customer.tax
        return self.book_of(payer).tax

    def due_days(self, payer: str) -> int:
        """How many days after its issue an invoice is due."""
        customer = self.customer(payer)
        own = customer.due_days if customer is not None else None
        return self.customers.seller.due_days if own is None else own

    def all_books(self) -> list[PriceBook]:
        """Each book once, the period's own first."""
        found = {its.sha256: its for its in (self.book, *self.books.values())}
        return list(found.values())

    def storage_skus(self) -> list[str]:
        """SKUs that are charged for what is stored, of any of the books."""
        return sorted({sku for book in self.all_books() for sku in book.storage_skus()})

    def said(self) -> dict[str, Any]:
        """What a pointer says of terms, besides the period's book."""
        books = {payer: its.sha256 for payer, its in sorted(self.books.items())}
        return {"customers": self.customers.sha256, "books": books}

    def texts(self) -> dict[str, bytes]:
        """The files that terms are read from, by the names under which a run keeps them."""
        found = {f"price_books/{its.sha256}.json": its.text for its in self.all_books()}
        if self.customers.sha256:
            found[f"customers/{self.customers.sha256}.json"] = self.customers.text
        return found

    def check_currencies(self, before: "Terms", period: str) -> None:
        """Raise JobError where a closed period that is corrected was billed in another currency."""
        for payer in {*self.customers.of, *before.customers.of, ""}:
            then, now = before.book_of(payer).currency, self.book_of(payer).currency
            if then != now:
                raise JobError(
                    f"price book {self.book_of(payer).id}: {period} was billed in {then}, and is"
                    f" not corrected in {now}"
                )

    def rated(self, usage: DataFrame, fair: Mapping[str, Sequence[str]]) -> DataFrame:
        """Usage by its books, at prices less discounts (`billing.RATED`)."""
        accounts_of = self._accounts_of_books()
        others = [
            its for key, them in accounts_of.items() if key != self.book.sha256 for its in them
        ]
        rated = []
        for book in self.all_books():
            if book.sha256 == self.book.sha256:
                its = usage.where(~f.col("account").isin(others)) if others else usage
            else:
                its = usage.where(f.col("account").isin(accounts_of[book.sha256]))
            typed = billing.with_queue_type(billing.billed(its, book), fair)
            rated.append(billing.rate(typed, book))
        return self._discounted(reduce(DataFrame.unionByName, rated))

    def is_billed(self) -> Column:
        """Whether a row of usage is charged for, by the book that its account is billed by."""
        its = billing.is_billed(self.book)
        accounts_of = self._accounts_of_books()
        for book in self.all_books()[1:]:
            of_book = f.col("account").isin(accounts_of[book.sha256])
            its = f.when(of_book, billing.is_billed(book)).otherwise(its)
        return its

    def _accounts_of_books(self) -> dict[str, list[str]]:
        """Accounts of customers with books of their own, by the hashes of all books."""
        return {
            book.sha256: [
                account
                for payer, its in self.books.items()
                if its.sha256 == book.sha256
                for account in self.customers.of[payer].accounts
            ]
            for book in self.all_books()
        }

    def _discounted(self, rated: DataFrame) -> DataFrame:
        """At contracted prices: list prices less a share, rounded half up to ten places."""
        rows = self._contracted()
        if not rows:
            return rated
        table = rated.sparkSession.createDataFrame(rows, _CONTRACTED)
        cost = f.col("quantity").cast(DecimalType(19, 0)) * f.col("each")
        joined = rated.join(f.broadcast(table), ["account", "sku", "price"], "left")
        return joined.withColumns(
            {
                "price": f.coalesce("contracted", "price").cast(PRICE),
                "cost": f.coalesce(cost, "cost").cast(MONEY),
            }
        ).select(*rated.columns)

    def _contracted(self) -> list[tuple[str, str, Decimal, Decimal, Decimal]]:
        found = set()
        for payer, customer in self.customers.of.items():
            for sku in self.book_of(payer).skus.values():
                rate = customer.discount(sku.name)
                prices = {tier.price for tiers in sku.regions.values() for tier in tiers}
                for price in prices if rate else ():
                    contracted = contracted_price(price, rate)
                    each = contracted.scaleb(-len(str(sku.unit_size)) + 1)
                    found |= {
                        (account, sku.name, price, contracted, each)
                        for account in customer.accounts
                    }
        return sorted(found)


def terms_for(period: str, prices: str, customers: str) -> Terms:
    """The terms of a period, from places. Raises JobError."""
    book = book_for(period, prices)
    found = customers_at(customers)
    books = {id_: book_for(period, its.prices) for id_, its in found.of.items() if its.prices}
    return Terms(book, found, books)


def terms_said(out: Place, pointer: Pointer) -> Terms:
    """The terms that a period was billed by."""

    def book(digest: str) -> PriceBook:
        return read_book(out.read(f"price_books/{digest}.json"), digest)

    said = pointer.said
    own = book(said["prices"]["sha256"])
    digest = said.get("customers", "")
    if not digest:
        return Terms(own)
    customers = read_customers(out.read(f"customers/{digest}.json"), digest)
    return Terms(own, customers, {payer: book(its) for payer, its in said["books"].items()})
