"""`tidegate budget`: thresholds of a month, and who is told of them."""

from typing import Any

import click

from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.of_account import account_option, of_account
from control_plane.cli.refusals import or_exit
from control_plane.cli.tables import json_option, tell
from control_plane.cli.times import day


@click.group(cls=ConnectedGroup, short_help="Set and list budgets: thresholds of each month.")
@connecting
def budget() -> None:
    """Set and list budgets: thresholds of each month, of which somebody is told once."""


@budget.command("set", short_help="Put budgets in the place of those that are there.")
@click.argument("budgets", metavar="[cost=AMOUNT|requests=NUMBER]...", nargs=-1)
@account_option
@click.option("--webhook", metavar="URL", help="Who is told; the operator allows the URL.")
@click.option("--queue", metavar="NAME", help="Standard queue of the account that gets a message.")
@click.pass_obj
def set_budgets(
    connect: Connect,
    budgets: tuple[str, ...],
    account: str | None,
    webhook: str | None,
    queue: str | None,
) -> None:
    """Put these budgets in the place of those that are there; without any there are none.

    The log and the metrics of the server tell of each in any case.
    """
    wanted = [_read(text, webhook, queue) for text in budgets]
    asked = {**of_account(account), "Budgets": wanted}
    answer = or_exit(lambda: connect().tidegate_set_budgets(**asked))
    _show(answer.get("Budgets", []))


@budget.command("list")
@account_option
@json_option
@click.pass_obj
def list_budgets(connect: Connect, account: str | None, *, as_json: bool) -> None:
    """List budgets, and what became of them this month."""
    asked = {**of_account(account), "MaxResults": 1}
    answer = or_exit(lambda: connect().tidegate_get_usage(**asked))
    _show(answer.get("Budgets", []), as_json=as_json)


def _read(text: str, webhook: str | None, queue: str | None) -> dict[str, str]:
    of, _, limit = text.partition("=")
    if of not in {"cost", "requests"} or not limit:
        raise click.BadParameter(f"{text!r} is neither cost=AMOUNT nor requests=NUMBER")
    told = {"WebhookUrl": webhook, "QueueName": queue}
    return {"Of": of, "Limit": limit, **{name: its for name, its in told.items() if its}}


def _show(budgets: list[dict[str, Any]], *, as_json: bool = False) -> None:
    rows = [
        (
            one["Of"],
            one["Limit"],
            one.get("WebhookUrl") or one.get("QueueName", ""),
            day(one["ReachedTimestamp"]) if "ReachedTimestamp" in one else "",
            one.get("Notification", ""),
        )
        for one in budgets
    ]
    tell(("OF", "LIMIT", "TOLD", "REACHED", "NOTIFICATION"), rows, as_json=as_json)
