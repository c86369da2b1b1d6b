"""The job `bill`: from usage records to invoices, FOCUS tables and statements of a period.

    python -m glue_jobs.bill --usage data/usage --out data/bills --period 2026-11

docs/billing.md says what it writes. What it does depends on its inputs and arguments alone: no
clock (but for names of periods, and for what is kept no longer), no randomness; so it can be run
again, and writes the same bytes.
"""

import sys
import time
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from glue_jobs.arguments import Argument, JobError, read
from glue_jobs.billing_options import Options, Summary, accounts_of
from glue_jobs.billing_run import BillingRun
from glue_jobs.invoicing import next_period, period_of
from glue_jobs.places import is_missing, is_unwritable
from glue_jobs.price_book import book_for
from glue_jobs.progress import Progress
from glue_jobs.session import MEMORY_DEFAULT, open_session

ARGUMENTS: Final = (
    Argument("usage", "Place of usage records: a folder, or s3://bucket[/prefix]."),
    Argument("out", "Place of bills: a folder, or s3://bucket[/prefix]."),
    Argument("period", "Month to bill: YYYY-MM, current or previous."),
    Argument("account", "Say only this account's invoice.", ""),
    Argument("accounts", "File of accounts; usage of any other account is an error.", ""),
    Argument("prices", "Price book, or folder of price books; default: Tidegate's own.", ""),
    Argument("close", "yes: the period is over; its invoices hold for good.", "no"),
    Argument("late_periods", "For how many closed periods late records are corrected.", "13"),
    Argument("exports", "Place of exports: what functions sent, what was stored.", ""),
    Argument("kept_days", "For how many days usage records are kept; 0: for good.", "0"),
    Argument("memory", "Heap of Spark in local mode.", MEMORY_DEFAULT),
)
_WRONG: Final = 2


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 after one line that says what is wrong."""
    try:
        given = read(ARGUMENTS, sys.argv[1:] if argv is None else argv)
        given["period"] = period_of(_named_period(given["period"]))
        _check_begun(given["period"], close=given["close"] == "yes")
        given["kept_from"] = _kept_from(given.pop("kept_days"))
        options = Options.of(given)
        if is_missing(options.usage):
            raise JobError(
                f"usage: there is no folder {options.usage}; `tidegate serve` writes its usage to"
                " data/usage, or where its --data or --usage say"
            )
        if options.exports and is_missing(options.exports):
            raise JobError(f"exports: there is no folder {options.exports}")
        if is_unwritable(options.out):
            raise JobError(f"out: {options.out} is no folder that can be written, or made")
        # Read again later; here what is wrong with them is said before Spark takes its time.
        book_for(options.period, options.prices)
        accounts_of(options)
        progress = Progress("bill", _say)
        progress.step("starting Spark")
        session = open_session("tidegate-bill", memory=given["memory"])
        try:
            summary = BillingRun(session, options, progress).run()
        finally:
            session.stop()
        _print(summary, options)
    except JobError as error:
        _say(f"bill: {error}")
        return _WRONG
    return 0


def _kept_from(days: str) -> str:
    """The day before which what is kept for so many days may be gone, "" for 0."""
    if not days.isdecimal():
        raise JobError(f"kept_days: {days!r} is no whole number")
    today = date(*time.gmtime()[:3])
    return str(today - timedelta(days=int(days))) if int(days) else ""


def _check_begun(period: str, *, close: bool) -> None:
    """Raise JobError for a month that has not begun, or that is to be closed before its end."""
    this = time.strftime("%Y-%m", time.gmtime())
    if period > this:
        raise JobError(f"period {period}: it has not begun; this month is {this}, UTC")
    if close and period == this:
        after = next_period(period)
        raise JobError(f"period {period}: it is not over; it can be closed from {after}-01 on, UTC")


def _named_period(text: str) -> str:
    """A period by its name: a schedule says `current` or `previous`."""
    this = time.strftime("%Y-%m", time.gmtime())
    return {"current": this, "previous": next_period(this, -1)}.get(text, text)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is a program


def _print(summary: Summary, options: Options) -> None:
    """What was billed, a line for each account, and what was found wrong."""
    its = {one.account: one for one in summary.invoices}
    if options.account and options.account not in its:
        raise JobError(f"account {options.account}: nothing to bill in {options.period}")
    accounts = [options.account] if options.account else sorted(its)
    total = sum((its[account].payable for account in accounts), Decimal(0))
    lines = [
        f"{account}  {its[account].payable:>14,.2f} USD  {its[account].statement}"
        for account in accounts
    ]
    for line in (*lines, f"{'total':<12}  {total:>14,.2f} USD", *summary.findings):
        print(line)  # noqa: T201 - this is a program


if __name__ == "__main__" and (code := main()):
    # Glue takes any exit, that of success as well, for a failure.
    sys.exit(code)
