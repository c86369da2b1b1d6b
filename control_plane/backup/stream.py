"""What a backup is made of: pages of copies of all cells, which end at one moment.

A stream of records: `u8(what) be32(bytes) content`. The first says which cells there are; those of
a number are pages of that cell's copy; the last one says of which moment all of them are.
"""

import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, Final, NamedTuple

import msgspec

from data_plane.core.eras import eras_from
from data_plane.embedded.copying import CellCopy, CopySource, pages_together
from data_plane.ports import CellUnavailableError

FORMAT: Final = "tidegate backup 1"
HEAD: Final = 0xFE
END: Final = 0xFF

_RECORD: Final = struct.Struct(">BI")


class BackupCutOffError(Exception):
    """The stream ended before the backup did, or is none."""


class Cell(msgspec.Struct, frozen=True):
    """A cell of the service; with a `reason` it is not in the backup."""

    name: str
    reason: str = ""


class Head(msgspec.Struct, frozen=True):
    """The first record. `keys` says where the master keys are, `key_file` where in a file."""

    format: str
    cells: list[Cell]
    keys: str
    key_file: str


class End(msgspec.Struct, frozen=True):
    """The last record: the moment of all copies, in cell time and the world's (microseconds)."""

    as_of_us: int
    world_us: int


class Record(NamedTuple):
    """A record of the stream: HEAD, END, or the number of a cell."""

    what: int
    content: bytes


async def backup_of(
    sources: Sequence[CopySource], keys: str, key_file: str
) -> AsyncIterator[bytes]:
    """The records. Raises CellUnavailableError where a cell cannot be copied to the end."""
    cells = [Cell(source.name, source.reason) for source in sources]
    yield _record(HEAD, msgspec.json.encode(Head(FORMAT, cells, keys, key_file)))
    numbers = [number for number, source in enumerate(sources) if not source.reason]
    with ExitStack() as stack:
        copies: list[CellCopy] = [
            stack.enter_context(sources[number].copying()) for number in numbers
        ]
        async for place, page in pages_together(copies):
            yield _record(numbers[place], page)
    ends = [copy.end for copy in copies if copy.end is not None]
    if not ends:
        raise CellUnavailableError("no cell can be copied")
    last = max(ends, key=lambda end: end.as_of_us)
    world_us = eras_from(last.eras).world_us(last.as_of_us)
    yield _record(END, msgspec.json.encode(End(last.as_of_us, world_us)))


def records_in(stream: BinaryIO) -> Iterator[Record]:
    """The records, the last one included. Raises BackupCutOffError, OSError."""
    while header := stream.read(_RECORD.size):
        if len(header) < _RECORD.size:
            break
        what, size_bytes = _RECORD.unpack(header)
        content = stream.read(size_bytes)
        if len(content) < size_bytes:
            break
        yield Record(what, content)
        if what == END:
            return
    raise BackupCutOffError("the backup was cut off")


def record_of(encoded: bytes) -> Record:
    """One record, whole."""
    return Record(encoded[0], encoded[_RECORD.size :])


def _record(what: int, content: bytes) -> bytes:
    return _RECORD.pack(what, len(content)) + content
