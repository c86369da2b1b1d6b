"""The command `tidegate` and its subcommands."""

import sys

import click

from control_plane.cli.account import account
from control_plane.cli.audit import audit
from control_plane.cli.bill import bill
from control_plane.cli.cells import cells
from control_plane.cli.cost import cost
from control_plane.cli.digest import digest
from control_plane.cli.export import export
from control_plane.cli.key import key
from control_plane.cli.keys import keys
from control_plane.cli.queue import queue
from control_plane.cli.root import root
from control_plane.cli.serve import serve
from control_plane.cli.user import user
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
tidegate.add_command(account)
tidegate.add_command(cells)
tidegate.add_command(user)
tidegate.add_command(key)
tidegate.add_command(keys)
tidegate.add_command(cost)
tidegate.add_command(bill)
tidegate.add_command(digest)
tidegate.add_command(audit)
tidegate.add_command(export)
tidegate.add_command(root)


def main() -> None:
    """Run the command line of this process; what is wrong with it is said in one line."""
    try:
        code = tidegate(prog_name="tidegate", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        sys.exit(2)
    except click.ClickException as error:
        click.echo(f"tidegate: {' '.join(error.format_message().split())}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("tidegate: nothing was done", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
