"""`tidegate usage`: what an account has used in a month, and what that costs so far."""

import json
from decimal import Decimal
from typing import Any, Final

import click

from control_plane.cli.connection import Connect, connected
from control_plane.cli.of_account import account_option, of_account
from control_plane.cli.refusals import or_exit
from control_plane.cli.tables import lines
from control_plane.cli.times import day

_GROUPS: Final = {
    "queue": "Queue",
    "day": "Day",
    "region": "Region",
    "operation": "Operation",
    "tag": "Tag",
}
_COLUMNS: Final = {
    "Day": "DAY",
    "Region": "REGION",
    "QueueName": "QUEUE",
    "Operation": "OPERATION",
    "TagValue": "TAG",
}
_AMOUNTS: Final = ("Requests", "Units", "Messages", "Bytes")


@click.command(short_help="Show what an account has used this month, and what that costs so far.")
@account_option
@click.option("--period", metavar="YYYY-MM", show_default="this month", help="Month, UTC.")
@click.option(
    "--by",
    "groups",
    type=click.Choice(list(_GROUPS)),
    multiple=True,
    default=("queue",),
    show_default=True,
    help="What usage is added up by; may be repeated.",
)
@click.option("--tag", metavar="KEY", help="The tag of queues to add up by.")
@click.option("--json", "as_json", is_flag=True, help="Write the answer as JSON, for machines.")
@connected
def usage(  # noqa: PLR0913 - one for each option
    connect: Connect,
    *,
    account: str | None,
    period: str | None,
    groups: tuple[str, ...],
    tag: str | None,
    as_json: bool,
) -> None:
    """Show what an account has used in a month by queue, day or tag, and what that costs so far.

    It is made from the records that the bill is made of: docs/usage.md. Costs are exact in JSON; in
    the table they have six places.
    """
    wanted = [_GROUPS[group] for group in groups]
    if tag and "Tag" not in wanted:
        wanted = [*(its for its in wanted if groups != ("queue",)), "Tag"]
    asked: dict[str, Any] = {
        **of_account(account),
        **({"Period": period} if period else {}),
        **({"TagKey": tag} if tag else {}),
        "GroupBy": wanted,
    }
    answer = or_exit(lambda: _whole(connect(), asked))
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for line in _table(answer):
        click.echo(line)


def _whole(client: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The answer with the rows of all pages."""
    answer: dict[str, Any] = {}
    for page in client.get_paginator("tidegate_get_usage").paginate(**asked):
        page.pop("ResponseMetadata")
        rows = [*answer.get("Usage", []), *page.get("Usage", [])]
        answer = {**page, **answer, "Usage": rows}
    answer.pop("NextToken", None)
    return answer


def _table(answer: dict[str, Any]) -> list[str]:
    rows: list[dict[str, Any]] = answer["Usage"]
    groups = [name for name in _COLUMNS if rows and name in rows[0]]
    head = [*(_COLUMNS[name] for name in groups), *(name.upper() for name in _AMOUNTS)]
    total = {**dict.fromkeys(groups, ""), **answer["Total"]}
    if groups:
        total[groups[0]] = "total"
    told = [_cells(groups, row) for row in (*rows, total)]
    cost = f"COST {answer['Currency']}"
    heading = f"Account {answer['AccountId']}, {answer['Period']}, as of "
    heading += f"{day(answer['AsOfTimestamp'])}, prices {answer['PriceBook']}"
    shown = [heading, *lines([(*head, cost), *told], numbers=len(groups) == 1)]
    return [*shown, *(_budget(one, answer["Currency"]) for one in answer.get("Budgets", []))]


def _cells(groups: list[str], row: dict[str, Any]) -> tuple[str, ...]:
    named = [row[name] or "-" if name in row else "" for name in groups]
    return (*named, *(f"{row[name]:,}" for name in _AMOUNTS), f"{Decimal(row['Cost']):,.6f}")


def _budget(one: dict[str, Any], currency: str) -> str:
    unit = currency if one["Of"] == "cost" else "requests"
    reached = one.get("ReachedTimestamp")
    told = f"reached {day(reached)}" if reached else "not reached"
    if one.get("Notification"):
        told += f", notification {one['Notification']}"
    return f"Budget of {one['Limit']} {unit}: {told}"
