"""A group of commands whose modules are loaded when they are used: loading all takes a second."""

import gc
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """A group whose commands are named by `short_helps`, each with its line in the group's help.

    The command NAME is the attribute of that name of the module NAME in `package`, with `_` where
    the name has `-`. `aliases` are further names.
    """

    def __init__(
        self,
        *args: Any,
        package: str = "",
        short_helps: Mapping[str, str],
        aliases: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.package = package
        self.short_helps = short_helps
        self.aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All names."""
        return sorted(self.short_helps)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded now; None where there is none of that name."""
        cmd_name = self.aliases.get(cmd_name, cmd_name)
        if cmd_name not in self.short_helps:
            return super().get_command(ctx, cmd_name)
        name = cmd_name.replace("-", "_")
        # What is imported stays: to look for garbage in it meanwhile takes a sixth of the time.
        gc.disable()
        try:
            command: click.Command = getattr(import_module(f"{self.package}.{name}"), name)
        finally:
            gc.enable()
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names that begin so, without loading the commands, and what else there is."""
        found = [
            CompletionItem(name, help=text)
            for name, text in self.short_helps.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.short_helps.items()))
