"""What `tidegate serve --show-settings` prints: each setting, and where it comes from."""

from collections.abc import Iterable

import click
from click.core import ParameterSource

from control_plane.cli.setting import VariableOption, variables_of
from control_plane.cli.tables import lines

SHOW: str = "show_settings"
_COLUMNS = ("SETTING", "VALUE", "FROM")


def shown_settings(context: click.Context) -> Iterable[str]:
    """A line for each option of the context's command; of secrets only that they are given."""
    options = [
        option
        for option in context.command.params
        if isinstance(option, click.Option) and option.name not in (None, SHOW, "help")
    ]
    return lines([_COLUMNS, *(_row(context, option) for option in options)])


def _row(context: click.Context, option: click.Option) -> tuple[str, str, str]:
    name = option.opts[0].removeprefix("--")
    value = context.params[str(option.name)]
    return name, _value(option, value), _origin(context, option)


def _value(option: click.Option, value: object) -> str:
    if value is None or value == "":
        return f"({option.show_default})" if isinstance(option.show_default, str) else "(none)"
    if isinstance(option, VariableOption):
        return "(given)"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _origin(context: click.Context, option: click.Option) -> str:
    source = context.get_parameter_source(str(option.name))
    if source is ParameterSource.COMMANDLINE:
        return "command line"
    if source is ParameterSource.ENVIRONMENT:
        return " or ".join(variables_of(option))
    return "default"
