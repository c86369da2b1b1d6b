"""What the command line says where a server refuses, or is not there."""

import sys
from collections.abc import Callable
from typing import TypeVar

import click
from botocore.exceptions import BotoCoreError, ClientError

T = TypeVar("T")


def or_exit(call: Callable[[], T]) -> T:
    """The call's result; where the server or the way to it refuses, one line and exit code 1."""
    try:
        return call()
    except ClientError as error:
        message = error.response["Error"].get("Message", str(error))
    except (BotoCoreError, ValueError) as error:
        message = str(error)
    click.echo(f"tidegate: {' '.join(message.split())}", err=True)
    sys.exit(1)
