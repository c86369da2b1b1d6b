"""`tidegate bill`: run the Spark job that bills, in the environment that has Spark."""

import subprocess
from pathlib import Path
from typing import Final

import click

from control_plane.cli.spark import python_option, spark_python
from control_plane.cli.times import month
from data_plane.system import SystemClock

_JOB: Final = "glue_jobs.bill"


@click.command(short_help="Bill a month of usage: invoices, FOCUS tables, statements.")
@click.option(
    "--usage",
    default="data/usage",
    metavar="PLACE",
    help="Where usage records are: a directory, or s3://bucket[/prefix].",
)
@click.option(
    "--out",
    default="data/bills",
    metavar="PLACE",
    help="Where bills go: a directory, or s3://bucket[/prefix].",
)
@click.option(
    "--period",
    show_default="this month",
    metavar="YYYY-MM",
    help="Month to bill, UTC.",
)
@click.option(
    "--account",
    default="",
    metavar="ID",
    show_default="all",
    help="Say only this account's invoice.",
)
@click.option(
    "--accounts",
    default="",
    metavar="FILE",
    show_default="none: every account is billed by its id",
    help="Names of accounts, and their fair queues; usage of any other account is an error.",
)
@click.option(
    "--customers",
    default="",
    metavar="FILE",
    show_default="none: every account pays for itself",
    help="Who sells, who pays for which accounts on what terms, and credits.",
)
@click.option(
    "--prices",
    default="",
    metavar="PLACE",
    show_default="Amazon SQS's of us-east-1",
    help="A price book (JSON), or a folder of them.",
)
@click.option(
    "--exports",
    default="",
    metavar="PLACE",
    show_default="none",
    help="Exports of the service: what functions sent without a record, and what was stored.",
)
@click.option(
    "--close",
    is_flag=True,
    help="The month is over: its invoices hold; what comes later is corrected in the next.",
)
@click.option(
    "--accept",
    default="",
    metavar="NAME,...",
    show_default="nothing",
    help="With --close: files put aside, writers and cells by which the month is closed in doubt.",
)
@click.option(
    "--gap-minutes",
    type=click.IntRange(min=0),
    default=2,
    metavar="MINUTES",
    show_default=True,
    help="With --close: a longer gap is refused; so is one of which missing records are known.",
)
@click.option(
    "--kept-days",
    type=click.IntRange(min=0),
    default=0,
    metavar="DAYS",
    show_default="for good",
    help="For how long usage records are kept: what is older and missing is told as expired.",
)
@click.option(
    "--chained",
    default="",
    metavar="PLACE",
    show_default="the place of usage",
    help="Whose chain of digests has the usage; its newest one is printed on invoices.",
)
@click.option("--memory", default="3g", metavar="SIZE", help="Heap of Spark.")
@python_option
@click.pass_context
def bill(  # noqa: PLR0913 - one for each option
    context: click.Context,
    *,
    usage: str,
    out: str,
    period: str | None,
    account: str,
    accounts: str,
    customers: str,
    prices: str,
    exports: str,
    close: bool,
    accept: str,
    gap_minutes: int,
    kept_days: int,
    chained: str,
    memory: str,
    python: Path | None,
) -> None:
    """Bill a month of usage records: invoices, FOCUS tables, and statements to read.

    It can be run again at any time, and writes the same bytes for the same records. docs/billing.md
    says what it writes. Code 1: something was found; 2: nothing was billed, or it was not closed.
    """
    given = {
        "usage": usage,
        "out": out,
        "period": period or month(SystemClock().now_us() // 1_000_000),
        "account": account,
        "accounts": accounts,
        "customers": customers,
        "prices": prices,
        "exports": exports,
        "close": "yes" if close else "no",
        "accept": accept,
        "gap_minutes": str(gap_minutes),
        "kept_days": str(kept_days),
        "chained": chained,
        "memory": memory,
    }
    arguments = (f"--{name}={value}" for name, value in given.items())
    command = [str(spark_python(python)), "-m", _JOB, *arguments]
    ran = subprocess.run(command, check=False)  # noqa: S603 - the project's own program
    context.exit(ran.returncode)
