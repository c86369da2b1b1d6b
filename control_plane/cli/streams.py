"""The standard streams of a command, which a shell may have closed, or connected to what ends."""

import errno
import os
from typing import Final

_STANDARD: Final = (0, 1, 2)
_LOST: Final = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF})


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
    return f"cannot write: {error.strerror}" if error.errno in _LOST else None


def give_up_output() -> None:
    """Let go what could not be written: else the interpreter tries once more when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
