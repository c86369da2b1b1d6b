"""Which account a command is about."""

import click

account_option = click.option(
    "--account",
    metavar="ID",
    show_default="that of the credentials",
    help="The account; another one than one's own is for the operator.",
)


def of_account(account: str | None) -> dict[str, str]:
    """The parameter of requests."""
    return {"AccountId": account} if account else {}
