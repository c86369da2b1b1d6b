"""`tidegate serve`."""

import sys
from pathlib import Path

import click

from control_plane.server import StartError, run
from data_plane.embedded.store import CellOpenError
from data_plane.settings import LOG_LEVELS, ServerSettings, SettingError

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
    "--auth",
    envvar="TIDEGATE_AUTH",
    metavar="[on|off]",
    default=_DEFAULTS.auth,
    show_envvar=True,
    help="Whether requests must be signed; 'on' is not available yet.",
)
@click.option(
    "--account",
    envvar="TIDEGATE_ACCOUNT",
    default=_DEFAULTS.account,
    show_envvar=True,
    help="Account of callers whose access key id is no account id (12 digits).",
)
@click.option(
    "--region",
    envvar="TIDEGATE_REGION",
    default=_DEFAULTS.region,
    show_envvar=True,
    help="Region of callers whose requests name none.",
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
    "--grace",
    "grace_s",
    envvar="TIDEGATE_GRACE",
    metavar="SECONDS",
    type=float,
    default=_DEFAULTS.grace_s,
    show_envvar=True,
    help="How long requests in flight may take to finish when the server stops.",
)
def serve(  # noqa: PLR0913 - one for each option
    *,
    host: str,
    port: int,
    data: Path,
    auth: str,
    account: str,
    region: str,
    base_url: str,
    log_level: str,
    sixty_second_rules: bool,
    grace_s: float,
) -> None:
    """Serve queues until Ctrl-C or SIGTERM; a second one ends at once."""
    try:
        settings = ServerSettings(
            host=host,
            port=port,
            data=data,
            auth=auth,
            account=account,
            region=region,
            base_url=base_url,
            log_level=log_level,
            sixty_second_rules=sixty_second_rules,
            grace_s=grace_s,
        )
    except SettingError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(_WRONG_VALUE)
    try:
        sys.exit(run(settings, click.echo))
    except (StartError, CellOpenError) as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(1)
