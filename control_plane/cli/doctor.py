"""`tidegate doctor`: what keeps a server from serving, before it starts."""

import json
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import click

from control_plane.cli.serve import serve
from control_plane.doctor import examine
from data_plane.settings import ServerSettings, SettingError
from data_plane.system import SystemClock

_WRONG_VALUE: Final = 2
_NAMES: Final = frozenset(field.name for field in fields(ServerSettings))


def _settings_of_serve(command: Callable[..., None]) -> Callable[..., None]:
    """The options of `tidegate serve`, with their variables."""
    command.__click_params__ = [  # type: ignore[attr-defined]
        option for option in reversed(serve.params) if option.name in _NAMES
    ]
    return command


@click.command(short_help="Look for what keeps a server from serving.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array of findings.")
@_settings_of_serve
def doctor(*, as_json: bool, **options: Any) -> None:
    """Look at directory, disk, store, clock, keys, files, ports, limits and certificate.

    It takes the options and variables of `tidegate serve`, and changes nothing. What is stored is
    looked at as a start does. Run it as the server's user while no server runs: else the port is
    its own. What is on DynamoDB or in KMS is not looked at, but whether --cell-endpoint can be
    reached. Code 1: something is in the way; warnings are none.
    """
    try:
        settings = ServerSettings(**options)
    except SettingError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(_WRONG_VALUE)
    findings = list(examine(settings, SystemClock()))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.state:<8} {finding.check}: {finding.said}")
            if finding.remedy:
                click.echo(f"{'':<8} -> {finding.remedy}")
    sys.exit(int(any(finding.state == "error" for finding in findings)))
