"""`tidegate serve`."""

import sys
from pathlib import Path
from typing import Any

import click

from control_plane.cells import StartError
from control_plane.server import run
from data_plane.settings import CACHE_LAYOUTS, CELLS, LOG_LEVELS, ServerSettings, SettingError

_WRONG_VALUE = 2
_DEFAULTS = ServerSettings()


@click.command()
@click.option(
    "--host",
    envvar="TIDEGATE_HOST",
    default=_DEFAULTS.host,
    show_envvar=True,
    help="Address to listen on; without authentication only a loopback address.",
)
@click.option(
    "--port",
    envvar="TIDEGATE_PORT",
    type=int,
    default=_DEFAULTS.port,
    show_envvar=True,
    help="Port to listen on.",
)
@click.option(
    "--data",
    envvar="TIDEGATE_DATA",
    type=click.Path(path_type=Path, file_okay=False),
    default=_DEFAULTS.data,
    show_envvar=True,
    help="Directory of the embedded cell; it is made if it does not exist.",
)
@click.option(
    "--cells",
    envvar="TIDEGATE_CELLS",
    type=int,
    default=_DEFAULTS.cells,
    show_envvar=True,
    help="How many embedded cells there are; several hold copies for each other.",
)
@click.option(
    "--cell-data",
    envvar="TIDEGATE_CELL_DATA",
    metavar="DIRECTORY,...",
    default=_DEFAULTS.cell_data,
    show_envvar=True,
    show_default="cell-1, ... in --data",
    help="Directories of several cells, which may be on disks of their own.",
)
@click.option(
    "--cell",
    envvar="TIDEGATE_CELL",
    metavar=f"[{'|'.join(CELLS)}]",
    default=_DEFAULTS.cell,
    show_envvar=True,
    help="Where messages are stored: in a directory, or in a DynamoDB table.",
)
@click.option(
    "--endpoint",
    envvar="TIDEGATE_CELL_ENDPOINT",
    metavar="URL",
    default=_DEFAULTS.endpoint,
    show_envvar=True,
    show_default="AWS's, in the region",
    help="Where DynamoDB's API is served.",
)
@click.option(
    "--table",
    envvar="TIDEGATE_TABLE",
    default=_DEFAULTS.table,
    show_envvar=True,
    help="Table of the DynamoDB cell, and the cell's name; it is made if it does not exist.",
)
@click.option(
    "--cells-dynamodb",
    envvar="TIDEGATE_CELLS_DYNAMODB",
    metavar="NAME=[ENDPOINT/]TABLE,...",
    default=_DEFAULTS.cells_dynamodb,
    show_envvar=True,
    show_default="none",
    help="Further DynamoDB tables; they and --table hold copies for each other.",
)
@click.option(
    "--connections",
    envvar="TIDEGATE_CONNECTIONS",
    type=int,
    default=_DEFAULTS.connections,
    show_envvar=True,
    help="How many requests to DynamoDB may be under way.",
)
@click.option(
    "--cell-deadline",
    "cell_deadline_s",
    envvar="TIDEGATE_CELL_DEADLINE",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.cell_deadline_s,
    show_envvar=True,
    help="For how long a request to DynamoDB is repeated.",
)
@click.option(
    "--blobs",
    envvar="TIDEGATE_BLOBS",
    metavar="s3://BUCKET[/PREFIX]|DIRECTORY",
    default=_DEFAULTS.blobs,
    show_envvar=True,
    show_default="blobs in --data",
    help="Where bodies lie that are too big for DynamoDB; several servers need one in S3.",
)
@click.option(
    "--blobs-endpoint",
    envvar="TIDEGATE_BLOBS_ENDPOINT",
    metavar="URL",
    default=_DEFAULTS.blobs_endpoint,
    show_envvar=True,
    show_default="that of --endpoint",
    help="Where S3's API is served.",
)
@click.option(
    "--blob-threshold",
    "blob_threshold_bytes",
    envvar="TIDEGATE_BLOB_THRESHOLD",
    metavar="BYTES",
    type=int,
    default=_DEFAULTS.blob_threshold_bytes,
    show_envvar=True,
    help="How big a packed body may be that lies in DynamoDB.",
)
@click.option(
    "--master-keys",
    envvar="TIDEGATE_MASTER_KEYS",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=_DEFAULTS.master_keys,
    show_envvar=True,
    show_default="master.keys in --data",
    help="Keys under which what is stored is sealed; made at the first start. Keep a copy.",
)
@click.option(
    "--kms-key",
    envvar="TIDEGATE_KMS_KEY",
    metavar="ID|ALIAS|ARN",
    default=_DEFAULTS.kms_key,
    show_envvar=True,
    show_default="none",
    help="Key of AWS KMS to use instead of a file of master keys.",
)
@click.option(
    "--kms-endpoint",
    envvar="TIDEGATE_KMS_ENDPOINT",
    metavar="URL",
    default=_DEFAULTS.kms_endpoint,
    show_envvar=True,
    show_default="AWS's, in the region",
    help="Where KMS's API is served.",
)
@click.option(
    "--usage",
    envvar="TIDEGATE_USAGE",
    metavar="s3://BUCKET[/PREFIX]|DIRECTORY|off",
    default=_DEFAULTS.usage,
    show_envvar=True,
    show_default="usage in --data",
    help="Where records of what was served are stored, each minute: for bills and audits.",
)
@click.option(
    "--usage-endpoint",
    envvar="TIDEGATE_USAGE_ENDPOINT",
    metavar="URL",
    default=_DEFAULTS.usage_endpoint,
    show_envvar=True,
    show_default="that of --endpoint",
    help="Where S3's API is served.",
)
@click.option(
    "--auth",
    envvar="TIDEGATE_AUTH",
    metavar="[on|off]",
    default=_DEFAULTS.auth,
    show_envvar=True,
    help="Whether requests must be signed; 'off' lets everybody do everything, on loopback only.",
)
@click.option(
    "--new-root-key",
    envvar="TIDEGATE_NEW_ROOT_KEY",
    is_flag=True,
    default=_DEFAULTS.new_root_key,
    show_envvar=True,
    help="Make a new access key of the root account, whose file in --data is lost.",
)
@click.option(
    "--account",
    envvar="TIDEGATE_ACCOUNT",
    default=_DEFAULTS.account,
    show_envvar=True,
    help="The operator's account; without authentication also that of callers whose access key id"
    " is no account id (12 digits).",
)
@click.option(
    "--region",
    envvar="TIDEGATE_REGION",
    default=_DEFAULTS.region,
    show_envvar=True,
    help="Region of callers whose requests name none, and of the DynamoDB table.",
)
@click.option(
    "--base-url",
    envvar="TIDEGATE_BASE_URL",
    metavar="URL",
    default=_DEFAULTS.base_url,
    show_envvar=True,
    show_default="those that the caller used",
    help="Scheme and host of queue URLs.",
)
@click.option(
    "--tls-certificate",
    envvar="TIDEGATE_TLS_CERTIFICATE",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=_DEFAULTS.tls_certificate,
    show_envvar=True,
    help="Serve HTTPS with this certificate (PEM, followed by those that lead to its root).",
)
@click.option(
    "--tls-key",
    envvar="TIDEGATE_TLS_KEY",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=_DEFAULTS.tls_key,
    show_envvar=True,
    help="Private key of --tls-certificate (PEM, not encrypted).",
)
@click.option(
    "--metadata-cache",
    envvar="TIDEGATE_METADATA_CACHE",
    metavar="HOST:PORT,...",
    default=_DEFAULTS.metadata_cache,
    show_envvar=True,
    show_default="none",
    help="Nodes of memcached that servers share, so that they ask the registry less often.",
)
@click.option(
    "--metadata-cache-layout",
    envvar="TIDEGATE_METADATA_CACHE_LAYOUT",
    metavar=f"[{'|'.join(CACHE_LAYOUTS)}]",
    default=_DEFAULTS.metadata_cache_layout,
    show_envvar=True,
    help="Whether each of those nodes has a share of what is cached, or all of it.",
)
@click.option(
    "--log-level",
    envvar="TIDEGATE_LOG_LEVEL",
    metavar=f"[{'|'.join(LOG_LEVELS)}]",
    default=_DEFAULTS.log_level,
    show_envvar=True,
    help="Log failures; and refused requests; and every request.",
)
@click.option(
    "--sixty-second-rules/--no-sixty-second-rules",
    envvar="TIDEGATE_SIXTY_SECOND_RULES",
    default=_DEFAULTS.sixty_second_rules,
    show_envvar=True,
    help="As SQS, refuse a purge, and a new queue of a deleted one's name, for 60 seconds.",
)
@click.option(
    "--auto-create-queues/--no-auto-create-queues",
    envvar="TIDEGATE_AUTO_CREATE_QUEUES",
    default=_DEFAULTS.auto_create_queues,
    show_envvar=True,
    help="Create a missing queue with the first message sent to it.",
)
@click.option(
    "--queues",
    "queues_file",
    envvar="TIDEGATE_QUEUES",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=_DEFAULTS.queues_file,
    show_envvar=True,
    help="TOML file of queues that exist when the server serves; missing ones are created.",
)
@click.option(
    "--request-deadline",
    "request_deadline_s",
    envvar="TIDEGATE_REQUEST_DEADLINE",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.request_deadline_s,
    show_envvar=True,
    help="How long a request may take, beside the time for which it waits for messages.",
)
@click.option(
    "--requests",
    "requests_max",
    envvar="TIDEGATE_REQUESTS",
    type=int,
    default=_DEFAULTS.requests_max,
    show_envvar=True,
    help="How many requests are worked on at a time; more are answered 503.",
)
@click.option(
    "--long-polls",
    "long_polls_max",
    envvar="TIDEGATE_LONG_POLLS",
    type=int,
    default=_DEFAULTS.long_polls_max,
    show_envvar=True,
    help="How many long polls may wait at a time; more are throttled.",
)
@click.option(
    "--lag",
    "lag_s_max",
    envvar="TIDEGATE_LAG",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.lag_s_max,
    show_envvar=True,
    help="Requests that have waited longer before the server looks at them are answered 503.",
)
@click.option(
    "--grace",
    "grace_s",
    envvar="TIDEGATE_GRACE",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.grace_s,
    show_envvar=True,
    help="How long requests in flight may take to finish when the server stops.",
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
