"""Where usage lies: objects named by what they hold, and writers' marks."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from data_plane.core.undecodable import UNDECODABLE
from data_plane.ports import Blobs, Offload
from data_plane.usage.parquet import encode
from data_plane.usage.record import (
    NOBODY_KNOWS,
    AccessRecord,
    Mark,
    Record,
    Tail,
    UsageRecord,
    day_folder,
    hour_folder,
)

FOLDERS: Final[dict[type[Record], str]] = {UsageRecord: "records", AccessRecord: "access"}

_MARKS: Final = "writers/"

_Known = TypeVar("_Known", Mark, Tail)


class UsagePlace:
    """A usage place in a blob store. What takes long, packing records, goes to `offload`."""

    def __init__(self, blobs: Blobs, offload: Offload) -> None:
        self._blobs = blobs
        self._offload = offload

    async def put(self, records: Sequence[Record]) -> None:
        """Store records of one kind, in objects of an hour each; durable when it returns.

        What is stored again is the same. Raises CellUnavailableError.
        """
        for name, content in await self._offload(lambda: objects_of(records)):
            await self._blobs.put(name, content)

    async def put_mark(self, mark: Mark) -> None:
        """Store how far a writer's records go. Raises CellUnavailableError."""
        await self._blobs.put(mark_name(mark), msgspec.json.encode(mark))

    async def restore_mark(self, mark: Mark) -> None:
        """Store a writer's first mark if it has none. Raises CellUnavailableError."""
        if await self._blobs.get(mark_name(mark)) is None:
            await self.put_mark(mark)

    async def put_tail(self, writer: str, tail: Callable[[], Tail]) -> None:
        """Replace a writer's tail by what `tail` makes, in another thread; durable when it returns.

        Raises CellUnavailableError.
        """
        content = await self._offload(lambda: msgspec.json.encode(tail()))
        await self._blobs.put(tail_name(writer), content)

    async def remove_tail(self, writer: str) -> None:
        """Remove it: all of it is in records. Raises CellUnavailableError."""
        await self._blobs.delete([tail_name(writer)])

    async def counted_to(self, writer: str) -> int:
        """Up to when a server's mark says that all is in records, in microseconds; 0: nobody knows.

        Raises CellUnavailableError.
        """
        mark = _read(await self._blobs.get(f"{_MARKS}{writer}.json"), Mark)
        return 0 if mark is None else mark.counted_to

    async def finish(self, writer: str, *, ended: int) -> Mark | None:
        """Make records of what a server that has ended left in its tail.

        `ended` is a minute by which it had. What is finished again is the same. Returns its mark
        then; None: it has none. Raises CellUnavailableError.
        """
        mark = _read(await self._blobs.get(f"{_MARKS}{writer}.json"), Mark)
        left = await self._blobs.get(tail_name(writer))
        tail = _read(left, Tail)
        if mark is not None and (mark.closed or mark.ended):
            await self.remove_tail(writer)
            return mark
        if tail is not None and (mark is None or _is_further(tail.mark, mark)):
            mark = tail.mark
            batches: tuple[Sequence[Record], ...] = (tail.usage, tail.access)
            for batch in filter(None, batches):
                await self.put(batch)
        if mark is None:
            return None
        # A tail that cannot be read had nobody knows how much.
        is_damaged = left is not None and tail is None
        unsaved_max = NOBODY_KNOWS if is_damaged else mark.unsaved_max
        mark = msgspec.structs.replace(mark, ended=ended, unsaved_max=unsaved_max)
        await self.put_mark(mark)
        if not is_damaged:
            await self.remove_tail(writer)
        return mark


def _is_further(tail: Mark, mark: Mark) -> bool:
    """Whether a tail has what its writer's mark has not. Clocks are set back, numbers are not."""
    has_more = tail.records > mark.records or tail.access > mark.access
    return has_more or tail.counted_to > mark.counted_to


def objects_of(records: Sequence[Record]) -> list[tuple[str, bytes]]:
    """The objects of some records of one kind: their names and contents."""
    hours: dict[str, list[Record]] = {}
    for record in records:
        hours.setdefault(f"{FOLDERS[type(record)]}/{hour_folder(record.minute)}", []).append(record)
    return [_named(folder, encode(of_hour)) for folder, of_hour in hours.items()]


def mark_name(mark: Mark) -> str:
    """The name of a writer's mark in a usage place."""
    # Sandboxes are many: who reads a month lists theirs by days.
    day = f"{day_folder(mark.opened)}/" if mark.kind == "function" else ""
    return f"{_MARKS}{day}{mark.writer}.json"


def tail_name(writer: str) -> str:
    """The name of a writer's tail in a usage place."""
    return f"tails/{writer}.json"


def _read(content: bytes | None, kind: type[_Known]) -> _Known | None:
    """What was stored, or None where that is none of its kind."""
    try:
        return None if content is None else msgspec.json.decode(content, type=kind)
    except UNDECODABLE:
        return None


def _named(folder: str, content: bytes) -> tuple[str, bytes]:
    return f"{folder}/{sha256(content).hexdigest()}.parquet", content
