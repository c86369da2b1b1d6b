"""A usage place in memory, which may refuse, and what was stored there."""

import json
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from typing import Any, TypeVar

from pyarrow import parquet

from data_plane.memory.blobs import MemoryBlobs
from data_plane.ports import CellUnavailableError
from data_plane.usage.place import UsagePlace
from tests.unit.repeatable import HandClock

T = TypeVar("T")


class RefusingBlobs(MemoryBlobs):
    """Takes nothing while `refuses`, of names that begin so; counts what it is asked by folder."""

    refuses: str | None = None

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self.puts: Counter[str] = Counter()

    async def put(self, name: str, body: bytes) -> None:
        self.puts[name.partition("/")[0]] += 1
        if self.refuses is not None and name.startswith(self.refuses):
            raise CellUnavailableError("the place is away")
        await super().put(name, body)


async def at_once(call: Callable[[], T]) -> T:
    return call()


class MemoryPlace(UsagePlace):
    def __init__(self, clock: HandClock) -> None:
        self.blobs = RefusingBlobs(clock)
        super().__init__(self.blobs, at_once)

    def rows(self, folder: str = "records") -> list[dict[str, Any]]:
        """All that is stored, in order of identity; copies are one."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for name, (body, _) in self.blobs._stored.items():
            if name.startswith(f"{folder}/"):
                for row in parquet.read_table(BytesIO(body)).to_pylist():
                    identity = row["writer"], row["number"]
                    assert found.setdefault(identity, row) == row
        return [found[identity] for identity in sorted(found)]

    def mark(self, writer: str) -> dict[str, Any]:
        mark: dict[str, Any] = json.loads(self.blobs._stored[f"writers/{writer}.json"][0])
        return mark

    def tails(self) -> set[str]:
        return {name for name in self.blobs._stored if name.startswith("tails/")}

    def marks(self) -> set[str]:
        return {name for name in self.blobs._stored if name.startswith("writers/")}
