"""The root's access key, where the operator chooses it: from variables or files, no arguments."""

from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, Final

import click

from control_plane.cli.setting import FILE, VariableOption
from data_plane.core.root_key import RootKey, RootKeyError

ID: Final = "TIDEGATE_ROOT_ACCESS_KEY_ID"
SECRET: Final = "TIDEGATE_ROOT_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable
FILE_SUFFIX: Final = "_FILE"
"""Of a variable that names a file with the value."""

_PARTS: Final = ("root_access_key_id", "root_secret_access_key")


def _options() -> tuple[Callable[..., Any], ...]:
    return (
        click.option(
            "--root-access-key-id",
            envvar=ID,
            show_envvar=True,
            show_default="one is made at the first start",
            help="Id of an access key of the root account that you choose.",
        ),
        click.option(
            "--root-access-key-id-file",
            envvar=f"{ID}{FILE_SUFFIX}",
            show_envvar=True,
            type=FILE,
            help="File with that id.",
        ),
        click.option(
            "--root-secret-access-key",
            cls=VariableOption,
            envvar=SECRET,
            help="Its secret; no argument takes it.",
        ),
        click.option(
            "--root-secret-access-key-file",
            envvar=f"{SECRET}{FILE_SUFFIX}",
            show_envvar=True,
            type=FILE,
            help="File with its secret.",
        ),
    )


def root_key_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; `take_root_key` makes one value of them."""
    for option in reversed(_options()):
        command = option(command)
    return command


def take_root_key(options: MutableMapping[str, Any]) -> RootKey | None:
    """Take these options out of all, and answer the key; None where none is given.

    Raises click.ClickException.
    """
    parts: dict[str, str] = {}
    for name in _PARTS:
        file: Path | None = options.pop(f"{name}_file")
        value: str | None = options.pop(name)
        if file is not None and value:
            raise click.UsageError(
                f"{_spelled(name)} and {_spelled(name)}-file are given: one is enough"
            )
        if file is not None:
            value = read_part(file)
        if value:
            parts[name] = value
    if not parts:
        return None
    for name in _PARTS:
        if name not in parts:
            raise click.UsageError(
                f"{_spelled(name)} is missing: say TIDEGATE_{name.upper()}, or that with _FILE"
            )
    try:
        return RootKey(*(parts[name] for name in _PARTS))
    except RootKeyError as error:
        raise click.UsageError(str(error)) from None


def read_part(path: Path) -> str:
    """What a file with an id or a secret has, without white space around it.

    Raises click.ClickException.
    """
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        # The cause is not shown: it quotes the file.
        raise click.UsageError(f"{path}: it is not UTF-8") from None


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"
