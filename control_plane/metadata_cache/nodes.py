"""Which nodes of the shared cache have an entry, and what happens when they do not answer.

Both layouts choose by consistent hashing over the nodes that are not left alone. `sharded` hashes
the entry's name: each node has its share, and that of one which is lost moves to the others, and
nothing else does. `whole-copy` hashes the front end's name: all nodes are filled with everything,
and each front end has one that it asks.

A node that fails is a miss: nothing is asked twice for one entry.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from data_plane.core.deadline import deadline_at_most
from data_plane.ports import CellUnavailableError, Clock, Waits

ANSWER_US: Final = 10_000
"""For how long a request waits for nodes, each time it asks them."""


class Held(NamedTuple):
    """A value that a node has, and the node's own number of the write that put it there."""

    value: bytes
    version: bytes


@dataclass(slots=True)
class NodeCounters:
    """What came of looks at a node: answers that served, and others, by reason.

    Looks that failed are with the node's guard.
    """

    hits: int = 0
    absent: int = 0
    outdated: int = 0
    damaged: int = 0
    fills: int = 0


class CacheNode(Protocol):
    """One node. It forgets what it likes; a value serves for `ttl_s` seconds at most.

    Methods raise CellUnavailableError.
    """

    @property
    def name(self) -> str:
        """Its address, the same on all front ends."""
        ...

    @property
    def counters(self) -> NodeCounters:
        """Counted by whoever asks it."""
        ...

    @property
    def is_left_alone(self) -> bool:
        """Whether it has failed, and a call would not be made."""
        ...

    async def find(self, names: Sequence[str]) -> Mapping[str, Held]:
        """What it has under these names."""
        ...

    async def replace(self, name: str, value: bytes, seen: Held | None, ttl_s: int) -> bool:
        """Put a value where `seen` still is (None: nothing); whether that was so."""
        ...

    async def put(self, name: str, value: bytes, ttl_s: int) -> None:
        """Put a value, whatever is there."""
        ...


Choose = Callable[[str, Sequence[str]], str | None]
"""Consistent hashing: which of these nodes has what is called so; None where there are none.

Without one of the others the choice is the same.
"""


class Found(NamedTuple):
    """The node that was asked and has answered, and what it has."""

    node: CacheNode
    held: Held | None


class CacheNodes:
    """The nodes of the shared cache, as the front end `own_name` uses them.

    Each of them has its share of what is cached, or with `whole_copy` all of it.
    """

    def __init__(  # noqa: PLR0913 - ports, and what its operator decides
        self,
        nodes: Sequence[CacheNode],
        clock: Clock,
        waits: Waits,
        choose: Choose,
        *,
        own_name: str,
        whole_copy: bool,
    ) -> None:
        self.nodes = tuple(nodes)
        self._nodes = {node.name: node for node in nodes}
        self._whole_copy = whole_copy
        self._own_name = own_name
        self._clock = clock
        self._waits = waits
        self._choose = choose

    def chosen(self, name: str) -> CacheNode | None:
        """The node to ask for this entry; None where all are left alone."""
        answering = [node.name for node in self._answering()]
        chosen = self._choose(self._own_name if self._whole_copy else name, answering)
        return None if chosen is None else self._nodes[chosen]

    async def find(self, names: Iterable[str]) -> dict[str, Found]:
        """What there is under these names; those whose node does not answer are missing."""
        asked: dict[str, list[str]] = {}
        for name in names:
            node = self.chosen(name)
            if node is not None:
                asked.setdefault(node.name, []).append(name)
        found: dict[str, Found] = {}

        async def ask(node: CacheNode, names: list[str]) -> None:
            held = await node.find(names)
            found.update({name: Found(node, held.get(name)) for name in names})

        await self._all([ask(self._nodes[node], names) for node, names in asked.items()])
        return found

    async def fill(
        self, name: str, value: bytes, found: Found, keeps: Callable[[bytes], bool], ttl_s: int
    ) -> None:
        """Put a value where the look found none that serves, unless something has come since.

        Where all nodes have everything the others get it, too, but for those whose own value
        `keeps` says is to be kept.
        """

        async def replace(node: CacheNode, held: Held | None) -> None:
            node.counters.fills += await node.replace(name, value, held, ttl_s)

        async def replace_older(node: CacheNode) -> None:
            held = (await node.find([name])).get(name)
            if held is None or not keeps(held.value):
                await replace(node, held)

        calls = [replace(*found)]
        if self._whole_copy:
            calls += [replace_older(node) for node in self._answering() if node is not found.node]
        await self._all(calls)

    async def put(self, name: str, value: bytes, ttl_s: int) -> None:
        """Put a value wherever somebody may look for it, whatever is there."""
        targets = self._answering() if self._whole_copy else [self.chosen(name)]
        await self._all([node.put(name, value, ttl_s) for node in targets if node is not None])

    def _answering(self) -> list[CacheNode]:
        return [node for node in self.nodes if not node.is_left_alone]

    async def _all(self, calls: Sequence[Awaitable[None]]) -> None:
        """Make these calls. Those of nodes that do not answer end in the counters of their guards.

        Who asks has other ways to learn what it must know.
        """
        if not calls:
            return
        with deadline_at_most(self._clock.now_us() + ANSWER_US):
            for outcome in await self._waits.all_of(calls):
                if isinstance(outcome, Exception) and not isinstance(outcome, CellUnavailableError):
                    raise outcome
