"""Where usage lies: objects named by what they hold, and writers' marks."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec

from data_plane.ports import Blobs, Offload
from data_plane.usage.parquet import encode
from data_plane.usage.record import (
    AccessRecord,
    Mark,
    Record,
    UsageRecord,
    day_folder,
    hour_folder,
)

FOLDERS: Final[dict[type[Record], str]] = {UsageRecord: "records", AccessRecord: "access"}


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
    return f"writers/{day}{mark.writer}.json"


def _named(folder: str, content: bytes) -> tuple[str, bytes]:
    return f"{folder}/{sha256(content).hexdigest()}.parquet", content
