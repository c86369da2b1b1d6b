"""`tidegate root`: the root account of a deployment."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from control_plane.cells import StartError
from control_plane.first_access import open_first_access
from data_plane.settings import ServerSettings, SettingError

_WRONG_VALUE = 2
_DEFAULTS = ServerSettings()


@click.command(short_help="Make the root account of a deployment.")
@click.option(
    "--table",
    envvar="TIDEGATE_TABLE",
    required=True,
    show_envvar=True,
    help="Table of the deployment, which must be there.",
)
@click.option(
    "--region",
    envvar=["TIDEGATE_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"],
    default=_DEFAULTS.region,
    show_envvar=True,
    help="Region of the table.",
)
@click.option(
    "--kms-key",
    envvar="TIDEGATE_KMS_KEY",
    metavar="ID|ALIAS|ARN",
    required=True,
    show_envvar=True,
    help="Key of AWS KMS of the deployment.",
)
@click.option(
    "--account",
    envvar="TIDEGATE_ACCOUNT",
    default=_DEFAULTS.account,
    show_envvar=True,
    help="The operator's account, as the deployment has it.",
)
@click.option(
    "--endpoint",
    envvar="TIDEGATE_CELL_ENDPOINT",
    metavar="URL",
    default=_DEFAULTS.endpoint,
    show_envvar=True,
    show_default="AWS's, in the region",
    help="Where the APIs of DynamoDB and KMS are served.",
)
@click.option(
    "--data",
    envvar="TIDEGATE_DATA",
    type=click.Path(path_type=Path, file_okay=False),
    default=_DEFAULTS.data,
    show_envvar=True,
    help="Directory in which the file `credentials` is written.",
)
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
