"""What a person should look at after a bill was made: lines for the command line."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from glue_jobs import stored_sends
from glue_jobs.accounts import Accounts
from glue_jobs.identities import Gap
from glue_jobs.missing import between, ends_of, lines_of
from glue_jobs.price_book import STORED, PriceBook

_SAID_MAX: Final = 20


def findings(said: Mapping[str, Any]) -> list[str]:
    """A line for each finding of a run; of very many files, gaps and conflicts the first."""
    lines = [f"put aside: {its['name']}: {its['reason']}" for its in said["quarantined"]]
    lines += [f"bad mark: {name}: {reason}" for name, reason in said["bad_marks"]]
    gaps = [Gap(**its) for its in said["gaps"]]
    lines += lines_of(gaps)
    lines += [f"conflict: writer {writer}: record {number}" for writer, number in said["conflicts"]]
    if len(lines) > _SAID_MAX:
        lines = [*lines[:_SAID_MAX], f"and {len(lines) - _SAID_MAX} more findings"]
    lines += ends_of(gaps)
    lines += stored_sends.lines_of(said)
    if said.get("kept_from"):
        until = between(-1, said["kept_from"])
        lines.append(f"expired: records of this month may have been removed by their age, {until}")
    if not said["records"]:
        lines.append("no usage: the usage place has no records of this month")
    if said["malformed_lines"]:
        lines.append(f"malformed: {said['malformed_lines']} lines of functions are no records")
    if said["requests_of_nobody"]:
        lines.append(f"of nobody: {said['requests_of_nobody']} requests have no account")
    if said["corrects"]:
        lines.append(f"corrected: {', '.join(said['corrects'])}")
    for period, its in said.get("not_corrected", {}).items():
        came = f"; {its['new']} new ones are not billed" if its["new"] else ""
        lines.append(
            f"not corrected: {period}: {its['files']} files of records that it was invoiced from"
            f" are gone{came}"
        )
    for sku in said.get("unmetered", ()):
        lines.append(f"not metered: {sku} has a price, and no export says what was stored")
    for account, queue in said.get("idle_fair_queues", ()):
        lines.append(f"fair queue without usage: {queue} of {account}")
    return lines


def unmetered(book: PriceBook, hourly: DataFrame, *, is_sampled: bool) -> list[str]:
    """SKUs with a price for storage where there are no samples of it, nor records."""
    skus = [] if is_sampled else book.storage_skus()
    return [] if skus and hourly.where(f.col("operation") == STORED).take(1) else skus


def idle_fair_queues(accounts: Accounts, hourly: DataFrame) -> list[list[str]]:
    """Fair queues (account, name) of the accounts file that have no usage."""
    named = {(its, name) for its, names in accounts.fair_queues.items() for name in names}
    if not named:
        return []
    used = hourly.select("account", "queue").distinct().collect()
    return sorted(map(list, named - {(row.account, row.queue) for row in used}))
