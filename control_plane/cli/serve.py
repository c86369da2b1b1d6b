"""`tidegate serve`."""

import sys
from typing import Any

import click

from control_plane.cells import StartError
from control_plane.cli.setting import DIRECTORY, FILE, setting
from control_plane.server import run
from data_plane.settings import CACHE_LAYOUTS, CELLS, LOG_LEVELS, ServerSettings, SettingError

_WRONG_VALUE = 2


@click.command()
@setting("--host", "Address to listen on; without authentication only a loopback address.")
@setting("--port", "Port to listen on.")
@setting(
    "--data", "Directory of the embedded cell; it is made if it does not exist.", type=DIRECTORY
)
@setting("--cells", "How many embedded cells there are; several hold copies for each other.")
@setting(
    "--cell-data",
    "Directories of several cells, which may be on disks of their own.",
    metavar="DIRECTORY,...",
    show_default="cell-1, ... in --data",
)
@setting(
    "--cell",
    "Where messages are stored: in a directory, or in a DynamoDB table.",
    metavar=f"[{'|'.join(CELLS)}]",
)
@setting(
    "--endpoint",
    "Where DynamoDB's API is served.",
    envvar="TIDEGATE_CELL_ENDPOINT",
    metavar="URL",
    show_default="AWS's, in the region",
)
@setting(
    "--table", "Table of the DynamoDB cell, and the cell's name; it is made if it does not exist."
)
@setting(
    "--cells-dynamodb",
    "Further DynamoDB tables; they and --table hold copies for each other. Without a region they"
    " are in that of --region; without an endpoint AWS's own serves them.",
    metavar="NAME=[REGION/][ENDPOINT/]TABLE,...",
    show_default="none",
)
@setting("--connections", "How many requests to DynamoDB may be under way.")
@setting(
    "--cell-deadline",
    "For how long a request to DynamoDB is repeated.",
    field="cell_deadline_s",
    metavar="SECONDS",
)
@setting(
    "--blobs",
    "Where bodies lie that are too big for DynamoDB; several servers need one in S3.",
    metavar="s3://BUCKET[/PREFIX]|DIRECTORY",
    show_default="blobs in --data",
)
@setting(
    "--blobs-endpoint",
    "Where S3's API is served.",
    metavar="URL",
    show_default="that of --endpoint",
)
@setting(
    "--blob-threshold",
    "How big a packed body may be that lies in DynamoDB.",
    field="blob_threshold_bytes",
    metavar="BYTES",
)
@setting(
    "--master-keys",
    "Keys under which what is stored is sealed; made at the first start. Keep a copy.",
    type=FILE,
    metavar="FILE",
    show_default="master.keys in --data",
)
@setting(
    "--kms-key",
    "Key of AWS KMS to use instead of a file of master keys.",
    metavar="ID|ALIAS|ARN",
    show_default="none",
)
@setting(
    "--kms-endpoint",
    "Where KMS's API is served.",
    metavar="URL",
    show_default="AWS's, in the region",
)
@setting(
    "--usage",
    "Where records of what was served are stored, each minute: for bills and audits.",
    metavar="s3://BUCKET[/PREFIX]|DIRECTORY|off",
    show_default="usage in --data",
)
@setting(
    "--usage-endpoint",
    "Where S3's API is served.",
    metavar="URL",
    show_default="that of --endpoint",
)
@setting(
    "--auth",
    "Whether requests must be signed; 'off' lets everybody do everything, on loopback only.",
    metavar="[on|off]",
)
@setting(
    "--new-root-key",
    "Make a new access key of the root account, whose file in --data is lost.",
    is_flag=True,
)
@setting(
    "--account",
    "The operator's account; without authentication also that of callers whose access key id"
    " is no account id (12 digits).",
)
@setting("--region", "Region of callers whose requests name none, and of the table of --table.")
@setting(
    "--base-url",
    "Scheme and host of queue URLs.",
    metavar="URL",
    show_default="those that the caller used",
)
@setting(
    "--tls-certificate",
    "Serve HTTPS with this certificate (PEM, followed by those that lead to its root).",
    type=FILE,
    metavar="FILE",
)
@setting(
    "--tls-key", "Private key of --tls-certificate (PEM, not encrypted).", type=FILE, metavar="FILE"
)
@setting(
    "--metadata-cache",
    "Nodes of memcached that servers share, so that they ask the registry less often.",
    metavar="HOST:PORT,...",
    show_default="none",
)
@setting(
    "--metadata-cache-layout",
    "Whether each of those nodes has a share of what is cached, or all of it.",
    metavar=f"[{'|'.join(CACHE_LAYOUTS)}]",
)
@setting(
    "--metadata-cache-tls",
    "Whether those nodes speak TLS: off; on, with certificates that this machine trusts; or with"
    " those of the authorities in a file (PEM).",
    metavar="[off|on|FILE]",
)
@setting(
    "--log-level",
    "Log failures; and refused requests; and every request.",
    metavar=f"[{'|'.join(LOG_LEVELS)}]",
)
@setting(
    "--sixty-second-rules/--no-sixty-second-rules",
    "As SQS, refuse a purge, and a new queue of a deleted one's name, for 60 seconds.",
)
@setting(
    "--auto-create-queues/--no-auto-create-queues",
    "Create a missing queue with the first message sent to it.",
)
@setting(
    "--queues",
    "TOML file of queues that exist when the server serves; missing ones are created.",
    field="queues_file",
    type=FILE,
    metavar="FILE",
)
@setting(
    "--request-deadline",
    "How long a request may take, beside the time for which it waits for messages.",
    field="request_deadline_s",
    metavar="SECONDS",
)
@setting(
    "--requests",
    "How many requests are worked on at a time; more are answered 503.",
    field="requests_max",
)
@setting(
    "--long-polls",
    "How many long polls may wait at a time; more are throttled.",
    field="long_polls_max",
)
@setting(
    "--lag",
    "Requests that have waited longer before the server looks at them are answered 503.",
    field="lag_s_max",
    metavar="SECONDS",
)
@setting(
    "--grace",
    "How long requests in flight may take to finish when the server stops.",
    field="grace_s",
    metavar="SECONDS",
)
def serve(**options: Any) -> None:
    """Serve queues until Ctrl-C or SIGTERM; a second one ends at once."""
    try:
        settings = ServerSettings(**options)  # each option has the name of its field
    except SettingError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(_WRONG_VALUE)
    try:
        sys.exit(run(settings, click.echo))
    except StartError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(1)
