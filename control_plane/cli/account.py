"""`tidegate account`: for the operator."""

import click
from botocore.exceptions import BotoCoreError, ClientError

from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.quotas import read_quotas
from control_plane.cli.refusals import or_exit
from control_plane.cli.streams import print_made
from control_plane.cli.tables import json_option, tell
from control_plane.cli.times import day


@click.group(cls=ConnectedGroup, short_help="Create, list and close accounts; set quotas.")
@connecting
def account() -> None:
    """Create, list and close accounts, and set their quotas; for the operator."""


@account.command("create")
@click.argument("name")
@click.option("--id", "account_id", show_default="random", help="The account's id, 12 digits.")
@click.option(
    "--quota",
    "quotas",
    metavar="NAME=NUMBER",
    multiple=True,
    show_default="the usual ones",
    help="What the account may ask of a server; may be repeated. What is not named has no limit.",
)
@click.pass_obj
def create_account(
    connect: Connect, name: str, account_id: str | None, quotas: tuple[str, ...]
) -> None:
    """Create an account and print its id.

    It has no access key yet: `tidegate key create --account ID` makes one for its root.
    """
    given = {
        "Name": name,
        **({"AccountId": account_id} if account_id else {}),
        **({"Quotas": read_quotas(quotas)} if quotas else {}),
    }
    answer = or_exit(lambda: connect().tidegate_create_account(**given))
    made_id = answer["AccountId"]

    def undo() -> str:
        if account_id:  # Closed it could never be made again, and who asked knows it.
            return f"the account {made_id} was made"
        try:
            connect().tidegate_close_account(AccountId=made_id)
        except (BotoCoreError, ClientError):
            return f"the account {made_id} was made"
        return f"the account {made_id} is closed, as nobody was told of it"

    print_made(made_id, undo)


@account.command("list")
@json_option
@click.pass_obj
def list_accounts(connect: Connect, *, as_json: bool) -> None:
    """List accounts."""

    def rows() -> list[tuple[str, ...]]:
        pages = connect().get_paginator("tidegate_list_accounts").paginate()
        return [
            (
                found["AccountId"],
                found["Name"],
                day(found["CreatedTimestamp"]),
                day(found["ClosedTimestamp"]) if "ClosedTimestamp" in found else "",
            )
            for page in pages
            for found in page.get("Accounts", [])
        ]

    tell(("ID", "NAME", "CREATED", "CLOSED"), or_exit(rows), as_json=as_json)


@account.command("close", short_help="Close an account for good; its queues stay.")
@click.argument("account_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def close_account(connect: Connect, account_id: str, *, yes: bool) -> None:
    """Close an account for good: none of its access keys works any more. Its queues stay."""
    if not yes:
        confirm(f"Close account {account_id} for good?")
    or_exit(lambda: connect().tidegate_close_account(AccountId=account_id))
    click.echo(f"Closed {account_id}.")


@account.command("quotas", short_help="Show, or change, the quotas of an account.")
@click.argument("account_id", metavar="ID")
@click.argument("changes", metavar="[NAME=NUMBER]...", nargs=-1)
@json_option
@click.pass_obj
def set_quotas(
    connect: Connect, account_id: str, changes: tuple[str, ...], *, as_json: bool
) -> None:
    """Show the quotas of an account, after changing those that are given (0: no limit)."""
    changed = read_quotas(changes)

    def quotas() -> dict[str, int]:
        client = connect()
        held = _quotas(client, account_id)
        if not changed:
            return held
        wanted = {name: number for name, number in {**held, **changed}.items() if number}
        answer = client.tidegate_set_quotas(AccountId=account_id, Quotas=wanted)
        return dict(answer.get("Quotas", {}))

    found = or_exit(quotas)
    tell(("QUOTA", "NUMBER"), list(found.items()), as_json=as_json, numbers=True)


def _quotas(client: object, account_id: str) -> dict[str, int]:
    """Raises ValueError where there is no such account."""
    pages = client.get_paginator("tidegate_list_accounts").paginate()  # type: ignore[attr-defined]
    for page in pages:
        for found in page.get("Accounts", []):
            if found["AccountId"] == account_id:
                return dict(found.get("Quotas", {}))
    raise ValueError(f"There is no account {account_id}.")
