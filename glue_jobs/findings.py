"""What a person should look at after a bill was made: lines for the command line."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from glue_jobs import stored_sends
from glue_jobs.accounts import Accounts
from glue_jobs.identities import Gap
from glue_jobs.missing import between, ends_of, lines_of
from glue_jobs.outputs import Pointer
from glue_jobs.plural import counted, verb
from glue_jobs.price_book import STORED

_SAID_MAX: Final = 20


def findings(pointer: Pointer) -> list[str]:
    """A line for each finding of a run; of very many files, gaps and conflicts the first."""
    said = pointer.said
    lines = [f"put aside: {its['name']}: {its['reason']}" for its in said["quarantined"]]
    whole = {its["name"] for its in said["quarantined"]}
    lines += [
        f"put aside: of {name}: {why}"
        for _, name, why in said.get("refused", ())
        if name not in whole
    ]
    lines += [f"bad mark: {name} cannot be read: {reason}" for name, reason in said["bad_marks"]]
    lines += [f"not as registered: {why}" for _, why in said.get("against_register", ())]
    gaps = [Gap(**its) for its in said["gaps"]]
    lines += lines_of(gaps, said["bad_marks"])
    lines += [f"conflict: writer {writer}: record {number}" for writer, number in said["conflicts"]]
    if len(lines) > _SAID_MAX:
        more = counted(len(lines) - _SAID_MAX, "more finding")
        lines = [*lines[:_SAID_MAX], f"and {more}: all are in {pointer.name}"]
    lines += ends_of(gaps)
    lines += stored_sends.lines_of(said)
    if said.get("kept_from"):
        until = between(-1, said["kept_from"])
        lines.append(f"expired: records of this month may have been removed by their age, {until}")
    if not said["records"]:
        lines.append("no usage: the usage place has no records of this month")
    if count := said["malformed_lines"]:
        no_record = verb(count, "is no record", "are no records")
        lines.append(f"malformed: {counted(count, 'line')} of functions {no_record}")
    if count := said["requests_of_nobody"]:
        lines.append(
            f"of nobody: {counted(count, 'request')} {verb(count, 'has', 'have')} no account"
        )
    if said["corrects"]:
        lines.append(f"corrected: {', '.join(said['corrects'])}")
    for period, its in said.get("not_corrected", {}).items():
        new, gone = its["new"], its["files"]
        names, new_names = its.get("names", ()), its.get("new_names", ())
        came = f"; {counted(new, 'new one')} {verb(new)} not billed" if new else ""
        came += _named(new, new_names)
        lines.append(
            f"not corrected: {period}: {counted(gone, 'file')} of records that it was invoiced"
            f" from {verb(gone)} gone{_named(gone, names)}{came}"
        )
    for sku in said.get("unmetered", ()):
        lines.append(f"not metered: {sku} has a price, and no export says what was stored")
    for account, queue in said.get("idle_fair_queues", ()):
        lines.append(f"fair queue without usage: {queue} of {account}")
    return lines


def _named(count: int, names: Sequence[str]) -> str:
    """Names of files behind what is said of them, of very many the first."""
    if not names:  # runs of before did not say them
        return ""
    more = count - len(names)
    return f": {', '.join(names)}" + (f" and {more:,} more" if more else "")


def altered_lines(pointer: Pointer, names: Sequence[str]) -> list[str]:
    """A line for each object that is not what a run wrote; of very many the first."""
    what = "nothing is corrected" if pointer.closed else "it is made again"
    lines = [
        f"altered: {name} is not what run {pointer.run} of {pointer.period} wrote; {what}"
        for name in names[:_SAID_MAX]
    ]
    more = len(names) - _SAID_MAX
    return (
        [*lines, f"and {counted(more, 'more altered object')}: {pointer.name} has the hash of each"]
        if more > 0
        else lines
    )


def unmetered(priced: list[str], hourly: DataFrame, *, is_sampled: bool) -> list[str]:
    """Those of the SKUs with a price for storage of which there are no samples, nor records."""
    skus = [] if is_sampled else priced
    return [] if skus and hourly.where(f.col("operation") == STORED).take(1) else skus


def idle_fair_queues(accounts: Accounts, hourly: DataFrame) -> list[list[str]]:
    """Fair queues (account, name) of the accounts file that have no usage."""
    named = {(its, name) for its, names in accounts.fair_queues.items() for name in names}
    if not named:
        return []
    used = hourly.select("account", "queue").distinct().collect()
    return sorted(map(list, named - {(row.account, row.queue) for row in used}))
