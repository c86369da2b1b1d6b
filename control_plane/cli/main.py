"""The command `tidegate` and its subcommands."""

import click

from control_plane.cli.queue import queue
from control_plane.cli.serve import serve
from data_plane import VERSION

SETTINGS = {
    "auto_envvar_prefix": "TIDEGATE",
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}


@click.group(context_settings=SETTINGS)
@click.version_option(VERSION, prog_name="tidegate")
def tidegate() -> None:
    """A durable message queue that speaks Amazon SQS."""


tidegate.add_command(serve)
tidegate.add_command(queue)


def main() -> None:
    """Run the command line of this process."""
    tidegate(prog_name="tidegate")
