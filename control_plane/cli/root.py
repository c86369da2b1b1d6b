"""`tidegate root`: the root account of a deployment."""

import asyncio
import sys
from typing import Any

import click

from control_plane.cells import StartError
from control_plane.cli.setting import DIRECTORY, setting
from control_plane.first_access import open_first_access
from data_plane.settings import ServerSettings, SettingError

_WRONG_VALUE = 2


@click.command(short_help="Make the root account of a deployment.")
@setting("--table", "Table of the deployment, which must be there.", required=True)
@setting(
    "--region",
    "Region of the table.",
    envvar=["TIDEGATE_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"],
)
@setting("--kms-key", "Key of AWS KMS of the deployment.", metavar="ID|ALIAS|ARN", required=True)
@setting("--account", "The operator's account, as the deployment has it.")
@setting(
    "--endpoint",
    "Where the APIs of DynamoDB and KMS are served.",
    envvar="TIDEGATE_CELL_ENDPOINT",
    metavar="URL",
    show_default="AWS's, in the region",
)
@setting("--data", "Directory in which the file `credentials` is written.", type=DIRECTORY)
@click.option(
    "--new-root-key",
    is_flag=True,
    help="Make a new access key, where its file is lost.",
)
def root(endpoint: str, **options: Any) -> None:
    """Make the root account of a deployment, and write its first access key to a file.

    It works on the table itself, with AWS credentials, found where AWS SDKs look for them; they
    need dynamodb:GetItem, BatchGetItem, Query, PutItem and DeleteItem on the table, and
    kms:DescribeKey, Encrypt and Decrypt with the key. A second run says how to use the file that
    is there.
    """
    try:
        settings = ServerSettings(
            cell="dynamodb", endpoint=endpoint, kms_endpoint=endpoint, **options
        )
    except SettingError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(_WRONG_VALUE)
    try:
        click.echo(asyncio.run(open_first_access(settings, _record)))
    except StartError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(1)


def _record(event: str, **fields: object) -> None:
    told = " ".join(f"{name}={value}" for name, value in fields.items())
    click.echo(f"tidegate: {event}: {told}", err=True)
