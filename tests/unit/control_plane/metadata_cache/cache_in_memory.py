"""Front ends over one registry's cell and the same nodes, all in memory, in virtual time."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from control_plane.metadata_cache.cached_cell import CachedCell
from control_plane.metadata_cache.entries import Entries
from control_plane.metadata_cache.memcached import choose_node
from control_plane.metadata_cache.nodes import CacheNodes, Held, NodeCounters
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, CellUnavailableError, Key
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy


@dataclass
class MemoryNode:
    """A node that forgets nothing, unless a test says so."""

    name: str
    counters: NodeCounters = field(default_factory=NodeCounters)
    is_left_alone: bool = False
    is_away: bool = False
    values: dict[str, Held] = field(default_factory=dict)
    asked: int = 0
    ttls_s: list[int] = field(default_factory=list)
    writes: int = 0

    def _answer(self) -> None:
        self.asked += 1
        if self.is_away:
            raise CellUnavailableError(f"{self.name} is away")

    async def find(self, names: Sequence[str]) -> Mapping[str, Held]:
        self._answer()
        return {name: self.values[name] for name in names if name in self.values}

    async def replace(self, name: str, value: bytes, seen: Held | None, ttl_s: int) -> bool:
        self._answer()
        held = self.values.get(name)
        if (held and held.version) != (seen and seen.version):
            return False
        await self.put(name, value, ttl_s)
        return True

    async def put(self, name: str, value: bytes, ttl_s: int) -> None:
        self._answer()
        self.writes += 1
        self.ttls_s.append(ttl_s)
        self.values[name] = Held(value, str(self.writes).encode())


class CountedCell(MemoryCell):
    """Counts reads, can be away, and lets a test in before a read returns."""

    reads = 0
    is_away = False
    meanwhile: Callable[[], Coroutine[Any, Any, object]] | None = None

    async def _read(self) -> None:
        if self.is_away:
            raise CellUnavailableError("away")
        interlude, self.meanwhile = self.meanwhile, None
        if interlude is not None:
            await interlude()

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        self.reads += 1
        item = await super().get(key, strong=strong)
        await self._read()
        return item

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        self.reads += len(keys)
        items = await super().get_many(keys, strong=strong)
        await self._read()
        return items


class Ground:
    """A cell, nodes, and the front ends that a test opens over them."""

    def __init__(self, nodes: int = 3, *, whole_copy: bool = False) -> None:
        self.clock = HandClock()
        self.cell = CountedCell(self.clock)
        self.nodes = [MemoryNode(f"node-{number}:11211") for number in range(nodes)]
        self.whole_copy = whole_copy
        self.entries = Entries(SECRET)
        self.opened = 0

    def cache_nodes(self, clock: HandClock | None = None) -> CacheNodes:
        self.opened += 1
        own = clock or self.clock
        return CacheNodes(
            self.nodes,
            own,
            EventLoopWaits(own),
            choose_node,
            own_name=f"front end {self.opened}",
            whole_copy=self.whole_copy,
        )

    def front_end(self, clock: HandClock | None = None, secret: bytes = SECRET) -> CachedCell:
        nodes = self.cache_nodes(clock)
        own, entropy = clock or self.clock, SeededEntropy(self.opened)
        return CachedCell(self.cell, nodes, Entries(secret), own, entropy)

    def total(self, counter: str) -> int:
        return sum(getattr(node.counters, counter) for node in self.nodes)
