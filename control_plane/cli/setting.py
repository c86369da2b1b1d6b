"""Options that are fields of `ServerSettings`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from data_plane.settings import ServerSettings

_DEFAULTS = ServerSettings()

FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)


def variables_of(option: click.Parameter) -> tuple[str, ...]:
    """The environment variables that set an option, the one that counts most first."""
    named = option.envvar or ()
    return (named,) if isinstance(named, str) else tuple(named)


class VariableOption(click.Option):
    """An option that arguments cannot set, because other users of the machine can read those."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Leave it out."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Show the variable in place of the option."""
        shown = super().get_help_record(ctx)
        return (", ".join(variables_of(self)), shown[1]) if shown is not None else None


def setting(
    option: str, help_text: str, *, field: str = "", alias: str = "", **shown: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """An option with the default of its field, settable by TIDEGATE_<OPTION> also.

    `option` is as it is typed, e.g. `--cell-data` or `--a/--no-a`. `field` is named where it is not
    spelled as the option is; `alias` is a second way to type it. `shown` goes to `click.option` and
    overrides what is said here; an option that is required has no default.
    """
    words = option.split("/", maxsplit=1)[0].removeprefix("--").replace("-", "_")
    name = field or words
    said: dict[str, Any] = {
        "envvar": f"TIDEGATE_{words.upper()}",
        "show_envvar": True,
        "help": help_text,
    }
    if not shown.get("required"):
        said["default"] = getattr(_DEFAULTS, name)
    return click.option(option, *([alias] if alias else []), name, **(said | shown))
