"""`tidegate cost`."""

import json
from decimal import Decimal
from typing import Any, Final

import click

from control_plane.cli.tables import lines
from control_plane.core.cost import (
    DOORS,
    MEMORY_MB_DEFAULT,
    Bill,
    Line,
    Load,
    Timing,
    bill,
    sqs_bill,
)
from control_plane.core.price_list import MILLION, PRICES, READ_ON, REGION, SECONDS_A_MONTH
from control_plane.core.request_units import RANDOM_TEXT_SHARE

ARCHITECTURES: Final = ("arm64", "x86_64")
_DAY_S: Final = 86_400
_TIMING: Final = Timing()


@click.command()
@click.option(
    "--messages-per-s",
    type=float,
    required=True,
    metavar="NUMBER",
    help="Messages a second, each sent, received once and deleted; an average over the month.",
)
@click.option("--size", "size_bytes", type=int, default=1024, metavar="BYTES", help="Of a message.")
@click.option("--batch", type=int, default=1, metavar="1-10", help="Messages in each call.")
@click.option("--fifo", is_flag=True, help="A FIFO queue.")
@click.option(
    "--empty-receives",
    "empty_receives_per_s",
    type=float,
    default=0.0,
    metavar="NUMBER",
    help="Receives a second that find nothing.",
)
@click.option(
    "--wait",
    "wait_s",
    type=float,
    default=0.0,
    metavar="SECONDS",
    help="For how long each of those waits. Functions are paid for while they wait.",
)
@click.option(
    "--door",
    metavar=f"[{'|'.join(DOORS)}]",
    default="rest",
    help="API Gateway and Lambda; a function URL; servers on DynamoDB; one server on its disk.",
)
@click.option("--arch", metavar=f"[{'|'.join(ARCHITECTURES)}]", default="arm64", help="Of Lambda.")
@click.option(
    "--memory", "memory_mb", type=int, default=MEMORY_MB_DEFAULT, metavar="MB", help="Of Lambda."
)
@click.option(
    "--front-ends",
    type=int,
    default=0,
    metavar="NUMBER",
    show_default="as many as the load keeps busy",
    help="Functions or servers that take turns on the queue.",
)
@click.option(
    "--servers",
    type=int,
    default=0,
    metavar="NUMBER",
    show_default="two, or what the load needs",
    help="Servers that run.",
)
@click.option(
    "--text-share",
    type=float,
    default=RANDOM_TEXT_SHARE,
    metavar="0-1",
    help="What compression leaves of a body; 1 for ciphertext and pictures.",
)
@click.option(
    "--retention-days", type=float, default=4.0, metavar="DAYS", help="Retention of the queue."
)
@click.option(
    "--dynamodb-ms", type=float, default=_TIMING.dynamodb_ms, help="A request to DynamoDB takes."
)
@click.option("--s3-ms", type=float, default=_TIMING.s3_ms, help="A request to S3 takes.")
@click.option(
    "--own-ms", type=float, default=_TIMING.own_ms, help="A function works on a call itself."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cost(  # noqa: PLR0913 - one for each option
    *,
    arch: str,
    retention_days: float,
    dynamodb_ms: float,
    s3_ms: float,
    own_ms: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Say what a load costs in a month, beside Amazon SQS.

    Prices are a dated list for us-east-1, on demand, without free tiers; requests are those that
    tests count; times of functions are assumptions. docs/cost.md has all of it.
    """
    _one_of("door", options["door"], DOORS)
    _one_of("arch", arch, ARCHITECTURES)
    try:
        load = Load(
            **options,
            architecture="arm64" if arch == "arm64" else "x86_64",
            retention_s=round(retention_days * _DAY_S),
            timing=Timing(dynamodb_ms=dynamodb_ms, s3_ms=s3_ms, own_ms=own_ms),
        )
        ours, theirs = bill(load), sqs_bill(load)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    click.echo(json.dumps(_as_json(ours, theirs), indent=2) if as_json else _as_text(ours, theirs))


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise click.BadParameter(f"{value!r} is none of {', '.join(allowed)}", param_hint=option)


def _as_text(ours: Bill, theirs: Bill) -> str:
    load = ours.load
    kind = "FIFO queue" if load.fifo else "standard queue"
    front_ends = f"; {ours.front_ends} front ends at work" if ours.front_ends > 1 else ""
    what = f"{load.messages_per_s:g} messages/s of {load.size_bytes:,} bytes, {load.batch} a call"
    head = (
        f"{what}, {kind}, door {load.door}{front_ends}",
        f"{REGION}, prices of {READ_ON}, a month of {SECONDS_A_MONTH // 3600} hours",
    )
    rows = [("", "amount", "of", "USD each", "USD a month")]
    for its, name in ((ours, "Tidegate"), (theirs, "Amazon SQS")):
        rows += [_row(line) for line in its.lines if line.amount]
        rows += [
            (name, "", "", "", f"{its.usd:,.2f}"),
            ("  for a million messages", "", "", "", f"{_each(its):,.2f}"),
        ]
    return "\n".join([*head, "", *lines(rows, numbers=True), "", _verdict(ours, theirs)])


def _row(line: Line) -> tuple[str, str, str, str, str]:
    price = PRICES[line.price]
    return (
        f"  {line.name}",
        f"{line.amount:,.2f}",
        price.unit,
        f"{price.first:f}",
        f"{line.usd:,.2f}",
    )


def _each(its: Bill) -> Decimal:
    """Dollars for a million messages, with what is fixed."""
    messages = Decimal(repr(its.load.messages_per_s)) * SECONDS_A_MONTH
    return its.usd * MILLION / messages


def _verdict(ours: Bill, theirs: Bill) -> str:
    if ours.usd > theirs.usd:
        return f"Amazon SQS costs less: Tidegate is {ours.usd / theirs.usd:.1f} times as much."
    return f"Tidegate costs less: {ours.usd / theirs.usd:.2f} of Amazon SQS."


def _as_json(ours: Bill, theirs: Bill) -> dict[str, Any]:
    return {
        "region": REGION,
        "prices_of": READ_ON,
        "front_ends": ours.front_ends,
        "tidegate": _bill_as_json(ours),
        "sqs": _bill_as_json(theirs),
    }


def _bill_as_json(its: Bill) -> dict[str, Any]:
    return {
        "usd_a_month": _rounded(its.usd),
        "usd_a_month_fixed": _rounded(its.usd_fixed),
        "usd_per_million_messages": _rounded(_each(its)),
        "lines": [
            {
                "name": line.name,
                "amount": _rounded(line.amount),
                "unit": PRICES[line.price].unit,
                "usd_a_month": _rounded(line.usd),
                "fixed": line.fixed,
            }
            for line in its.lines
        ],
    }


def _rounded(number: Decimal) -> float:
    return float(round(number, 4))
