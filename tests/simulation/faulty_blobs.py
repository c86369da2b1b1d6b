"""Blob stores that fail: a cell's place for big bodies, and the way of one front end to it."""

from collections.abc import Callable, Sequence

from data_plane.memory.blobs import MemoryBlobs
from data_plane.ports import Blob
from tests.simulation.faulty_cell import FaultyCell, Store
from tests.simulation.scheduler import Scheduler

Notice = Callable[[bytes], None]


class BlobStore(Store):
    """One blob store. It goes down, is cut off and answers late as cells do, but by itself."""

    def __init__(self, name: str, scheduler: Scheduler, offset_us: int) -> None:
        super().__init__(name, scheduler, offset_us, stamps=False)
        self.blobs = MemoryBlobs(self)
        self._bodies: dict[str, bytes] = {}
        self._awaited: dict[str, list[Notice]] = {}

    async def put(self, name: str, body: bytes) -> None:
        """Store a body, and tell those who wait for it."""
        await self.blobs.put(name, body)
        self._bodies[name] = body
        for notice in self._awaited.pop(name, ()):
            notice(body)

    def when_stored(self, name: str, notice: Notice) -> None:
        """Tell the body: now, if it ever was here, or when it comes."""
        if name in self._bodies:
            notice(self._bodies[name])
        else:
            self._awaited.setdefault(name, []).append(notice)


class FaultyBlobs:
    """Implements Blobs for one front end, which reaches the store as it reaches a cell."""

    def __init__(self, store: BlobStore, way: FaultyCell) -> None:
        self._store = store
        self._way = way

    async def put(self, name: str, body: bytes) -> None:
        await self._way.call(lambda: self._store.put(name, body), grows=True)

    async def get(self, name: str) -> bytes | None:
        return await self._way.call(lambda: self._store.blobs.get(name))

    async def delete(self, names: Sequence[str]) -> None:
        await self._way.call(lambda: self._store.blobs.delete(names))

    async def names(self, after: str = "", *, limit: int) -> list[Blob]:
        return await self._way.call(lambda: self._store.blobs.names(after, limit=limit))
