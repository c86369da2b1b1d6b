"""What is known to be damaged of a cell whose pages are whole: single items.

A value carries a checksum of its key and its bytes (docs/storage.md). One that fails may have had
another key: where the checksum cannot tell which, any between those of its neighbours, since pages
are in order. Whoever looks for such a key and finds nothing has not seen that there is nothing.
"""

import logging
from collections.abc import Callable
from typing import Final

ITEMS_MAX: Final = 10_000
"""Remembered by key; what is damaged beyond that is told by whoever reads it."""

LOG: Final = logging.getLogger(__name__)


class DamagedItems:
    """The damaged items of a cell by their stored keys, each with the keys that it may have had."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._between: dict[bytes, tuple[bytes | None, bytes | None]] = {}

    def __len__(self) -> int:
        return len(self._between)

    def add(self, key: bytes, low: bytes | None = None, high: bytes | None = None) -> None:
        """An item under this key is damaged; its own key is from `low` to `high` (None: no bound).

        Without either it is the key. The log is told once.
        """
        if key in self._between or len(self._between) >= ITEMS_MAX:
            return
        self._between[key] = (low, high) if (low, high) != (None, None) else (key, key)
        partition, _zero, sort = key.partition(b"\0")
        LOG.error(
            "damaged item %s/%s in %s: what needs it is answered 503; tidegate rescue tells more",
            partition.decode(errors="replace"),
            sort.hex(),
            self._directory,
        )

    def may_have(self, key: bytes) -> bool:
        """Whether one of them may have been stored under this key, where there is none now."""
        return any(
            key == damaged or ((low is None or low <= key) and (high is None or key <= high))
            for damaged, (low, high) in self._between.items()
        )

    def touch(self, prefix: bytes) -> bool:
        """Whether one of them may have been stored under a key that begins so."""
        return any(
            any(near is not None and near.startswith(prefix) for near in (damaged, low, high))
            for damaged, (low, high) in self._between.items()
        )

    def look_again(self, is_damaged: Callable[[bytes], bool]) -> None:
        """Forget those that were replaced or removed since."""
        for key in [key for key in self._between if not is_damaged(key)]:
            del self._between[key]
