"""Blobs in memory, for tests and for simulation: exact, deterministic, counted."""

from collections import Counter
from collections.abc import Sequence

from data_plane.ports import Blob, Clock


class MemoryBlobs:
    """Implements `data_plane.ports.Blobs`; no call suspends. `requests` counts calls by name."""

    def __init__(self, clock: Clock) -> None:
        self.requests: Counter[str] = Counter()
        self._clock = clock
        self._stored: dict[str, tuple[bytes, int]] = {}

    async def put(self, name: str, body: bytes) -> None:
        """Store a body."""
        self.requests["put"] += 1
        self._stored[name] = (body, self._clock.now_us())

    async def get(self, name: str) -> bytes | None:
        """The body, or None where there is none under this name."""
        self.requests["get"] += 1
        found = self._stored.get(name)
        return None if found is None else found[0]

    async def delete(self, names: Sequence[str]) -> None:
        """Remove up to 1,000 blobs; those that do not exist are none to remove."""
        self.requests["delete"] += 1
        for name in names:
            self._stored.pop(name, None)

    async def names(self, after: str = "", *, limit: int) -> list[Blob]:
        """Up to `limit` blobs whose names are greater than `after`, in order of the names."""
        self.requests["names"] += 1
        names = sorted(name for name in self._stored if name > after)
        return [Blob(name, self._stored[name][1]) for name in names[:limit]]
