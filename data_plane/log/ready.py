"""Groups that may have a message to deliver, each once, in the order of their turns."""

import heapq
from collections.abc import Container, Sized
from typing import Final, Protocol

ENTRIES_MAX: Final = 1_000
"""More than that, and twice as many as there are groups, are not kept of groups that are gone."""


class Groups(Container[bytes], Sized, Protocol):
    """The groups that there are."""


class Ready:
    """A heap. Groups that are gone meanwhile may come out of it, too."""

    __slots__ = ("_groups", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, bytes]] = []
        self._groups: set[bytes] = set()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __contains__(self, group: bytes) -> bool:
        return group in self._groups

    def push(self, turn: tuple[int, int, int], group: bytes, known: Groups) -> None:
        """Add a group that is not in it; `known` are those that there are."""
        self._groups.add(group)
        heapq.heappush(self._heap, (*turn, group))
        if len(self._heap) > ENTRIES_MAX + 2 * len(known):
            # Of dead letters nobody may ever take one.
            self._heap = [entry for entry in self._heap if entry[3] in known]
            heapq.heapify(self._heap)
            self._groups = {entry[3] for entry in self._heap}

    def pop(self) -> bytes:
        """The group whose turn it is."""
        *_, group = heapq.heappop(self._heap)
        self._groups.discard(group)
        return group
