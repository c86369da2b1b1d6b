"""What the command line says where a server refuses, or is not there."""

import sys
from collections.abc import Callable
from typing import Final, TypeVar

import click
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

T = TypeVar("T")

_UNKNOWN_KEY: Final = (
    "The server does not know this access key: name its credentials file by --data or"
    " AWS_SHARED_CREDENTIALS_FILE, or give an access key."
)
_HINTS: Final = {
    "InvalidClientTokenId": _UNKNOWN_KEY,
    "UnrecognizedClientException": _UNKNOWN_KEY,
}
"""What to do, by the code of the error, where AWS's message does not say it."""
_WRONG_SIGNATURE: Final = "The request signature we calculated does not match"


def or_exit(call: Callable[[], T], later: str = "") -> T:
    """The call's result; where the server or the way to it refuses, one line and exit code 1.

    `later` says what goes on without the command, where the server cannot be reached.
    """
    try:
        return call()
    except ClientError as error:
        told = error.response["Error"]
        message = _HINTS.get(told.get("Code", ""), told.get("Message", str(error)))
        if message.startswith(_WRONG_SIGNATURE):
            message = "The secret is not that of the access key."
    except EndpointConnectionError as error:
        message = f"{error} (is a server there? see --endpoint) {later}"
    except BotoCoreError as error:
        message = f"{error} {later}"
    except ValueError as error:
        message = str(error)
    click.echo(f"tidegate: {' '.join(message.split())}", err=True)
    sys.exit(1)
