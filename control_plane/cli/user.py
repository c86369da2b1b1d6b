"""`tidegate user`: users of an account."""

from pathlib import Path

import click
from botocore.exceptions import BotoCoreError, ClientError

from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.of_account import account_option, of_account
from control_plane.cli.refusals import or_exit
from control_plane.cli.streams import print_made
from control_plane.cli.tables import json_option, tell
from control_plane.cli.times import day


@click.group(cls=ConnectedGroup)
@connecting
def user() -> None:
    """Create, list and delete users of an account."""


@user.command("create")
@click.argument("name")
@click.option(
    "--policy",
    "policies",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    show_default="none: the user may do nothing",
    help="An identity policy, a JSON document as IAM has them; may be repeated.",
)
@account_option
@click.pass_obj
def create_user(
    connect: Connect, name: str, policies: tuple[Path, ...], account: str | None
) -> None:
    """Create a user and print its unique id.

    It has no access key yet: `tidegate key create --user NAME` makes one.
    """
    given = {"UserName": name, "Policies": [_read(path) for path in policies]}
    answer = or_exit(lambda: connect().tidegate_create_user(**given, **of_account(account)))

    def undo() -> str:
        try:
            connect().tidegate_delete_user(UserName=name, **of_account(account))
        except (BotoCoreError, ClientError):
            return f"the user {name} was made"
        return f"the user {name} is deleted, as nobody was told of it"

    print_made(answer["UserId"], undo)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path}: it cannot be read", param_hint="--policy") from error


@user.command("list")
@account_option
@json_option
@click.pass_obj
def list_users(connect: Connect, account: str | None, *, as_json: bool) -> None:
    """List the users of an account."""

    def rows() -> list[tuple[str, ...]]:
        pages = connect().get_paginator("tidegate_list_users").paginate(**of_account(account))
        return [
            (
                found["UserName"],
                found["UserId"],
                day(found["CreatedTimestamp"]),
                str(len(found.get("Policies", []))),
            )
            for page in pages
            for found in page.get("Users", [])
        ]

    tell(("NAME", "ID", "CREATED", "POLICIES"), or_exit(rows), as_json=as_json)


@user.command("delete")
@click.argument("name")
@account_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_user(connect: Connect, name: str, account: str | None, *, yes: bool) -> None:
    """Delete a user; none of its access keys works any more."""
    if not yes:
        confirm(f"Delete user {name} and its access keys?")
    or_exit(lambda: connect().tidegate_delete_user(UserName=name, **of_account(account)))
    click.echo(f"Deleted {name}.")
