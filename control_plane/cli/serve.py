"""`tidegate serve`."""

import sys
from pathlib import Path
from typing import Any

import click

from control_plane.cells import StartError
from control_plane.cli.root_key import root_key_options, take_root_key
from control_plane.cli.setting import FILE, setting
from control_plane.cli.shown_settings import SHOW, shown_settings
from control_plane.process import run
from data_plane.http.logs import say
from data_plane.settings import (
    CACHE_LAYOUTS,
    CELLS,
    LOG_FORMATS,
    LOG_LEVELS,
    ServerSettings,
    SettingError,
)
from data_plane.system import SystemClock

_WRONG_VALUE = 2
_SAYING_S = 2.0


@click.command()
@setting("--host", "Address to listen on; without authentication only a loopback address.")
@setting("--port", "Port to listen on; 0: one that is free.")
@setting(
    "--data",
    "Directory of the embedded cell; it is made if it does not exist.",
    # Whose directory it is, where this user cannot read it, is said by who looks at it.
    type=click.Path(path_type=Path, file_okay=False, readable=False),
)
@setting(
    "--begin-anew",
    "Begin with an empty store in --data, although what was stored there is lost.",
    is_flag=True,
)
@setting(
    "--give-up",
    "Start without these cells, which are lost, and part with what no other one has.",
    metavar="CELL,...",
    show_default="none",
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
    "--cell-endpoint",
    "Where DynamoDB's API is served.",
    field="endpoint",
    alias="--endpoint",
    metavar="URL",
    show_default="AWS's, in the region",
)
@setting(
    "--table", "Table of the DynamoDB cell, and the cell's name; it is made if it does not exist."
)
@setting("--cell-name", "Name of the cell in --table, where that was restored under another name.")
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
    show_default="that of --cell-endpoint",
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
    show_default="that of --cell-endpoint",
)
@setting(
    "--billing",
    "File that says what usage costs, and which webhooks budgets may name.",
    show_default="Amazon SQS's prices of us-east-1, and no webhook",
    type=FILE,
)
@setting(
    "--auth",
    "Whether requests must be signed; 'off' lets everybody do everything, on loopback only.",
    metavar="[on|off]",
)
@root_key_options
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
    "Scheme, host and path of queue URLs.",
    metavar="URL",
    show_default="those that the caller used",
)
@setting(
    "--allowed-hosts",
    "Further names under which a server without authentication serves; *.NAME: those below it.",
    metavar="NAME,...",
    show_default="names of this machine",
)
@setting(
    "--allow-origin",
    "Origins whose web pages may call a server with authentication, from a browser.",
    metavar="ORIGIN,...",
    show_default="none",
)
@setting(
    "--metrics",
    "Whether /metrics is served, or at which address of its own.",
    metavar="[on|off|HOST:PORT]",
)
@setting(
    "--metrics-key",
    "File with the key that who asks for /metrics shows (Authorization: Bearer KEY).",
    type=FILE,
    metavar="FILE",
    show_default="none",
)
@setting(
    "--wake-ups",
    "Where to hear of sends through other servers on the table (UDP), and then the others.",
    metavar="HOST:PORT,HOST:PORT...",
    show_default="off",
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
    "--log-format",
    "The log as JSON, or as text for people; auto: text on a terminal, in colours.",
    metavar=f"[{'|'.join(LOG_FORMATS)}]",
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
    "--strict-streams",
    "Be as strict with streams as AWS, for tests; they are CREATING and UPDATING for so long.",
    field="strict_streams_s",
    type=float,
    metavar="SECONDS",
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
@setting(
    "--drop-pace",
    "Items a second that are deleted from a table after a purge; 0 leaves them to TTL.",
    field="drop_items_per_s",
    metavar="ITEMS",
)
@click.option(
    "--show-settings",
    SHOW,
    is_flag=True,
    help="Print all settings and their origins, no more.",
)
@click.pass_context
def serve(context: click.Context, /, *, show_settings: bool, **options: Any) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; a second one, 2 s later, ends at once."""
    root_key = take_root_key(options)
    try:
        # Each other option has the name of its field.
        settings = ServerSettings(**options, root_key=root_key)
    except SettingError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(_WRONG_VALUE)
    if show_settings:
        for line in shown_settings(context):
            click.echo(line)
        return
    try:
        sys.exit(run(settings))
    except StartError as error:
        # Who starts it again is to get on, whether or not somebody reads why it did not start.
        say(f"tidegate: {error}\n", 2, SystemClock(), _SAYING_S)
        sys.exit(error.exit_code)
