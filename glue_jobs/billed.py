"""What a run has billed, for those who write it down: invoices, names of accounts, tags."""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from glue_jobs.invoice_terms import Invoice
from glue_jobs.terms import Terms

Queue = tuple[str, str, str]
"""Account, region and name."""

_HOLDERS: Final = "account string, holder string"
_TAGS: Final = "account string, region string, queue string, tags string"


@dataclass(frozen=True, slots=True)
class Billed:
    """Terms, an invoice for each payer, names of accounts by their ids, and tags of queues."""

    terms: Terms
    invoices: Sequence[Invoice]
    names: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[Queue, Mapping[str, str]] = field(default_factory=dict)

    def name_of(self, holder: str) -> str:
        """The name of a payer or an account, "" where it has none."""
        customer = self.terms.customer(holder)
        return customer.party.name if customer is not None else self.names.get(holder, "")

    def held(self, table: DataFrame) -> DataFrame:
        """A table with `account` as a table by whose statement a row is in, `holder`.

        Of an account that another pays for, a row is in the statement of both.
        """
        customers = self.terms.customers.of.items()
        rows = {(account, payer) for payer, its in customers for account in its.accounts}
        rows |= {(account, account) for account, _ in rows}
        if not rows:
            return table.withColumn("holder", f.col("account"))
        holders = table.sparkSession.createDataFrame(sorted(rows), _HOLDERS)
        return table.join(f.broadcast(holders), "account", "left").withColumn(
            "holder", f.coalesce("holder", "account")
        )

    def tagged(self, table: DataFrame) -> DataFrame:
        """A table of usage or lines with the tags of each row's queue: `tags`, an object in JSON.

        What is not ASCII is escaped in it. Queues without tags have null.
        """
        rows = [
            (*queue, json.dumps(its, sort_keys=True))
            for queue, its in sorted(self.tags.items())
            if its
        ]
        if not rows:
            return table.withColumn("tags", f.lit(None).cast("string"))
        tags = table.sparkSession.createDataFrame(rows, _TAGS)
        return table.join(f.broadcast(tags), ["account", "region", "queue"], "left")


def in_ascii(name: str, otherwise: str) -> str:
    """A name without its accents; `otherwise` where it has a letter that ASCII has not."""
    plain = "".join(
        its for its in unicodedata.normalize("NFKD", name) if not unicodedata.combining(its)
    )
    return plain if plain.isascii() and plain else otherwise
