"""The command `tidegate` and its subcommands."""

import sys
from contextlib import suppress
from typing import Final

import click

from control_plane.cli.lazy import LazyGroup
from control_plane.cli.streams import give_up_output, lost, open_closed
from data_plane import VERSION

SETTINGS = {
    "auto_envvar_prefix": "TIDEGATE",
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}


COMMANDS: Final = {
    "account": "Create, list and close accounts; set quotas.",
    "audit": "Say where every message went: a report of all that differs.",
    "backup": "Write all embedded cells, as of one moment, to a directory.",
    "bill": "Bill a month of usage: invoices, FOCUS tables, statements.",
    "budget": "Set and list budgets: thresholds of each month.",
    "cells": "Show, add, drain, remove, fail and restore cells.",
    "cost": "Say what a load costs in a month, beside Amazon SQS.",
    "digest": "Chain the objects of a place by signed digests, and verify them.",
    "doctor": "Look for what keeps a server from serving.",
    "export": "Export a cell to a directory, as DynamoDB exports to S3.",
    "group": "Look after consumer groups: lag, resets.",
    "health": "Say whether a server answers; 0: it does.",
    "key": "Create, list and revoke access keys.",
    "master-key": "Look after the file of master keys.",
    "queue": "Look after queues; send, receive, browse and move messages.",
    "rescue": "Write what is whole of a data directory into a new one.",
    "restore": "Make a service of a backup, or of tables that were restored.",
    "root": "Make the root account of a deployment.",
    "serve": "Serve queues and streams.",
    "stream": "Look after streams; put, get and follow records.",
    "usage": "Show what an account has used this month, and what that costs.",
    "user": "Create, list and delete users of an account.",
}
"""The commands, with what each of them is for; `keys` is what `master-key` was called once."""


@click.group(
    cls=LazyGroup,
    package="control_plane.cli",
    short_helps=COMMANDS,
    aliases={"keys": "master-key"},
    context_settings=SETTINGS,
)
@click.version_option(VERSION, prog_name="tidegate")
def tidegate() -> None:
    """A durable message queue that speaks Amazon SQS, with streams that speak Kinesis."""


def main() -> None:
    """Run the command line of this process; what is wrong with it is said in one line."""
    open_closed()
    try:
        code = _run()
    except OSError as error:
        said = lost(error)
        if said is None:
            raise
        give_up_output()
        _say(said)
        code = 1
    sys.exit(code)


def _run() -> int:
    try:
        code = tidegate(prog_name="tidegate", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return 2
    except click.ClickException as error:
        _say(" ".join(error.format_message().split()))
        return error.exit_code
    except click.Abort:
        _say("nothing was done")
        return 1
    return code if isinstance(code, int) else 0


def _say(text: str) -> None:
    """Say it on standard error, where that can be; the exit code says that something was wrong."""
    if text:
        with suppress(OSError):
            click.echo(f"tidegate: {text}", err=True)
