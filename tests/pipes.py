"""A pipe, for what is written to somebody who may not read it."""

import os
from io import FileIO
from typing import NamedTuple


class Pipe(NamedTuple):
    """Its two ends, each of which may be closed any time, and again."""

    reader: FileIO
    writer: FileIO


def open_pipe() -> Pipe:
    """A new one; nothing of it is buffered."""
    reader, writer = os.pipe()
    return Pipe(FileIO(reader, "rb"), FileIO(writer, "wb"))
