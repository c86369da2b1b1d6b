"""How commands reach a running server, and with whose credentials."""

import configparser
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from botocore.config import Config
from click.core import ParameterSource

import tidegate_sdk
from control_plane.cli.root_key import FILE_SUFFIX, ID, SECRET, read_part
from control_plane.cli.setting import FILE, VariableOption
from data_plane.settings import CREDENTIALS_FILE, ServerSettings

Connect = Callable[..., Any]
"""Makes a client of a service (`sqs` unless said).

Raises click.ClickException where the credentials cannot be read.
"""

CONNECTIONS_MAX: Final = 16
"""Calls of a command that run at once."""

_DEFAULTS: Final = ServerSettings()
_CREDENTIALS: Final = (
    *("access_key_id", "secret_access_key"),
    *("access_key_id_file", "secret_access_key_file", "credentials"),
)
_CONNECTION: Final = (
    *("endpoint", "region", "data", "profile", "ca_bundle"),
    *_CREDENTIALS,
)
_ANY: Final = "tidegate"
"""Without authentication any credentials serve."""


class ConnectedGroup(click.Group):
    """A group of commands whose options of the connection may stand behind the command, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse them as if they stood before it."""
        own = {name for parameter in self.params for name in parameter.opts}
        before: list[str] = []
        behind: list[str] = []
        rest = iter(args)
        for argument in rest:
            if argument == "--":
                behind += [argument, *rest]
            elif argument.partition("=")[0] not in own:
                behind.append(argument)
            elif "=" in argument:
                before.append(argument)
            else:
                value = next(rest, None)
                if value is None:
                    return super().parse_args(ctx, [argument])  # which says what is missing
                before += [argument, value]
        return super().parse_args(ctx, before + behind)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Let the command's help tell of them."""
        cmd.epilog = (
            f"Where the server is, and who calls, say options such as --endpoint and --credentials:"
            f" see `tidegate {self.name} --help`."
        )
        super().add_command(cmd, name)


class _Profile(NamedTuple):
    access_key_id: str
    secret: str
    region: str


_OPTIONS: Final = (
    click.option(
        "--endpoint",
        envvar="TIDEGATE_ENDPOINT",
        default="http://127.0.0.1:9324",
        show_envvar=True,
        help="Address of the server.",
    ),
    click.option(
        "--region",
        envvar=["TIDEGATE_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"],
        show_envvar=True,
        show_default=f"that of the credentials file, else {_DEFAULTS.region}",
        help="Region of queues and streams.",
    ),
    click.option(
        "--access-key-id",
        envvar=["AWS_ACCESS_KEY_ID", ID],
        show_envvar=True,
        show_default="that of the credentials file",
        help="Access key id; without authentication an account id (12 digits) names the account.",
    ),
    click.option(
        "--secret-access-key",
        cls=VariableOption,
        envvar=["AWS_SECRET_ACCESS_KEY", SECRET],
        show_default=False,
        help="Secret of the access key, which is no argument; any serves without authentication.",
    ),
    *(
        click.option(
            f"--{name}-file",
            cls=VariableOption,
            envvar=f"{variable}{FILE_SUFFIX}",
            type=FILE,
            help=f"File with the {what} that the server was given.",
        )
        for name, variable, what in (
            ("access-key-id", ID, "id"),
            ("secret-access-key", SECRET, "secret"),
        )
    ),
    click.option(
        "--data",
        envvar="TIDEGATE_DATA",
        type=click.Path(path_type=Path, file_okay=False),
        default=_DEFAULTS.data,
        show_envvar=True,
        help="Directory of the server.",
    ),
    click.option(
        "--credentials",
        envvar="AWS_SHARED_CREDENTIALS_FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        show_envvar=True,
        show_default="credentials in --data",
        help="Credentials file, as AWS SDKs have them.",
    ),
    click.option(
        "--profile",
        envvar="AWS_PROFILE",
        default="default",
        show_envvar=True,
        help="Section of the credentials file.",
    ),
    click.option(
        "--ca-bundle",
        envvar="AWS_CA_BUNDLE",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        show_envvar=True,
        show_default="that of the AWS SDK",
        help="Certificates (PEM) to trust where the server speaks HTTPS.",
    ),
)


def connecting(group: Callable[..., None]) -> Callable[..., None]:
    """Give a group of commands the options of a connection, and its commands a `Connect`."""

    @click.pass_context
    def with_connection(context: click.Context, /, **options: Any) -> None:
        context.obj = _connect(context, options)

    return _with_options(with_connection, group)


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command without a group these options, and a `Connect` as its first argument."""

    @click.pass_context
    def with_connection(context: click.Context, /, **options: Any) -> None:
        names = [name for name in options if name in _CONNECTION]
        connect = _connect(context, {name: options.pop(name) for name in names})
        command(connect, **options)

    if hasattr(command, "__click_params__"):
        with_connection.__click_params__ = command.__click_params__  # type: ignore[attr-defined]
    return _with_options(with_connection, command)


def _with_options(
    decorated: Callable[..., None], original: Callable[..., None]
) -> Callable[..., None]:
    decorated.__doc__ = original.__doc__
    decorated.__name__ = original.__name__
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _connect(context: click.Context, options: dict[str, Any]) -> Connect:
    source = context.get_parameter_source
    if ParameterSource.COMMANDLINE in (source("data"), source("credentials")):
        # Who names a directory or a file means its credentials, whatever the shell exports.
        for name in _CREDENTIALS:
            if source(name) is ParameterSource.ENVIRONMENT:
                options[name] = None
    return lambda service="sqs": _client(service, **options)


def _client(  # noqa: PLR0913 - one for each option
    service: str,
    *,
    endpoint: str,
    region: str | None,
    access_key_id: str | None,
    secret_access_key: str | None,
    access_key_id_file: Path | None,
    secret_access_key_file: Path | None,
    data: Path,
    credentials: Path | None,
    profile: str,
    ca_bundle: Path | None,
) -> Any:
    if access_key_id is None and access_key_id_file is not None:
        access_key_id = read_part(access_key_id_file)
    if secret_access_key is None and secret_access_key_file is not None:
        secret_access_key = read_part(secret_access_key_file)
    if access_key_id:
        found = _Profile(access_key_id, secret_access_key or _ANY, "")
    elif credentials is not None:
        found = _read(credentials, profile)
    elif (data / CREDENTIALS_FILE).exists():
        found = _read(data / CREDENTIALS_FILE, profile)
    else:
        found = _Profile(_ANY, _ANY, "")
    return tidegate_sdk.client(
        endpoint,
        service,
        region_name=region or found.region or _DEFAULTS.region,
        aws_access_key_id=found.access_key_id,
        aws_secret_access_key=found.secret,
        verify=str(ca_bundle) if ca_bundle is not None else None,
        config=Config(
            connect_timeout=5,
            max_pool_connections=CONNECTIONS_MAX,
            retries={"total_max_attempts": 2},
        ),
    )


def _read(path: Path, name: str) -> _Profile:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        section = parser[name]
        return _Profile(
            section["aws_access_key_id"],
            section["aws_secret_access_key"],
            section.get("region", ""),
        )
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    except (KeyError, configparser.Error, UnicodeDecodeError):
        # The cause is not shown: it may quote the file.
        raise click.ClickException(f"{path}: it has no credentials [{name}]") from None
