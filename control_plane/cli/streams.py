"""The standard streams of a command, which a shell may have closed, or connected to what ends."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

_STANDARD: Final = (0, 1, 2)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LOST: Final = _FULL | {errno.EIO, errno.EBADF}
_OUTPUT: Final = Path("/proc/self/fd/1")


def open_closed() -> None:
    """Open what is closed, so that writing to it still fails.

    Else the next file to be opened, perhaps that of a cell, would have its number, and what is
    written for people would go there.
    """
    for file in _STANDARD:
        try:
            os.fstat(file)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)  # noqa: FBT003 - it inherits


def lost(error: OSError) -> str | None:
    """What to say of output that could not be written; None: it was something else that failed.

    Nothing (""), where nobody reads it any more: `tidegate queue list | head -1` has what it wants.
    """
    if error.filename is not None:
        return None
    if error.errno == errno.EPIPE:
        return ""
    return cannot_write(output_name(), error) if error.errno in _LOST else None


def cannot_write(name: str, error: OSError) -> str:
    """What to say of a file that takes no more: above all where its disk is full."""
    full = "the disk is full: " if error.errno in _FULL else ""
    return f"cannot write to {name}: {full}{error.strerror}"


def print_at_once(text: str) -> None:
    """Write to standard output what has left when it returns. Raises OSError."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        give_up_output()
        raise


def print_made(text: str, undo: Callable[[], str]) -> None:
    """Print what was made; where that cannot be written `undo` it, and say what it answers."""
    name = output_name()
    try:
        print_at_once(f"{text}\n")
    except OSError as error:
        raise click.ClickException(f"{cannot_write(name, error)}; {undo()}") from error


def output_name() -> str:
    """The file that standard output goes to, where it is one."""
    try:
        name = str(_OUTPUT.readlink())
    except OSError:
        return "standard output"
    return name if name.startswith("/") else "standard output"


def give_up_output() -> None:
    """Let go what could not be written: else the interpreter tries once more when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
