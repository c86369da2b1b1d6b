"""Options that are fields of `ServerSettings`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from data_plane.settings import ServerSettings

_DEFAULTS = ServerSettings()

FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)


def setting(
    option: str, help_text: str, *, field: str = "", **shown: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """An option with the default of its field, settable by TIDEGATE_<OPTION> also.

    `option` is as it is typed, e.g. `--cell-data` or `--a/--no-a`. `field` is named where it is not
    spelled as the option is. `shown` goes to `click.option` and overrides what is said here; an
    option that is required has no default.
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
    return click.option(option, name, **(said | shown))
