"""The job `bill`: from usage records to invoices, FOCUS tables and statements of a period.

    python -m glue_jobs.bill --usage data/usage --out data/bills --period 2026-11

docs/billing.md says what it writes. What it does depends on its inputs and arguments alone: no
clock (but for names of periods, and for what is kept no longer), no randomness; so it can be run
again, and writes the same bytes.
"""

import re
import sys
import time
import traceback
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import Final

from glue_jobs.arguments import GLUE, Argument, JobError, read
from glue_jobs.billing_options import Options, Summary, accounts_of
from glue_jobs.billing_run import BillingRun
from glue_jobs.invoicing import next_period, period_of
from glue_jobs.outputs import Pointer, pointers
from glue_jobs.places import is_missing, is_unwritable, place_of
from glue_jobs.progress import BILL_STEPS, Progress, told_by_spark
from glue_jobs.session import MEMORY_DEFAULT, open_session
from glue_jobs.terms import terms_for

ARGUMENTS: Final = (
    Argument("usage", "Place of usage records: a folder, or s3://bucket[/prefix]."),
    Argument("out", "Place of bills: a folder, or s3://bucket[/prefix]."),
    Argument("period", "Month to bill: YYYY-MM, current, previous, or due: to be closed next."),
    Argument("account", "Say only this account's invoice.", ""),
    Argument("accounts", "File of accounts; usage of any other account is an error.", ""),
    Argument("customers", "File of the seller, of customers and their terms, and of credits.", ""),
    Argument("prices", "Price book, or folder of price books; default: Tidegate's own.", ""),
    Argument("close", "yes: the period is over; its invoices hold for good.", "no"),
    Argument("accept", "What is in doubt and closed all the same: names, commas between.", ""),
    Argument("gap_minutes", "A gap of no more minutes keeps no month open.", "2"),
    Argument("late_periods", "For how many closed periods late records are corrected.", "13"),
    Argument("exports", "Place of exports: what functions sent, what was stored.", ""),
    Argument("chained", "Place whose chain of digests has the usage; default: that place.", ""),
    Argument("kept_days", "For how many days usage records are kept; 0: for good.", "0"),
    Argument("memory", "Heap of Spark in local mode.", MEMORY_DEFAULT),
)
FINDINGS: Final = 1
"""The exit code of a bill that was made, with lines about what a person should look at."""

_WRONG: Final = 2
_MEMORY: Final = re.compile("[1-9][0-9]*[kmgt]", re.IGNORECASE)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, `FINDINGS`, or 2 after what says why nothing was billed, or closed."""
    try:
        given = read(ARGUMENTS, sys.argv[1:] if argv is None else argv)
        if (named := _named_period(given["period"], given["out"])) is None:
            _say("bill: no month is to be closed")
            return 0
        given["period"] = period_of(named)
        _check_begun(given["period"], close=given["close"] == "yes")
        given["kept_from"] = _kept_from(given.pop("kept_days"))
        options = Options.of(given)
        if not _MEMORY.fullmatch(given["memory"]):
            raise JobError(f"memory: {given['memory']!r} is no size, such as 3g or 512m")
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
        terms_for(options.period, options.prices, options.customers)
        accounts_of(options)
        progress = Progress("bill", _say, BILL_STEPS)
        progress.step("starting Spark")
        session = open_session("tidegate-bill", memory=given["memory"])
        try:
            with told_by_spark(session, progress):
                summary = BillingRun(session, options, progress).run()
        finally:
            session.stop()
        _print(summary, options)
    except JobError as error:
        _say(f"bill: {error}")
        return _WRONG
    except Exception:  # noqa: BLE001 - told whole; and Python's own exit code is that of findings
        traceback.print_exc()
        return _WRONG
    return FINDINGS if summary.findings else 0


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


def _named_period(text: str, out: str) -> str | None:
    """A period by its name: a schedule says `current`, `previous` or `due`; None: none is due."""
    this = time.strftime("%Y-%m", time.gmtime())
    if text != "due":
        return {"current": this, "previous": next_period(this, -1)}.get(text, text)
    its = due(pointers(place_of(out)), next_period(this, -1))
    return its if its < this else None


def due(runs: Sequence[Pointer], previous: str) -> str:
    """The month to be closed next: behind the last closed one, or the first that was billed."""
    closed = [its.period for its in runs if its.closed]
    if closed:
        return next_period(closed[-1])
    return min(previous, *(its.period for its in runs)) if runs else previous


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is a program


def _print(summary: Summary, options: Options) -> None:
    """What was billed, a line for each payer, and what was found wrong."""
    its = {one.account: one for one in summary.invoices}
    payer = summary.payers.get(options.account, options.account)
    if payer and payer not in its:
        raise JobError(f"account {options.account}: nothing to bill in {options.period}")
    told = [its[payer]] if payer else [its[one] for one in sorted(its)]
    totals: dict[str, Decimal] = {}
    lines = []
    for one in told:
        totals[one.currency] = totals.get(one.currency, Decimal(0)) + one.payable
        number = f"  {one.number}" if one.number else ""
        lines.append(
            f"{one.account:<12}  {one.payable:>14,.2f} {one.currency}{number}  {one.statement}"
        )
    for currency, total in sorted(totals.items()) or [("USD", Decimal(0))]:
        lines.append(f"{'total':<12}  {total:>14,.2f} {currency}")
    for line in (*lines, *summary.findings):
        print(line)  # noqa: T201 - this is a program


def exit_code(code: int) -> int:
    """Glue takes any code but 0 for a failure, and what was found is no failure."""
    return 0 if code == FINDINGS and find_spec(GLUE) is not None else code


if __name__ == "__main__" and (code := exit_code(main())):
    # Glue takes any exit, that of success as well, for a failure.
    sys.exit(code)
