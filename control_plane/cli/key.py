"""`tidegate key`: access keys."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from botocore.exceptions import BotoCoreError, ClientError

from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.of_account import account_option, of_account
from control_plane.cli.refusals import or_exit
from control_plane.cli.streams import cannot_write, output_name, print_at_once
from control_plane.cli.tables import json_option, tell
from control_plane.cli.times import day

_MODE: Final = 0o600


@click.group(cls=ConnectedGroup)
@connecting
def key() -> None:
    """Create, list and revoke access keys."""


@key.command("create", short_help="Create an access key; print it or write it.")
@click.option("--user", metavar="NAME", show_default="the account's root", help="Whose key it is.")
@click.option(
    "--service",
    metavar="NAME",
    show_default="none",
    help="The service that it authenticates, e.g. sns.amazonaws.com; for the operator.",
)
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    show_default="none: it is printed",
    help="Where to write the key, for its owner alone; there must not be such a file.",
)
@account_option
@click.pass_obj
def create_key(
    connect: Connect,
    user: str | None,
    service: str | None,
    file: Path | None,
    account: str | None,
) -> None:
    """Create an access key and print it, or write it, as a credentials file of AWS SDKs.

    The secret is shown once. A user, and the root of an account, has two keys at most.
    """
    given = {
        **({"UserName": user} if user else {}),
        **({"Service": service} if service else {}),
        **of_account(account),
    }

    def create() -> tuple[dict[str, str], str]:
        client = connect()
        return client.tidegate_create_access_key(**given), client.meta.region_name

    name = output_name() if file is None else str(file)
    with _output(file) as write:
        answer, region = or_exit(create)
        try:
            write(
                f"[default]\naws_access_key_id = {answer['AccessKeyId']}\n"
                f"aws_secret_access_key = {answer['SecretAccessKey']}\nregion = {region}\n"
            )
        except OSError as error:
            told = _revoke_unseen(connect, answer["AccessKeyId"], account)
            raise click.ClickException(f"{cannot_write(name, error)}; {told}") from error


def _revoke_unseen(connect: Connect, access_key_id: str, account: str | None) -> str:
    """Revoke a key whose secret nobody has, and say what became of it."""
    try:
        connect().tidegate_revoke_access_key(AccessKeyId=access_key_id, **of_account(account))
    except (BotoCoreError, ClientError):
        return f"the key was made, and nobody has its secret: tidegate key revoke {access_key_id}"
    return f"the key {access_key_id} is revoked, as nobody has its secret"


@contextmanager
def _output(path: Path | None) -> Iterator[Callable[[str], None]]:
    """What writes to standard output, or to a new file of mode 600.

    It is open before there is a secret to write. What it writes has left when it returns.
    """
    if path is None:
        if sys.stdout is None:
            raise click.ClickException("standard output is closed: name a --file for the key")
        yield print_at_once
        return
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    done = False
    try:
        with os.fdopen(opened, "wb", buffering=0) as file:

            def write(text: str) -> None:
                left = text.encode()
                while left:
                    left = left[file.write(left) :]

            yield write
        done = True
    finally:
        if not done:
            path.unlink()


@key.command("list", short_help="List the access keys of an account.")
@account_option
@json_option
@click.pass_obj
def list_keys(connect: Connect, account: str | None, *, as_json: bool) -> None:
    """List the access keys of an account, of its root and of its users."""

    def rows() -> list[tuple[str, ...]]:
        pages = connect().get_paginator("tidegate_list_access_keys").paginate(**of_account(account))
        return [
            (
                found["AccessKeyId"],
                found.get("UserName") or found.get("Service") or "(root)",
                day(found["CreatedTimestamp"]),
            )
            for page in pages
            for found in page.get("AccessKeys", [])
        ]

    tell(("ID", "OF", "CREATED"), or_exit(rows), as_json=as_json)


@key.command("revoke", short_help="Revoke an access key for good.")
@click.argument("access_key_id", metavar="ID")
@account_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def revoke_key(connect: Connect, access_key_id: str, account: str | None, *, yes: bool) -> None:
    """Revoke an access key: it works for five seconds at most, then never again."""
    if not yes:
        confirm(f"Revoke access key {access_key_id} for good?")
    or_exit(
        lambda: connect().tidegate_revoke_access_key(
            AccessKeyId=access_key_id, **of_account(account)
        )
    )
    click.echo(f"Revoked {access_key_id}.")
